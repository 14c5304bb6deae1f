package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// cellPage is the page of one cell: HTML with places for charts, which the script fills.
type cellPage struct {
	// Service and Response are those of the detail, for the chart of percentiles, and Spectrum is
	// their table.
	Service  []float64 `json:"service,omitempty"`
	Response []float64 `json:"response,omitempty"`
	Spectrum *table    `json:"spectrum,omitempty"`

	parts []string // HTML
}

// chunk has the pages of some cells. Parts has the first part of each, then the second of each:
// parts that resemble each other are next to each other, which compresses better.
type chunk struct {
	Cells []*cellPage `json:"cells"`
	Parts [][]string  `json:"parts"`
}

func newChunk(pages []*cellPage) chunk {
	c := chunk{Cells: pages}
	for at := range pages[0].parts {
		var list []string
		for _, p := range pages {
			list = append(list, p.parts[at])
		}
		c.Parts = append(c.Parts, list)
	}
	return c
}

// part adds a section with a document, below the place of a chart. It is left out if it has
// neither.
func (p *cellPage) part(title, chart string, content *doc.Doc) {
	text := chart + doc.HTML(content)
	if text != "" {
		text = "<section><h3>" + title + "</h3>" + text + "</section>"
	}
	p.parts = append(p.parts, text)
}

// pageOf makes the page of a cell.
func (b *builder) pageOf(cell int, d *detail) *cellPage {
	c := &b.doc.Cells
	p := &cellPage{Service: d.Service, Response: d.Response, parts: []string{b.headOf(cell, d)}}
	analysis, loops, start := new(doc.Doc), new(doc.Doc), new(doc.Doc)
	if d.Analysis != nil {
		analysis = findings.Analyze(&findings.Analysis{
			Cells: []findings.AnalyzedCell{{Cell: b.label(cell), Analysis: d.Analysis}}}, false)
	}
	p.part("Analysis", "", analysis)
	p.part("Figures", "", b.figures(cell))
	p.part("Classes of traffic", slowdowns(d.Classes), tables.Classes(d.Classes))
	p.part("Pairs of ranks", "", tables.Flows(d.Flows, 0))
	spectrum, repeats := "", ""
	if p.Spectrum = b.spectrumTable(cell, d); p.Spectrum != nil {
		spectrum =
			`<figure class="later" data-chart="spectrum"></figure><details class="table"><summary>The percentiles, as a table</summary><div data-table="spectrum"></div></details>`
	}
	p.part("Percentiles, all repeats merged", spectrum, new(doc.Doc))
	if len(c.Repeats[result.Throughput][cell]) > 1 {
		repeats = `<figure class="later" data-chart="repeats"></figure>`
	}
	p.part("Repeats", repeats, new(doc.Doc))
	if len(d.Loops) > 0 {
		loops = tables.RankLoops(d.Loops, math.MaxInt)
	}
	p.part("The daemons' loop", "", loops)
	if d.Start != nil {
		start = findings.Breakdown(d.Start)
	}
	p.part(startTitle, "", start)
	p.part("Checks", "", checks(d))
	p.part("Raw samples", "", b.samples(d))
	p.part("Rates within windows", "", rates(d.Rates))
	p.part("Configuration", "", pairs("Options as resolved", d.Config))
	machine := `<p class="note">The machine is unknown.</p>`
	if e := c.Environment[cell]; e >= 0 {
		machine = fmt.Sprintf(`<div data-machine="%d"></div>`, e)
	}
	p.part("Environment", machine, pairs("Plugin", flat(d.Plugin)))
	runs := new(doc.Doc)
	for i := range d.Runs {
		runs.Append(runDoc(&d.Runs[i]))
	}
	p.part("Runs", "", runs)
	return p
}

// headOf is what is above the sections: links to other pages, and the name of the cell.
func (b *builder) headOf(cell int, d *detail) string {
	head := `<p><a href="#back" id="back">← all cells</a> `
	if cell > 0 {
		head += fmt.Sprintf(`<a href="#cell-%d">previous</a> `, cell-1)
	}
	if cell+1 < len(b.cells) {
		head += fmt.Sprintf(`<a href="#cell-%d">next</a>`, cell+1)
	}
	head += fmt.Sprintf(
		`</p><h2 tabindex="-1"><span class="sw s%d" aria-hidden="true"></span>%s</h2><p class="meta">%s</p>`,
		b.doc.Cells.Series[cell]%8, escape(b.label(cell)),
		escape(strings.Join(b.aboutCell(cell, d), " · ")))
	if d.Problem != "" {
		head += `<p class="notice">` + escape(d.Problem) + `</p>`
	}
	return head
}

// label returns a cell's label, with its set if there are several.
func (b *builder) label(cell int) string {
	if len(b.sets) > 1 {
		return b.names[b.doc.Cells.Set[cell]] + ": " + b.doc.Cells.Label[cell]
	}
	return b.doc.Cells.Label[cell]
}

