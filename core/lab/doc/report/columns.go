package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// columns fills in the data of all cells that do not need their results.
func (b *builder) columns() {
	d, n := b.doc, len(b.cells)
	b.axes()
	b.machines()
	c := &d.Cells
	c.Bound, c.Why = make([]string, n), make([]string, n)
	c.Repeats = map[string][][]float64{}
	for i, s := range b.sets {
		shown := compare.ShownOf(s)
		for at := range s.Cells {
			cell := &s.Cells[at]
			c.Set = append(c.Set, i)
			states := inStates(cell, shown.States)
			c.States, c.StateTexts = append(c.States, states),
				append(c.StateTexts, statesText(states))
			c.RepeatStates = append(c.RepeatStates,
				stateNames(cell, result.Throughput, shown.States))
			c.Windows = append(c.Windows, shown.Windows(cell))
			b.shown = append(b.shown, shown.Cell(cell))
		}
	}
	for _, cell := range b.cells {
		for _, name := range drawnRepeats {
			c.Repeats[name] = append(c.Repeats[name], rounded(cell.Samples[name]))
		}
		c.Series = append(c.Series, b.seriesOf(cell))
		c.Label = append(c.Label, b.labels.Of(cell.Config))
		c.Load = append(c.Load, b.load(cell))
		c.Open = append(c.Open, openLoop(cell))
		c.Status = append(c.Status, string(cell.Status))
		c.Reason = append(c.Reason, cell.Reason)
		c.Worst = append(c.Worst, string(worst(cell.Warnings)))
		c.Warnings = append(c.Warnings, warnings(cell.Warnings))
	}
	b.metrics()
}

// drawnRepeats are the metrics of the charts, which draw each repeat behind its median.
var drawnRepeats = []string{
	result.Throughput, result.Goodput, result.LatencyP50, result.LatencyP99, result.LatencyP999,
	result.ResponseP50, result.ResponseP99, result.ResponseP999, result.SetupConnectAll,
}

// rounded returns samples with four digits, enough to draw them.
func rounded(samples []float64) []float64 {
	var list []float64
	for _, v := range samples {
		short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
		if err != nil {
			short = v
		}
		list = append(list, short)
	}
	return list
}

// inStates returns what a closed loop did in each state of the machine. An open loop has none: its
// rate is the load's.
func inStates(c *set.Cell, states compare.States) (list []inState) {
	if openLoop(c) {
		return nil
	}
	ratios := map[string]*float64{}
	for _, m := range states.Ratios(c) {
		ratios[m.State] = &m.Metric.Median
	}
	for _, m := range states.Medians(c, result.Throughput) {
		list = append(list, inState{m, ratios[m.State]})
	}
	return list
}

// openLoop reports whether a cell is an open loop.
func openLoop(c *set.Cell) bool {
	return c.OpenLoop()
}

// worst returns the highest severity.
func worst(list []result.Finding) result.Severity {
	w := 0
	for _, one := range list {
		w = max(w, slices.Index(severities, one.Severity))
	}
	return severities[w]
}

// warnings counts the failed checks of severity warning.
func warnings(list []result.Finding) int {
	n := 0
	for _, one := range list {
		if one.Severity == result.Warning {
			n++
		}
	}
	return n
}

// seriesOf returns the series of a cell, and adds a new one. A cell that never ran has no provider
// and belongs to any series of its transport.
func (b *builder) seriesOf(c *set.Cell) int {
	mine := series{c.Transport(), c.Plugin.Provider}
	for i, s := range b.doc.Series {
		if s == mine || mine.Provider == "" && s.Transport == mine.Transport &&
			c.Status != set.Published {
			return i
		}
		if s.Transport == mine.Transport && s.Provider == "" {
			b.doc.Series[i] = mine
			return i
		}
	}
	b.doc.Series = append(b.doc.Series, mine)
	return len(b.doc.Series) - 1
}

// axes lists the options that vary, and the values of each cell.
func (b *builder) axes() {
	for _, name := range b.varying {
		a := axis{Name: strings.TrimPrefix(name, ownPrefix),
			Own: strings.HasPrefix(name, ownPrefix)}
		for _, c := range b.cells {
			if v, has := b.named(c, name); has && !slices.Contains(a.Values, v) {
				a.Values = append(a.Values, v)
			}
		}
		slices.SortFunc(a.Values, set.CompareValues)
		for _, v := range a.Values {
			a.Shown = append(a.Shown, set.Value(name, v))
		}
		column := make([]int, len(b.cells))
		for i, c := range b.cells {
			column[i] = -1
			if v, has := b.named(c, name); has {
				column[i] = slices.Index(a.Values, v)
			}
		}
		b.doc.Axes = append(b.doc.Axes, a)
		b.doc.Cells.Axes = append(b.doc.Cells.Axes, column)
	}
}

