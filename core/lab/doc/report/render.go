package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"transportbench/core/lab/store/format"
)

// uPlotVersion is the version of uPlot in assets.
const uPlotVersion = "1.6.32"

//go:embed assets
var assets embed.FS

// scripts lists the parts of the script; each uses those before it.
var scripts = []string{"uPlot.iife.min.js", "data.js", "dom.js", "chart.js", "filter.js",
	"answers.js", "overview.js", "curves.js", "scaling.js", "replays.js", "cell.js", "main.js"}

// static has what is the same on every page.
type static struct {
	body          *template.Template
	script, style string
	policy        string
}

var loadStatic = sync.OnceValue(func() *static {
	read := func(names ...string) string {
		var b strings.Builder
		for _, name := range names {
			text, err := assets.ReadFile("assets/" + name)
			if err != nil {
				panic(err) // not reached: the assets are embedded
			}
			b.Write(text)
			b.WriteByte('\n')
		}
		return b.String()
	}
	s := &static{
		body: template.Must(template.New("page").
			Funcs(template.FuncMap{"breakable": breakable}).
			Parse(read("fastest.html", "history.html", "paths.html", "page.html"))),
		script: "/*!\n" + read("uPlot.LICENSE") + "*/\n" + read(scripts...),
		style:  read("uPlot.min.css", "style.css", "history.css"),
	}
	s.policy = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; "+
		"base-uri 'none'; form-action 'none'", hashOf(s.script), hashOf(s.style))
	return s
})

// breakable returns a word of a column's name, which may wrap after the "=" of an option that is
// wider than the column.
func breakable(word string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(word), "=", "=<wbr>"))
}

// hashOf returns the hash by which the page's policy allows a script or style.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Title returns machine, version and date for display.
func (p *Page) Title() string { return p.doc.Title }

// Render writes the page as one HTML file.
func (p *Page) Render(w io.Writer) error {
	s := loadStatic()
	var body bytes.Buffer
	err := s.body.Execute(&body, map[string]any{
		"Doc": p.doc, "Heat": p.heat, "HeatAcross": p.heatAcross, "Phases": p.phases,
		"Changes": p.changes, "Trust": p.trust, "MinEffects": p.minEffects,
		"History": p.history, "Calibrations": p.calibrated, "Traces": p.traces,
		"Documents": p.documents, "Paths": p.paths,
		"Handoffs": p.handoffs,
		"Cells":    format.Count(len(p.doc.Cells.Label), "cell"), "UPlot": uPlotVersion,
	})
	if err != nil {
		return err
	}
	data, err := pack(p.doc)
	if err != nil {
		return err
	}
	policy := s.policy
	if p.doc.Live {
		policy += "; connect-src 'self'"
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "+
		"http-equiv=\"Content-Security-Policy\" content=\"%s\">\n", policy)
	fmt.Fprintf(b, "<meta name=\"viewport\" content=\"width=device-width, "+
		"initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<link "+
		"rel=\"icon\" href=\"data:,\">\n<title>%s · transportbench</title>\n",
		template.HTMLEscapeString(p.doc.Title))
	fmt.Fprintf(b, "<style>%s</style>\n</head>\n<body class=\"no-script\">\n", s.style)
	if _, err := body.WriteTo(b); err != nil {
		return err
	}
	// Base64 has no characters that are special in HTML.
	fmt.Fprintf(b, "<script type=\"text/plain\" id=\"data\">%s</script>\n", encoded(data))
	for i, chunk := range p.chunks {
		fmt.Fprintf(b, "<script type=\"text/plain\" id=\"chunk-%d\">%s</script>\n", i,
			encoded(chunk))
	}
	fmt.Fprintf(b, "<script>%s</script>\n</body>\n</html>\n", s.script)
	return b.Flush()
}

// phrases are what most of the page repeats, in JSON. A packed text has a control character for
// each, which JSON does not have: this saves the compressor two bytes for most cells of tables.
var phrases = []string{
	`</td><td class=\"right\">`, `</td><td>`, `</th><td class=\"right\">`, `</th><td>`,
	`</td></tr>\n<tr><th scope=\"row\">`, `","<tr><th scope=\"row\">`, `<a href=\"#cell-`,
}

var phrasing = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for i, phrase := range phrases {
		pairs = append(pairs, phrase, string(rune(1+i)))
	}
	return strings.NewReplacer(pairs...)
})

// pack returns a value as compressed JSON, after a line with the phrases in it.
func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := errors.Join(json.NewEncoder(z).Encode(phrases), e.Encode(v)); err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	_, err = phrasing().WriteString(z, text.String())
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

// encoded returns packed data as text for HTML.
func encoded(packed []byte) string { return base64.StdEncoding.EncodeToString(packed) }
