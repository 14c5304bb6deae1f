package report

import (
	"cmp"
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/analyze"
)

// replayed has the cells that replay the same part of a trace at the same speed, for a chart over
// the time of the trace.
type replayed struct {
	Load  string          `json:"load"`
	Limit float64         `json:"limit,omitempty"` // ns: the objective for response times
	Rates []float64       `json:"rates"`           // that were due, by step
	Step  float64         `json:"step"`            // ns
	Lines []replayedLine  `json:"lines"`
	Table *cellpage.Table `json:"table"`
}

type replayedLine struct {
	Cell  int       `json:"cell"`
	P50   []float64 `json:"p50"` // ns, by step; 0 without samples
	P99   []float64 `json:"p99"`
	Worst string    `json:"worst"`
	// Within are the shares in percent that were within the limit.
	Within []float64 `json:"within,omitempty"`
}

// replays draws the cells that replay a trace.
func (b *builder) replays() {
	b.doc.Replays = []replayed{}
	limit := 0.0
	if b.Objective != nil {
		limit = b.Objective.ResponseLimit()
	}
	for cell, brief := range b.briefs {
		if brief.Analysis == nil || brief.Analysis.ReplayTimes == nil {
			continue
		}
		times := brief.Analysis.ReplayTimes
		l := replayedLine{Cell: cell,
			P50: column(times, func(s *analyze.ReplaySpan) float64 { return s.P50 }),
			P99: column(times, func(s *analyze.ReplaySpan) float64 { return s.P99 })}
		if limit > 0 {
			times = times.Under(limit)
			l.Within = column(times, func(s *analyze.ReplaySpan) float64 {
				return 100 * *cmp.Or(s.Within, new(1.0))
			})
		}
		l.Worst = findings.WorstSpan(&times.Worst)
		load := cmp.Or(b.doc.Cells.Load[cell], b.cells[cell].Config["replay"])
		at := slices.IndexFunc(b.doc.Replays, func(r replayed) bool { return r.Load == load })
		if at < 0 {
			at = len(b.doc.Replays)
			b.doc.Replays = append(b.doc.Replays, replayed{Load: load, Limit: limit,
				Step:  times.Steps[0].For,
				Rates: column(times, func(s *analyze.ReplaySpan) float64 { return s.Rate })})
		}
		b.doc.Replays[at].Lines = append(b.doc.Replays[at].Lines, l)
	}
	for i := range b.doc.Replays {
		r := &b.doc.Replays[i]
		r.Table = b.replayTable(r)
	}
}

// replayTable has a row for each cell and step.
func (b *builder) replayTable(r *replayed) *cellpage.Table {
	t, cells := doc.NewTable("cell", ">from", ">due", ">p50", ">p99"), []int{}
	for _, l := range r.Lines {
		for i, rate := range r.Rates {
			t.Row(b.link(l.Cell), doc.Time(float64(i)*r.Step), doc.Rate(rate), doc.Time(l.P50[i]),
				doc.Time(l.P99[i]))
			cells = append(cells, l.Cell)
		}
	}
	return cellpage.NewTable("Over the time of a trace, "+r.Load, t, cells...)
}

func column(times *analyze.ReplayTimes, of func(*analyze.ReplaySpan) float64) (list []float64) {
	for i := range times.Steps {
		list = append(list, rounded(of(&times.Steps[i])))
	}
	return list
}
