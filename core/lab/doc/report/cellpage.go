package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/printable"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// cellPage is the page of one cell: HTML with places for charts and tables, which the script fills.
type cellPage struct {
	HTML string `json:"html"`
	// Service and Response are those of the detail, for the chart of percentiles. Spectrum is the number of
	// their table from 1; 0 without one.
	Service  []float64 `json:"service,omitempty"`
	Response []float64 `json:"response,omitempty"`
	Spectrum int       `json:"spectrum,omitempty"`

	tables []*table
	html   strings.Builder
}

// chunk has the pages of some cells. Tables has the first table of each, then the second of each: tables
// that resemble each other are next to each other, which compresses better.
type chunk struct {
	Cells  []*cellPage `json:"cells"`
	Tables [][]*table  `json:"tables"`
}

func newChunk(pages []*cellPage) chunk {
	c := chunk{Cells: pages, Tables: [][]*table{}}
	for i, p := range pages {
		for at, t := range p.tables {
			if at == len(c.Tables) {
				c.Tables = append(c.Tables, make([]*table, len(pages)))
			}
			c.Tables[at][i] = t
		}
	}
	return c
}

// write adds HTML. Its arguments are escaped.
func (p *cellPage) write(html string, arguments ...string) {
	escaped := make([]any, len(arguments))
	for i, a := range arguments {
		escaped[i] = escape(a)
	}
	fmt.Fprintf(&p.html, html, escaped...)
}

// table adds the place of a table.
func (p *cellPage) table(t *table) {
	p.write(`<div data-table="%s"></div>`, strconv.Itoa(len(p.tables)))
	p.tables = append(p.tables, t.sorted())
}

// part adds a section.
func (p *cellPage) part(title string, content func()) {
	p.write(`<section><h3>%s</h3>`, title)
	content()
	p.write(`</section>`)
}

func (p *cellPage) list(class string, items []string) {
	if len(items) == 0 {
		return
	}
	p.write(`<ul class="%s">`, class)
	for _, item := range items {
		p.write(`<li>%s</li>`, item)
	}
	p.write(`</ul>`)
}