// aboutCell returns the line below the title of a cell's page.
func (b *builder) aboutCell(cell int, d *detail) []string {
	c := b.cells[cell]
	about := []string{b.doc.Series[b.doc.Cells.Series[cell]].String(), c.Plugin.Version,
		d.StartedAt}
	if c.Status != set.Measured {
		about = append(about, string(c.Status)+": "+c.Reason)
	}
	return slices.DeleteFunc(about, func(s string) bool { return s == "" })
}

// statesText has the throughput and the ratio to the floor in each state of the machine.
func statesText(states []inState) string {
	var parts []string
	for _, s := range states {
		text := s.State + " " + format.Value(s.Metric)
		if s.Ratio != nil {
			text += ", " + format.Digits(*s.Ratio) + " x the floor"
		}
		parts = append(parts, text+" ("+format.Count(s.Metric.N, "window")+")")
	}
	return strings.Join(parts, "; ")
}

// figures has the summaries of a cell.
func (b *builder) figures(cell int) *doc.Doc {
	out := new(doc.Doc)
	if states := b.doc.Cells.StateTexts[cell]; states != "" {
		out.Paragraph("Throughput in the machine's states: %s", states)
	}
	caption := "Medians over the repeats; response times of open loops over all windows together"
	if windows := b.doc.Cells.Windows[cell]; windows != "" {
		caption = "Medians over " + windows + " windows"
	}
	var names []string
	for i := range b.doc.Metrics {
		names = append(names, b.doc.Metrics[i].Name)
	}
	out.Append(tables.Figures(caption, b.shown[cell], names))
	return out
}

// slowdowns draws how much each class of traffic is slowed by the others.
func slowdowns(figures []result.ClassFigures) string {
	most := 1.0
	for _, f := range figures {
		if f.Slowdown != nil {
			most = max(most, f.Slowdown.Median)
		}
	}
	var names []string
	var rows strings.Builder
	for _, f := range figures {
		if !slices.Contains(names, f.Class) {
			names = append(names, f.Class)
		}
		if f.Slowdown != nil {
			fmt.Fprintf(&rows,
				`<div class="bar-row"><span class="bar-label">%s</span><svg class="bar" role="img" aria-label="%[1]s: %s"><rect width="%.6g%%" y="2" height="16" class="s%d"/><line class="zero" x1="%.6g%%" x2="%[5]g%%" y1="0" y2="20"/></svg><span class="bar-value">%[2]s</span></div>`,
				escape(f.Class+" "+f.Metric), format.Value(*f.Slowdown), 100*f.Slowdown.Median/most,
				slices.Index(names, f.Class)%8, 100/most)
		}
	}
	if rows.Len() == 0 {
		return ""
	}
	return `<figure class="bars slowdowns"><figcaption>How many times worse a class is with the others than alone; 1, the dashed line, is no difference</figcaption>` + rows.String() + `</figure>`
}

// spectrumShares are the percentiles of the tables of spectra.
var spectrumShares = []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999}

