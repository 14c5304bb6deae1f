package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
	"transportbench/core/lab/runner"
)

// Duel measures two configurations in turn until it is known how they relate.
type Duel struct {
	A, B    config.Config
	Measure Measure
	// Round is called between rounds, and may be nil.
	Round func()
	// Begin is told of each run: "A" or "B" and its repeat, from 1. What it
	// returns watches the run, and may be nil.
	Begin func(side string, repeat int) runner.Observer
	// Judged is told after each round what is known so far; it may be nil.
	Judged func(repeats int, r *compare.Report)
	// Within is how narrow the interval of the first metric's change has to be:
	// half its width, as a share.
	Within float64
	// Least and Most bound the repeats of each side, and Limit the time. Least
	// is at least 1.
	Least, Most int
	Limit       time.Duration
	Seed        uint64
	Compare     compare.Options
}

// Ended is what ended a duel.
type Ended string

// The ends of a duel.
const (
	EndNarrow  Ended = "the interval is narrow enough"
	EndMost    Ended = "the repeats are used up"
	EndLimit   Ended = "the time is up"
	EndStopped Ended = "interrupted"
)

// Verdict is the outcome of a duel.
type Verdict struct {
	A, B   *result.Result // of all repeats
	Report *compare.Report
	Ended  Ended
}

// Run goes through the duel. Each round is one repeat of both, in an order that
// is drawn, so that neither profits from being the first.
//
// The end is decided by the width of the interval and never by the verdict:
// whoever looks again and again and stops at the first significant difference
// finds one in the end, where there is none.
//
// Where ctx ends, the outcome so far is returned beside its error, if both
// sides have a repeat.
func (d *Duel) Run(ctx context.Context) (*Verdict, error) {
	began := time.Now()
	r := rand.New(rand.NewPCG(d.Seed, 0))
	sides := [2]*side{newSide("A"), newSide("B")}
	for n := 1; ; n++ {
		if n > 1 && d.Round != nil {
			d.Round()
		}
		var round [2]*result.Result
		for _, i := range r.Perm(2) {
			var err error
			if round[i], err = d.measure(ctx, i, n); err != nil {
				if ctx.Err() == nil || n == 1 {
					return nil, err
				}
				v, verr := d.judge(sides, EndStopped)
				if verr != nil {
					return nil, verr
				}
				return v, ctx.Err()
			}
		}
		for i, s := range sides {
			if err := s.add(round[i]); err != nil {
				return nil, err
			}
		}
		if ended := d.ended(sides, n, began); ended != "" {
			return d.judge(sides, ended)
		}
	}
}

// side is what one configuration came to.
type side struct {
	results []*result.Result
	set     *set.Set // of one cell
}

func newSide(name string) *side {
	s := &side{set: set.New()}
	s.set.Source = name
	return s
}

func (s *side) add(r *result.Result) error {
	cell, err := s.set.NewCell(r)
	if err != nil {
		return err
	}
	s.results = append(s.results, r)
	if len(s.set.Cells) == 0 {
		s.set.Cells = append(s.set.Cells, cell)
	} else {
		s.set.Cells[0].Merge(cell)
	}
	return nil
}

func (d *Duel) measure(ctx context.Context, side, n int) (*result.Result, error) {
	name, c := "A", d.A
	if side == 1 {
		name, c = "B", d.B
	}
	c.Repeats = 1
	r, err := d.Measure(ctx, c, d.Begin(name, n))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// ended says whether a duel is over after n rounds.
func (d *Duel) ended(sides [2]*side, n int, began time.Time) Ended {
	report, err := compare.Pairwise(sides[0].set, sides[1].set, d.Compare)
	if err != nil {
		return EndStopped // judge will say why
	}
	if d.Judged != nil {
		d.Judged(n, report)
	}
	switch {
	case n < d.Least:
	case d.narrow(report):
		return EndNarrow
	case n >= d.Most:
		return EndMost
	}
	if d.Limit > 0 && time.Since(began) >= d.Limit {
		return EndLimit
	}
	return ""
}

func (d *Duel) narrow(report *compare.Report) bool {
	for i := range report.Changes {
		if c := &report.Changes[i]; c.Metric == d.Compare.Metrics[0] {
			return c.Low != nil && (*c.High-*c.Low)/2 <= d.Within
		}
	}
	return false
}

func (d *Duel) judge(sides [2]*side, ended Ended) (*Verdict, error) {
	v := &Verdict{Ended: ended}
	var err error
	if v.Report, err = compare.Pairwise(sides[0].set, sides[1].set, d.Compare); err != nil {
		return nil, err
	}
	if v.A, err = runner.Merge(sides[0].results); err != nil {
		return nil, fmt.Errorf("A: %w", err)
	}
	if v.B, err = runner.Merge(sides[1].results); err != nil {
		return nil, fmt.Errorf("B: %w", err)
	}
	return v, nil
}