// pageOf makes the page of a cell.
func (b *builder) pageOf(cell int, d *detail) *cellPage {
	p := &cellPage{Service: d.Service, Response: d.Response}
	c := &b.doc.Cells
	p.write(`<p><a href="#back" id="back">← all cells</a> `)
	if cell > 0 {
		p.write(`<a href="#cell-%s">previous</a> `, strconv.Itoa(cell-1))
	}
	if cell+1 < len(b.cells) {
		p.write(`<a href="#cell-%s">next</a>`, strconv.Itoa(cell+1))
	}
	p.write(`</p><h2 tabindex="-1"><span class="sw s%s" aria-hidden="true"></span>%s</h2><p class="meta">%s</p>`,
		strconv.Itoa(c.Series[cell]%8), b.label(cell), strings.Join(b.aboutCell(cell, d), " · "))
	if d.Problem != "" {
		p.write(`<p class="notice">%s</p>`, d.Problem)
	}
	if d.Analysis != nil {
		p.part("Verdict", func() { p.verdict(d.Analysis) })
	}
	p.part("Figures", func() {
		if states := statesText(c.States[cell]); states != "" {
			p.write(`<p>Throughput in the machine's states: %s</p>`, states)
		}
		p.table(b.figureTable(cell))
	})
	if len(d.Classes) > 0 {
		p.part("Classes of traffic", func() { p.classes(d.Classes) })
	}
	if len(d.Flows) > 0 {
		p.part("Pairs of ranks", func() { p.table(flowTable(d.Flows)) })
	}
	if len(d.Service)+len(d.Response) > 0 {
		p.part("Percentiles, all repeats merged", func() {
			p.write(`<figure class="later" data-chart="spectrum"></figure><details class="table" data-fold="cell-spectrum"><summary>The percentiles, as a table</summary>`)
			p.table(b.spectrumTable(cell, d))
			p.Spectrum = len(p.tables)
			p.write(`</details>`)
		})
	}
	if len(c.Repeats[result.Throughput][cell]) > 1 {
		p.part("Repeats", func() { p.write(`<figure class="later" data-chart="repeats"></figure>`) })
	}
	if d.Analysis != nil && len(d.Analysis.Breakdowns) > 0 {
		p.part("Where the time goes", func() {
			for i := range d.Analysis.Breakdowns {
				p.breakdown(&d.Analysis.Breakdowns[i])
			}
		})
	}
	if len(d.Loops) > 0 {
		p.part("The daemons' loop", func() { p.loops(d.Loops) })
	}
	if d.Start != nil {
		p.part(startTitle, func() { p.breakdown(d.Start) })
	}
	if d.Analysis != nil && d.Analysis.Stalls != nil {
		p.part("Longest stalls", func() { p.stalls(d.Analysis.Stalls) })
	}
	p.part("Checks", func() { p.checks(d) })
	p.part("Raw samples", func() { p.table(b.sampleTable(d)) })
	if len(d.Rates) > 0 {
		p.part("Rates within windows", func() { p.rates(d.Rates) })
	}
	p.part("Configuration", func() { p.table(pairTable("Options as resolved", d.Config)) })
	p.part("Environment", func() {
		if e := c.Environment[cell]; e >= 0 {
			p.write(`<div data-machine="%s"></div>`, strconv.Itoa(e))
		} else {
			p.write(`<p class="note">The machine is unknown.</p>`)
		}
		p.table(pairTable("Plugin", flat(d.Plugin)))
	})
	if len(d.Runs) > 0 {
		p.part("Runs", func() {
			for i := range d.Runs {
				p.run(&d.Runs[i])
			}
		})
	}
	p.HTML = p.html.String()
	return p
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
	about := []string{b.doc.Series[b.doc.Cells.Series[cell]].String(), c.Plugin.Version, d.StartedAt}
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

func (p *cellPage) verdict(a *analyze.Analysis) {
	p.write(`<div><p><strong>%s</strong>`, string(a.Verdict.Bound))
	if a.Verdict.Message != "" {
		p.write(`: %s`, a.Verdict.Message)
	}
	p.write(`</p>`)
	p.list("", a.Verdict.Evidence)
	var losses []string
	for _, o := range a.Overheads {
		losses = append(losses, o.Message)
	}
	p.list("", losses)
	p.list("quiet", a.Missing)
	p.write(`</div>`)
}

func (b *builder) figureTable(cell int) *table {
	caption := "Medians over the repeats; response times of open loops over all windows together"
	if windows := b.doc.Cells.Windows[cell]; windows != "" {
		caption = "Medians over " + windows + " windows"
	}
	t := newTable(caption, nil, "metric*", ">median", ">95% interval", ">repeats", "meaning")
	for i := range b.doc.Metrics {
		def := &b.doc.Metrics[i]
		if m := b.summary(cell, def.Name); m != nil {
			t.add(text(def.Name), text(format.Value(*m)), intervalEntry(m), text(strconv.Itoa(m.N)), text(def.Help))
		}
	}
	return t
}

// summary returns a cell's summary of one metric, or nil.
func (b *builder) summary(cell int, name string) *result.Metric {
	if m, known := b.metric(cell, name); known {
		return &m
	}
	return nil
}

// classes draws how much each class of traffic is slowed by the others, above a table of its figures.
func (p *cellPage) classes(figures []result.ClassFigures) {
	most := 1.0
	for _, f := range figures {
		if f.Slowdown != nil {
			most = max(most, f.Slowdown.Median)
		}
	}
	percent := func(v float64) string { return strconv.FormatFloat(100*v/most, 'g', 6, 64) }
	var names []string
	t := newTable("Medians with all classes at once, alone, and the former over the latter", nil, "class", "metric", ">together", ">alone", ">slowdown", ">95% interval")
	drawn := false
	for _, f := range figures {
		if !slices.Contains(names, f.Class) {
			names = append(names, f.Class)
		}
		metric := f.Metric
		if f.Objective != "" {
			metric += " of " + f.Objective
		}
		t.add(text(f.Class), text(metric), metricEntry(f.Together), metricEntry(f.Alone), metricEntry(f.Slowdown), intervalEntry(f.Slowdown))
		if f.Slowdown == nil {
			continue
		}
		if !drawn {
			drawn = true
			p.write(`<figure class="bars slowdowns"><figcaption>How many times worse a class is with the others than alone; 1, the dashed line, is no difference</figcaption>`)
		}
		value := format.Value(*f.Slowdown)
		p.write(`<div class="bar-row"><span class="bar-label">%s %s</span><svg class="bar" role="img" aria-label="%s %s: %s"><rect width="%s%%" y="2" height="16" class="s%s"/><line class="zero" x1="%s%%" x2="%[8]s%%" y1="0" y2="20"/></svg><span class="bar-value">%[5]s</span></div>`,
			f.Class, f.Metric, f.Class, f.Metric, value, percent(f.Slowdown.Median), strconv.Itoa(slices.Index(names, f.Class)%8), percent(1))
	}
	if drawn {
		p.write(`</figure>`)
	}
	p.table(t)
}

func flowTable(flows []result.Flow) *table {
	all := 0.0
	for _, f := range flows {
		all += f.PerSecond
	}
	t := newTable("Operations by the calling rank and the rank that it called; times are service times", nil,
		">from*", ">to*", ">throughput*", ">share", ">mean*", ">p50*", ">p99*", ">max*")
	for _, f := range flows {
		t.add(number(f.From), number(f.To), figure(format.Rate(f.PerSecond), f.PerSecond), text(percentOf(f.PerSecond/all)),
			duration(f.Latency.Mean), duration(f.Latency.P50), duration(f.Latency.P99), duration(f.Latency.Max))
	}
	return t
}

func number(n int) entry { return figure(strconv.Itoa(n), float64(n)) }

func duration(ns float64) entry { return figure(format.Time(ns), ns) }

// spectrumShares are the percentiles of the tables of spectra.
var spectrumShares = []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999}