// spectrumTable has the percentiles of a cell, or is nil without any.
func (b *builder) spectrumTable(cell int, d *detail) *table {
	names := []string{"cell", "time"}
	var at []int
	for _, share := range spectrumShares {
		i := slices.IndexFunc(grid(), func(g float64) bool { return g >= share-1e-9 })
		at = append(at, i)
		names = append(names, ">"+b.doc.Grid[i].Text)
	}
	t := doc.NewTable(names...)
	for _, of := range []struct {
		kind   string
		values []float64
	}{{"service", d.Service}, {"response", d.Response}} {
		if len(of.values) == 0 {
			continue
		}
		row := []any{b.link(cell), of.kind}
		for _, i := range at {
			if i < len(of.values) {
				row = append(row, doc.Time(of.values[i]))
			} else {
				row = append(row, doc.None())
			}
		}
		t.Row(row...)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return tableHTML("Merged percentiles", t)
}

// link is a link to a cell's page.
func (b *builder) link(cell int) doc.Cell { return linkTo(cell, b.label(cell)) }

func linkTo(cell int, label string) doc.Cell {
	return doc.Cell{Text: label, Link: "#cell-" + strconv.Itoa(cell)}
}

// shareText formats 0.999 as 99.9%.
func shareText(share float64) string {
	nines := 0
	if share >= 0.9 {
		nines = max(0, int(math.Ceil(-math.Log10(1-share)-1e-9))-1)
	}
	text := strconv.FormatFloat(100*share, 'f', min(8, nines), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "%"
}

// checks lists all checks, the failed ones first, with what the set found besides. The analysis has
// its own findings.
func checks(d *detail) *doc.Doc {
	out := new(doc.Doc)
	var all []result.Finding
	known := map[string]bool{}
	for _, r := range d.Runs {
		for _, c := range r.Checks {
			all = append(all, c)
			known[c.Name] = known[c.Name] || !c.OK
		}
	}
	for _, w := range d.Warnings {
		if !known[w.Name] {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		out.Line("There are no checks.")
		return out
	}
	slices.SortStableFunc(all, func(x, y result.Finding) int { return rankOK(x) - rankOK(y) })
	t := doc.NewTable("check", "outcome", "message").Wrap(40, "message")
	for _, c := range all {
		outcome := doc.CellOf("ok")
		if !c.OK {
			outcome = doc.CellOf(c.Severity)
		}
		t.Row(c.Name, outcome, c.Message)
	}
	out.Line("Checks, failed ones first")
	out.Add(t)
	return out
}

func rankOK(c result.Finding) int {
	if c.OK {
		return 1
	}
	return 0
}

// samples has one value per repeat.
func (b *builder) samples(d *detail) *doc.Doc {
	most := 0
	for _, values := range d.Samples {
		most = max(most, len(values))
	}
	names := []string{"metric", "unit"}
	for i := range most {
		names = append(names, ">"+strconv.Itoa(i))
	}
	t := doc.NewTable(names...)
	for i := range b.doc.Metrics {
		m := &b.doc.Metrics[i]
		if d.Samples[m.Name] == nil {
			continue
		}
		row := []any{m.Name, m.Unit}
		for at := range most {
			if values := d.Samples[m.Name]; at < len(values) {
				row = append(row, unrounded(values[at]))
			} else {
				row = append(row, "")
			}
		}
		t.Row(row...)
	}
	out := new(doc.Doc)
	out.Line("One value per repeat, unrounded")
	out.Add(t)
	return out
}

// unrounded formats all digits, as JSON does.
func unrounded(v float64) string {
	all, err := json.Marshal(v)
	if err != nil {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return string(all)
}

// rates has the operations per second in each part of each window.
func rates(rates [][]float64) *doc.Doc {
	out := new(doc.Doc)
	if len(rates) == 0 {
		return out
	}
	names := []string{"repeat"}
	for i := range rates[0] {
		names = append(names, ">"+strconv.Itoa(i+1))
	}
	t := doc.NewTable(names...)
	for i, list := range rates {
		row := []any{strconv.Itoa(i)}
		for j := range rates[0] {
			rate := 0.0
			if j < len(list) {
				rate = list[j]
			}
			row = append(row, tables.Magnitude(rate))
		}
		t.Row(row...)
	}
	fold := &doc.Fold{Title: "Operations per second in each part of each window, as a table"}
	fold.Line("Rates")
	fold.Add(t)
	out.Add(fold)
	return out
}

// flat returns the fields of a value, which nested fields have with dots in their names.
func flat(v any) map[string]string {
	fields, err := set.Flatten(v)
	if err != nil { // it was read from JSON
		return map[string]string{"error": printable.Text(err.Error())}
	}
	return fields
}

// pairs is a table of names and values, by name.
func pairs(caption string, values map[string]string) *doc.Doc {
	t := doc.NewTable("name", "value")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t.Row(name, values[name])
	}
	out := new(doc.Doc)
	out.Line("%s", caption)
	out.Add(t)
	return out
}

func runDoc(r *run) *doc.Doc {
	out := new(doc.Doc)
	out.Paragraph("%s", strings.Join(r.Argv, " "))
	if r.Incomplete != "" {
		out.Paragraph("Incomplete: %s", r.Incomplete)
	}
	about := map[string]string{"file": "-", "started": r.StartedAt}
	if r.File != "" {
		about["file"] = r.File
	}
	if r.ImpairedBy != "" {
		about["network impaired by"] = string(r.ImpairedBy)
	}
	for name, value := range flat(r.Tool) {
		about["tool."+name] = value
	}
	out.Append(pairs("Run "+r.ID, about))
	steps := doc.NewTable("step", ">took")
	for _, s := range r.Setup.Steps {
		steps.Row(s.Name, doc.Time(s.MS*1e6))
	}
	out.Line("Set-up")
	out.Add(steps)
	threads := doc.NewTable("rank", "processors", "affinity", "idle")
	for _, at := range r.Placement {
		var cpus []string
		for _, cpu := range at.CPUs {
			cpus = append(cpus, strconv.Itoa(cpu))
		}
		threads.Row(at.Rank, strings.Join(cpus, ", "), strings.Join(at.Affinity, ", "), at.Idle)
	}
	out.Line("Processors of the threads")
	out.Add(threads)
	for rank := range r.Setup.Ranks {
		for _, path := range r.Setup.Ranks[rank].Paths {
			out.Append(pairs(fmt.Sprintf("Path of the bytes of rank %d", rank), flat(path)))
		}
	}
	return out
}
