package replays

import (
	"cmp"
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/analyze"
)

// Chart has the cells that replay the same part of a trace at the same speed.
type Chart struct {
	Load  string          `json:"load"`
	Limit float64         `json:"limit,omitempty"` // ns: the objective for response times
	Rates []float64       `json:"rates"`           // that were due, by step
	Step  float64         `json:"step"`            // ns
	Lines []Line          `json:"lines"`
	Table *cellpage.Table `json:"table"`
}

// Line is one cell.
type Line struct {
	Cell  int       `json:"cell"`
	P50   []float64 `json:"p50"` // ns, by step; 0 without samples
	P99   []float64 `json:"p99"`
	Worst string    `json:"worst"`
	// Within are the shares in percent that were within the limit.
	Within []float64 `json:"within,omitempty"`
}

// Cells are those of a report.
type Cells struct {
	Overviews []cellpage.Overview
	Limit     float64 // ns: the objective for response times; 0 without one
	Load      func(cell int) string
	Link      func(cell int) doc.Cell
	Round     func(float64) float64 // as far as a page shows
}

// Charts returns a chart for each load that replays a trace.
func (c *Cells) Charts() []Chart {
	charts := []Chart{}
	for cell, overview := range c.Overviews {
		if overview.Analysis == nil || overview.Analysis.ReplayTimes == nil {
			continue
		}
		times := overview.Analysis.ReplayTimes
		l := Line{Cell: cell,
			P50: c.column(times, func(s *analyze.ReplaySpan) float64 { return s.P50 }),
			P99: c.column(times, func(s *analyze.ReplaySpan) float64 { return s.P99 })}
		if c.Limit > 0 {
			times = times.Under(c.Limit)
			l.Within = c.column(times, func(s *analyze.ReplaySpan) float64 {
				return 100 * *cmp.Or(s.Within, new(1.0))
			})
		}
		l.Worst = findings.WorstSpan(&times.Worst)
		load := c.Load(cell)
		at := slices.IndexFunc(charts, func(chart Chart) bool { return chart.Load == load })
		if at < 0 {
			at = len(charts)
			charts = append(charts, Chart{Load: load, Limit: c.Limit, Step: times.Steps[0].For,
				Rates: c.column(times, func(s *analyze.ReplaySpan) float64 { return s.Rate })})
		}
		charts[at].Lines = append(charts[at].Lines, l)
	}
	for i := range charts {
		charts[i].Table = c.table(&charts[i])
	}
	return charts
}

// table has a row for each cell and step.
func (c *Cells) table(chart *Chart) *cellpage.Table {
	t, cells := doc.NewTable("cell", ">from", ">due", ">p50", ">p99"), []int{}
	for _, l := range chart.Lines {
		for i, rate := range chart.Rates {
			t.Row(c.Link(l.Cell), doc.Time(float64(i)*chart.Step), doc.Rate(rate),
				doc.Time(l.P50[i]), doc.Time(l.P99[i]))
			cells = append(cells, l.Cell)
		}
	}
	return cellpage.NewTable("Over the time of a trace, "+chart.Load, t, cells...)
}

func (c *Cells) column(times *analyze.ReplayTimes,
	of func(*analyze.ReplaySpan) float64) (list []float64) {
	for i := range times.Steps {
		list = append(list, c.Round(of(&times.Steps[i])))
	}
	return list
}
