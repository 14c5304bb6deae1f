package cellpage

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
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Cell is a cell with what its page shows of the overview.
type Cell struct {
	*set.Cell
	Number, Look int
	Last         bool   // of the report
	Label        string // with the set if there are several
	SeriesName   string
	// Shown has the windows whose figures are shown, and Windows names them.
	Shown   *set.Cell
	Windows string
	// States are the figures in each state of the machine, and Counts its windows in each.
	States      string
	Counts      state.Counts
	Environment int // index of the machine's table, or -1
	Metrics     []result.Definition
	Predictions []analyze.Prediction
}

// Page is the page of one cell: HTML with places for charts, which the script fills.
type Page struct {
	// Service and Response are for the chart of percentiles, and Spectrum is their table.
	Service  []float64 `json:"service,omitempty"`
	Response []float64 `json:"response,omitempty"`
	Spectrum *Table    `json:"spectrum,omitempty"`

	Parts []string `json:"-"` // HTML
}

// Chunk has the pages of some cells. Parts has the first part of each, then the second of each:
// parts that resemble each other are next to each other, which compresses better.
type Chunk struct {
	Cells []*Page    `json:"cells"`
	Parts [][]string `json:"parts"`
}

// NewChunk returns the chunk of pages.
func NewChunk(pages []*Page) Chunk {
	c := Chunk{Cells: pages}
	for at := range pages[0].Parts {
		var list []string
		for _, p := range pages {
			list = append(list, p.Parts[at])
		}
		c.Parts = append(c.Parts, list)
	}
	return c
}

// part adds a section with a document, below the place of a chart. It is left out if it has
// neither.
func (p *Page) part(title, chart string, content *doc.Doc) {
	text := chart + doc.HTML(content)
	if text != "" {
		text = "<section><h3>" + title + "</h3>" + text + "</section>"
	}
	p.Parts = append(p.Parts, text)
}

// NewPage makes the page of a cell.
func NewPage(c *Cell, d *Details) *Page {
	p := &Page{Service: d.service, Response: d.response, Parts: []string{headOf(c, d)}}
	analysis, loops, start := new(doc.Doc), new(doc.Doc), new(doc.Doc)
	if d.Analysis != nil {
		analysis = findings.Analyze(&findings.Analysis{Cells: []findings.AnalyzedCell{
			{Cell: c.Label, Analysis: d.Analysis, Windows: c.Counts,
				Shown: c.Windows, Predictions: c.Predictions},
		}}, false)
	}
	p.part("Analysis", "", analysis)
	p.part("Figures", "", figures(c))
	p.part("Classes of traffic", "", tables.Classes(d.classes))
	p.part("Pairs of ranks", "", tables.Flows(d.flows, 0))
	spectrum, repeats := "", ""
	if p.Spectrum = spectrumTable(c, d); p.Spectrum != nil {
		spectrum =
			`<figure class="later" data-chart="spectrum"></figure><details class="table"><summary>The percentiles, as a table</summary><div data-table="spectrum"></div></details>`
	}
	p.part("Percentiles, all repeats merged", spectrum, new(doc.Doc))
	if len(c.Samples[result.Throughput]) > 1 {
		repeats = `<figure class="later" data-chart="repeats"></figure>`
	}
	p.part("Repeats", repeats, new(doc.Doc))
	if len(d.loops) > 0 {
		loops = tables.RankLoops(d.loops, math.MaxInt)
	}
	p.part("The daemons' loop", "", loops)
	if d.Start != nil {
		start = findings.Breakdown(d.Start)
	}
	p.part(StartTitle, "", start)
	p.part("Checks", "", checks(c, d))
	p.part("Raw samples", "", samples(c))
	p.part("Configuration", "", pairs("Options as resolved", c.Config))
	machine := `<p class="note">The machine is unknown.</p>`
	if c.Environment >= 0 {
		machine = fmt.Sprintf(`<div data-machine="%d"></div>`, c.Environment)
	}
	p.part("Environment", machine, pairs("Plugin", flat(d.plugin)))
	runs := new(doc.Doc)
	for i, r := range d.results {
		file := "-"
		if i < len(c.Files) {
			file = c.Files[i].Name
		}
		runs.Append(runDoc(r, file))
	}
	p.part("Runs", "", runs)
	return p
}

