package report

import (
	"slices"
	"strings"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// columns fills in what the index alone says of all cells.
func (b *builder) columns() {
	d, n := b.doc, len(b.cells)
	b.axes()
	b.machines()
	c := &d.Cells
	c.Bound, c.Why = make([]string, n), make([]string, n)
	for _, cell := range b.cells {
		c.Series = append(c.Series, b.seriesOf(cell))
		c.Label = append(c.Label, cell.Label(b.naming[cell.Transport()]))
		c.Open = append(c.Open, openLoop(cell))
		c.Status = append(c.Status, string(cell.Status))
		c.Reason = append(c.Reason, cell.Reason)
		c.Worst = append(c.Worst, string(worst(cell.Warnings)))
		c.Warnings = append(c.Warnings, warnings(cell.Warnings))
	}
	for i, s := range b.sets {
		for range s.Cells {
			c.Set = append(c.Set, i)
		}
	}
	b.metrics()
}

// openLoop tells cells whose times are taken from a schedule.
func openLoop(c *set.Cell) bool {
	return len(c.Samples[result.OfferedLoad]) > 0 || c.Config["rate"] != ""
}

func worst(doubts []set.Warning) result.Severity {
	w := 0
	for _, d := range doubts {
		w = max(w, slices.Index(severities, d.Severity))
	}
	return severities[w]
}

func warnings(doubts []set.Warning) int {
	n := 0
	for _, d := range doubts {
		if d.Severity == result.Warning {
			n++
		}
	}
	return n
}

// seriesOf finds the series of a cell, or makes it. A cell that never ran has
// no provider: it belongs to any of its transport's.
func (b *builder) seriesOf(c *set.Cell) int {
	mine := series{c.Transport(), c.Plugin.Provider}
	for i, s := range b.doc.Series {
		if s == mine || mine.Provider == "" && s.Transport == mine.Transport && c.Status != set.Published {
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

// axes lists the options that vary, and each cell's values of them. A
// transport's own options vary within the transport only.
func (b *builder) axes() {
	for _, name := range b.varying {
		a := axis{Name: strings.TrimPrefix(name, ownPrefix), Own: strings.HasPrefix(name, ownPrefix)}
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

// named is a cell's value of an option, where that is part of its name.
func (b *builder) named(c *set.Cell, option string) (value string, has bool) {
	value, has = c.Config[option]
	return value, has && slices.Contains(b.naming[c.Transport()], option)
}

// machines puts the environments of all sets behind one another.
func (b *builder) machines() {
	for _, s := range b.sets {
		base := len(b.doc.Environments)
		for _, e := range s.Environments {
			b.doc.Environments = append(b.doc.Environments, environment(e))
		}
		for i := range s.Cells {
			at := -1
			if e := s.Cells[i].Environment; e >= 0 {
				at = base + e
			}
			b.doc.Cells.Environment = append(b.doc.Cells.Environment, at)
		}
	}
}

// metrics summarizes the samples of all cells.
func (b *builder) metrics() {
	lists := make([][]set.Cell, len(b.sets))
	for i, s := range b.sets {
		lists[i] = s.Cells
	}
	for _, name := range set.Metrics(lists...) {
		def := result.Define(name)
		m := metricColumn{Name: name, Unit: def.Unit, Better: def.Better, Help: def.Help}
		for _, c := range b.cells {
			values := c.Samples[name]
			if len(values) == 0 {
				m.Median, m.Low, m.High, m.N = append(m.Median, nil), append(m.Low, nil), append(m.High, nil), append(m.N, 0)
				continue
			}
			s := result.Summarize(name, values)
			m.Median, m.Low, m.High, m.N = append(m.Median, &s.Median), append(m.Low, s.Low), append(m.High, s.High), append(m.N, s.N)
		}
		b.doc.Metrics = append(b.doc.Metrics, m)
	}
}

// metric is a cell's summary of one metric.
func (b *builder) metric(cell int, name string) (result.Metric, bool) {
	for i := range b.doc.Metrics {
		m := &b.doc.Metrics[i]
		if m.Name == name && m.Median[cell] != nil {
			return result.Metric{Unit: m.Unit, Better: m.Better, Median: *m.Median[cell], Low: m.Low[cell], High: m.High[cell], N: m.N[cell]}, true
		}
	}
	return result.Metric{}, false
}