// named returns a cell's value of an option that is one of its axes.
func (b *builder) named(c *set.Cell, option string) (value string, has bool) {
	value, has = c.Option(option)
	return value, has && slices.Contains(b.naming[c.Transport()], option)
}

// machines lists the environments of all sets.
func (b *builder) machines() {
	for _, s := range b.sets {
		base := len(b.doc.Environments)
		b.doc.Environments = append(b.doc.Environments, s.Environments...)
		for i := range s.Cells {
			at := -1
			if e := s.Cells[i].Environment; e >= 0 {
				at = base + e
			}
			b.doc.Cells.Environment = append(b.doc.Cells.Environment, at)
		}
	}
}

// machineTables describe the environments.
func (b *builder) machineTables() []*table {
	list := []*table{}
	for i, e := range b.doc.Environments {
		caption := "Machine"
		if len(b.doc.Environments) > 1 {
			caption = fmt.Sprintf("Machine %d", i+1)
		}
		t := doc.NewTable("property", "value", "role")
		for _, of := range []struct {
			role  string
			pairs map[string]string
		}{{"must be equal to compare", e.Identity}, {"may explain a difference", e.Volatile}} {
			for _, name := range slices.Sorted(maps.Keys(of.pairs)) {
				t.Row(name, cmp.Or(of.pairs[name], "-"), of.role)
			}
		}
		list = append(list, tableHTML(caption, t))
	}
	return list
}

// metrics summarizes the shown samples of all cells.
func (b *builder) metrics() {
	lists := make([][]set.Cell, len(b.sets))
	for i, s := range b.sets {
		lists[i] = s.Cells
	}
	for _, name := range set.Metrics(lists...) {
		def := result.Define(name)
		m := metricColumn{Name: name, Unit: def.Unit, Better: def.Better, Help: def.Help}
		for _, c := range b.shown {
			s, known := c.Metric(name)
			if !known {
				m.Median, m.Low, m.High, m.N = append(m.Median, nil), append(m.Low, nil),
					append(m.High, nil), append(m.N, 0)
				continue
			}
			m.Median, m.Low, m.High, m.N = append(m.Median, &s.Median), append(m.Low, s.Low),
				append(m.High, s.High), append(m.N, s.N)
		}
		b.doc.Metrics = append(b.doc.Metrics, m)
	}
}

// metric returns a cell's summary of one metric.
func (b *builder) metric(cell int, name string) (result.Metric, bool) {
	for i := range b.doc.Metrics {
		m := &b.doc.Metrics[i]
		if m.Name == name && m.Median[cell] != nil {
			return result.Metric{Unit: m.Unit, Better: m.Better, Median: *m.Median[cell],
				Low: m.Low[cell], High: m.High[cell], N: m.N[cell]}, true
		}
	}
	return result.Metric{}, false
}

// curves adds the load curves of each set, or a note for a set without one.
func (b *builder) curves() {
	b.doc.Curves = []curve{}
	for i, s := range b.sets {
		capacity, err := analyze.CapacityOf(s, analyze.CapacityOptions{Objective: b.Objective})
		if err != nil {
			b.doc.Notes = append(b.doc.Notes, fmt.Sprintf("%s: %v", b.doc.Sets[i].Name, err))
			continue
		}
		b.doc.Notes = append(b.doc.Notes, capacity.Notes...)
		for _, c := range capacity.Curves {
			if len(c.Points) == 0 {
				continue
			}
			mine := curve{
				Set: i, Series: b.doc.Cells.Series[b.first[i]+c.Points[0].Cell],
				Label: b.labels.Of(c.Config), Open: c.Open, Axis: c.Axis,
				Metric: c.Metric, Knee: c.Knee, Most: mostOf(&c, b.Objective != nil),
				Operating: c.Operating, Message: c.Message,
				Points: []point{},
			}
			for _, p := range c.Points {
				mine.Points = append(mine.Points, point{b.first[i] + p.Cell, p.Load, p.Meets,
					p.Past, p.Unusable})
			}
			b.doc.Curves = append(b.doc.Curves, mine)
		}
	}
}

// mostOf returns the point of a curve with the highest throughput, under the objective if there is
// one.
func mostOf(c *analyze.Curve, objective bool) *int {
	if objective {
		return c.Most
	}
	var most *int
	for i := range c.Points {
		if c.Points[i].Unusable == "" &&
			(most == nil || c.Points[i].Rate.Median > c.Points[*most].Rate.Median) {
			most = &i
		}
	}
	return most
}

// shareOf returns how good a value is compared with the best one, from 0 to 1.
func shareOf(value, best float64, better result.Better) float64 {
	switch {
	case value <= 0 || best <= 0:
		return 0
	case better == result.Lower:
		return best / value
	}
	return value / best
}