// headOf is what is above the sections: links to other pages, and the name of the cell.
func headOf(c *Cell, d *Details) string {
	head := `<p><a href="#back" id="back">← all cells</a> `
	if c.Number > 0 {
		head += fmt.Sprintf(`<a href="#cell-%d">previous</a> `, c.Number-1)
	}
	if !c.Last {
		head += fmt.Sprintf(`<a href="#cell-%d">next</a>`, c.Number+1)
	}
	about := []string{c.SeriesName, c.Plugin.Version, moment(c.StartedAt)}
	if c.Status != set.Measured {
		about = append(about, string(c.Status)+": "+c.Reason)
	}
	about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
	head += fmt.Sprintf(
		`</p><h2 tabindex="-1"><span class="sw s%d" aria-hidden="true"></span>%s</h2><p class="meta">%s</p>`,
		c.Look, escape(c.Label), escape(strings.Join(about, " · ")))
	if d.problem != "" {
		head += `<p class="notice">` + escape(d.problem) + `</p>`
	}
	return head
}

func figures(c *Cell) *doc.Doc {
	out := new(doc.Doc)
	if c.States != "" {
		out.Paragraph("Throughput in the machine's states: %s", c.States)
	}
	caption := "Medians over the repeats; response times of open loops over all windows together"
	if c.Windows != "" {
		caption = "Medians over " + c.Windows + " windows"
	}
	var names []string
	for _, m := range c.Metrics {
		names = append(names, m.Name)
	}
	out.Append(tables.Figures(caption, c.Shown, names))
	return out
}

// spectrumShares are the percentiles of the tables of spectra.
var spectrumShares = []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999}

// spectrumTable has the percentiles of a cell, or is nil without any.
func spectrumTable(c *Cell, d *Details) *Table {
	names, grid := []string{"cell", "time"}, Grid()
	var at []int
	for _, share := range spectrumShares {
		i := slices.IndexFunc(grid, func(g float64) bool { return g >= share-1e-9 })
		at = append(at, i)
		names = append(names, ">"+Share(grid[i]))
	}
	t := doc.NewTable(names...)
	for _, of := range []struct {
		kind   string
		values []float64
	}{{"service", d.service}, {"response", d.response}} {
		if len(of.values) == 0 {
			continue
		}
		row := []any{Link(c.Number, c.Label), of.kind}
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
	return NewTable("Merged percentiles", t)
}

// Link is a link to a cell's page.
func Link(cell int, label string) doc.Cell {
	return doc.Cell{Text: label, Link: "#cell-" + strconv.Itoa(cell)}
}

// Share formats 0.999 as 99.9%.
func Share(share float64) string {
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
func checks(c *Cell, d *Details) *doc.Doc {
	out := new(doc.Doc)
	var all []result.Finding
	known := map[string]bool{}
	for _, check := range d.Checks {
		all = append(all, check)
		known[check.Name] = known[check.Name] || !check.OK
	}
	for _, w := range c.Warnings {
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
		switch {
		case !c.OK:
			outcome = doc.CellOf(c.Severity)
		case c.NotJudged:
			outcome = doc.CellOf("not judged")
		}
		t.Row(c.Name, outcome, strings.TrimPrefix(c.Message, result.Unjudged))
	}
	out.Line("Checks, failed ones first")
	out.Add(t)
	return out
}

func rankOK(c result.Finding) int {
	switch {
	case c.NotJudged:
		return 2
	case c.OK:
		return 1
	}
	return 0
}

// samples has one value per repeat.
func samples(c *Cell) *doc.Doc {
	repeats := c.Repeats()
	names := []string{"metric", "unit"}
	for i := range repeats {
		names = append(names, ">"+strconv.Itoa(i))
	}
	t := doc.NewTable(names...)
	for _, m := range c.Metrics {
		if c.Samples[m.Name] == nil {
			continue
		}
		row := []any{m.Name, m.Unit}
		for at := range repeats {
			if values := c.Samples[m.Name]; at < len(values) {
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

func runDoc(r *result.Result, file string) *doc.Doc {
	out := new(doc.Doc)
	out.Paragraph("%s", strings.Join(r.Argv, " "))
	why := r.IncompleteReason
	if f := r.Failure; f != nil {
		why = strings.TrimSpace(
			fmt.Sprintf("%s: rank %d, %s: %s", why, f.Rank, f.Operation, f.Error))
	}
	if why != "" {
		out.Paragraph("Incomplete: %s", why)
	}
	about := map[string]string{"file": file, "started": moment(r.StartedAt)}
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