func (b *builder) spectrumTable(cell int, d *detail) *table {
	names := []string{"cell", "time"}
	var at []int
	for _, share := range spectrumShares {
		i := slices.IndexFunc(b.doc.Grid, func(g float64) bool { return g >= share-1e-9 })
		at = append(at, i)
		names = append(names, ">"+shareText(b.doc.Grid[i]))
	}
	t := newTable("Merged percentiles", nil, names...)
	for _, of := range []struct {
		kind   string
		values []float64
	}{{"service", d.Service}, {"response", d.Response}} {
		if len(of.values) == 0 {
			continue
		}
		row := []entry{b.link(cell), text(of.kind)}
		for _, i := range at {
			if i < len(of.values) {
				row = append(row, duration(of.values[i]))
			} else {
				row = append(row, text("-"))
			}
		}
		t.add(row...)
	}
	return t
}

// link is a link to a cell's page. Its column sorts as the cells are numbered.
func (b *builder) link(cell int) entry { return b.linkAs(cell, b.label(cell)) }

func (b *builder) linkAs(cell int, label string) entry {
	return markup(fmt.Sprintf(`<a href="#cell-%d">%s</a>`, cell, escape(label)), float64(cell))
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

func (p *cellPage) breakdown(d *analyze.Breakdown) {
	t := newTable(d.Title+": means", nil, "part", ">mean", ">share", "meaning")
	for i := range d.Parts {
		part := &d.Parts[i]
		t.add(text(part.Label()), text(format.Time(part.Mean)), text(percentOf(part.Share)), text(part.Help))
	}
	t.add(text("whole"), text(format.Time(d.Whole)), text("100%"), text(""))
	p.write(`<div>`)
	p.table(t)
	if d.Note != "" {
		p.write(`<p class="note">%s</p>`, d.Note)
	}
	p.write(`</div>`)
}

func (p *cellPage) stalls(s *analyze.Stalls) {
	p.write(`<p>%s, %s in all</p>`, format.Count(s.Count, "stall"), format.Time(s.Total))
	var list []string
	for _, one := range s.Longest {
		list = append(list, one.Message)
	}
	p.list("", list)
}

// checks lists all checks, the failed ones first, with what the set and the analysis found besides.
func (p *cellPage) checks(d *detail) {
	var all []result.Finding
	known := map[string]bool{}
	for _, r := range d.Runs {
		for _, c := range r.Checks {
			all = append(all, c)
			known[c.Name] = known[c.Name] || !c.OK
		}
	}
	var more []result.Finding
	for _, w := range d.Warnings {
		if !known[w.Name] {
			more = append(more, w)
		}
	}
	for _, w := range more {
		known[w.Name] = true
	}
	if d.Analysis != nil {
		for _, f := range d.Analysis.Findings {
			if !known[f.Name] {
				more = append(more, f)
			}
		}
	}
	if all = append(all, more...); len(all) == 0 {
		p.write(`<p class="note">There are no checks.</p>`)
		return
	}
	slices.SortStableFunc(all, func(x, y result.Finding) int { return rankOK(x) - rankOK(y) })
	t := newTable("Checks, failed ones first", nil, "check*", "outcome*", "~message")
	for _, c := range all {
		outcome := markup("ok", 1.0)
		if !c.OK {
			outcome = markup(fmt.Sprintf(`<strong class="%s">%[1]s</strong>`, escape(string(c.Severity))), 0.0)
		}
		t.add(text(c.Name), outcome, text(c.Message))
	}
	p.table(t)
}

func rankOK(c result.Finding) int {
	if c.OK {
		return 1
	}
	return 0
}

func (b *builder) sampleTable(d *detail) *table {
	most := 0
	var metrics []*metricColumn
	for i := range b.doc.Metrics {
		if m := &b.doc.Metrics[i]; d.Samples[m.Name] != nil {
			metrics, most = append(metrics, m), max(most, len(d.Samples[m.Name]))
		}
	}
	names := []string{"metric", "unit"}
	for i := range most {
		names = append(names, ">"+strconv.Itoa(i))
	}
	t := newTable("One value per repeat, unrounded", nil, names...)
	for _, m := range metrics {
		row := []entry{text(m.Name), text(m.Unit)}
		for i := range most {
			if values := d.Samples[m.Name]; i < len(values) {
				row = append(row, text(unrounded(values[i])))
			} else {
				row = append(row, text(""))
			}
		}
		t.add(row...)
	}
	return t
}

// unrounded formats all digits, as JSON does.
func unrounded(v float64) string {
	all, err := json.Marshal(v)
	if err != nil {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return string(all)
}

func (p *cellPage) rates(rates [][]float64) {
	names := []string{"repeat"}
	for i := range rates[0] {
		names = append(names, ">"+strconv.Itoa(i+1))
	}
	t := newTable("Rates", nil, names...)
	for i, list := range rates {
		row := []entry{text(strconv.Itoa(i))}
		for j := range rates[0] {
			rate := 0.0
			if j < len(list) {
				rate = list[j]
			}
			row = append(row, text(short(rate)))
		}
		t.add(row...)
	}
	p.write(`<details class="table" data-fold="rates"><summary>Operations per second in each part of each window, as a table</summary>`)
	p.table(t)
	p.write(`</details>`)
}

// short formats a rate without its unit: "3.10 M".
func short(perSecond float64) string {
	return strings.TrimSpace(strings.TrimSuffix(format.Rate(perSecond), "op/s"))
}

// flat returns the fields of a value, which nested fields have with dots in their names.
func flat(v any) map[string]string {
	fields, err := set.Flatten(v)
	if err != nil { // it was read from JSON
		return map[string]string{"error": printable.Text(err.Error())}
	}
	return fields
}

func (p *cellPage) run(r *run) {
	p.write(`<div><p><code>%s</code></p>`, strings.Join(r.Argv, " "))
	if r.Incomplete != "" {
		p.write(`<p class="notice">Incomplete: %s</p>`, r.Incomplete)
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
	p.table(pairTable("Run "+r.ID, about))
	steps := newTable("Set-up", nil, "step", ">took")
	for _, s := range r.Setup.Steps {
		steps.add(text(s.Name), text(format.Time(s.MS*1e6)))
	}
	p.table(steps)
	threads := newTable("Processors of the threads", nil, "rank", "processors", "affinity", "idle")
	for _, at := range r.Placement {
		var cpus []string
		for _, cpu := range at.CPUs {
			cpus = append(cpus, strconv.Itoa(cpu))
		}
		threads.add(number(at.Rank), text(strings.Join(cpus, ", ")), text(strings.Join(at.Affinity, ", ")), text(at.Idle))
	}
	p.table(threads)
	for rank := range r.Setup.Ranks {
		for _, path := range r.Setup.Ranks[rank].Paths {
			p.table(pairTable(fmt.Sprintf("Path of the bytes of rank %d", rank), flat(path)))
		}
	}
	p.write(`</div>`)
}
