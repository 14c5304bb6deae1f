package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Side is one of the two configurations of a paired test. The sides of a comparison of builds have
// different plugins.
type Side struct {
	Plugins Plugins
	Config  config.Config
	// Mixed allows plugins of another version of the runtime.
	Mixed bool

	measure Measure
	// keep, unless it is nil, is called after each round with the number of rounds and what returns
	// the side's result of them.
	keep func(repeats int, soFar func() (*result.Result, error)) error
}

// PairedTest measures two configurations alternately until the change from A to B is known
// precisely enough.
type PairedTest struct {
	A, B Side
	// Begin is called before each run with its side, "A" or "B", and its repeat, from 1. The
	// observer that it returns may be nil.
	Begin func(side string, repeat int) runner.Observer
	// Judged is called after each round with the comparison so far; it may be nil.
	Judged func(repeats int, r *compare.Report)
	compare.StopRule
	// TimeLimit bounds the whole test; 0 is no limit.
	TimeLimit time.Duration
	Seed      uint64
	Compare   compare.Options
	// MinEffect returns the minimum effects with that many repeats of each side, for Compare. If it
	// is nil, that of Compare counts.
	MinEffect func(repeats int) func(c *set.Cell, times int) (share float64, from string)
}

// EndReason is why a paired test ended, as text for the user.
type EndReason string

// The reasons.
const (
	EndPrecise    EndReason = "the interval is narrow enough"
	EndMaxRepeats EndReason = "the repeats are used up"
	EndTimeLimit  EndReason = "the time is up"
	EndStopped    EndReason = "interrupted"
	EndFailed     EndReason = "a run failed"
)

// PairedResult is the outcome of a paired test.
type PairedResult struct {
	A, B   *result.Result // with all repeats
	Report *compare.Report
	Ended  EndReason
	Paths  [2]string // the files of A and B, from [Engine.Pair]
}

// Expected returns about how long the fewest repeats of the test take.
func (t *PairedTest) Expected(b Beside) time.Duration {
	p := Plan{Repeats: t.MinRepeats}
	for _, side := range []*Side{&t.A, &t.B} {
		p.Cells = append(p.Cells, Cell{Config: side.Config,
			declared: &side.Plugins[side.Config.Transport].Info})
	}
	return p.Expected(b)
}

// Pair makes a paired test and stores the result of each side. Plugins log to log. If it is
// interrupted after the first round, or a host is lost, it returns the outcome so far with the
// error.
func (e *Engine) Pair(ctx context.Context, t *PairedTest, log io.Writer) (*PairedResult, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var kept [2]result.Growing
	for i, side := range [2]*Side{&t.A, &t.B} {
		measure, err := e.Measure(side.Plugins, log, side.Mixed)
		if err != nil {
			return nil, err
		}
		kept[i].Dir = e.Dir
		side.measure, side.keep = endOnLoss(measure, end), kept[i].Keep
	}
	outcome, interrupted := t.run(ctx)
	if outcome != nil {
		for i, r := range [2]*result.Result{outcome.A, outcome.B} {
			path, err := kept[i].Store(r)
			if err != nil {
				return nil, err
			}
			outcome.Paths[i] = path
		}
	}
	return outcome, endOf(ctx, interrupted)
}

// run measures rounds of one repeat of each side, in an order drawn for each round, so that
// neither side profits from being first.
//
// The width of the interval decides the end, never the verdict: a test that looks after every
// round and stops at the first significant difference finds one sooner or later, even if there
// is none.
//
// If ctx ends or a run fails after at least one round, run returns the outcome so far together with
// the error.
func (t *PairedTest) run(ctx context.Context) (*PairedResult, error) {
	began := time.Now()
	random := rand.New(rand.NewPCG(t.Seed, 0))
	sides := [2]*side{newSide("A", t.A), newSide("B", t.B)}
	for n := 1; ; n++ {
		var round [2]*result.Result
		for _, i := range random.Perm(2) {
			var err error
			if round[i], err = t.measure(ctx, sides[i], n); err != nil {
				if n == 1 {
					return nil, err
				}
				return t.cutShort(ctx, err, sides, sides[i])
			}
		}
		for i, s := range sides {
			if err := s.add(round[i]); err != nil {
				return nil, err
			}
		}
		report, err := t.compare(sides)
		if err != nil {
			return nil, err
		}
		for _, s := range sides {
			if err := s.store(); err != nil {
				return t.cutShort(ctx, err, sides, s)
			}
		}
		if t.Judged != nil {
			t.Judged(n, report)
		}
		if reason := t.ended(report, n, began); reason != "" {
			return t.conclude(sides, reason, nil)
		}
	}
}

// side is one configuration and its results.
type side struct {
	Side    // of one repeat
	results []*result.Result
	set     *set.Set // has one cell, with the samples of all results
}

func newSide(name string, of Side) *side {
	of.Config.Repeats = 1
	s := &side{Side: of, set: set.New()}
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
		if len(s.set.Cells[0].Warnings) > 0 { // of single rounds
			check.Again(&s.set.Cells[0], s.results)
		}
	}
	return nil
}

// store keeps the rounds so far.
func (s *side) store() error {
	if s.keep == nil {
		return nil
	}
	return s.keep(len(s.results), func() (*result.Result, error) {
		return s.merge(func(s *side, last *result.Result) {
			last.Incomplete, last.IncompleteReason = true, "the test had not ended after "+
				format.Count(len(s.results), "repeat")
		})
	})
}

// merge returns the side's result. edit, unless it is nil, says of the last repeat how the test
// ended.
func (s *side) merge(edit func(s *side, last *result.Result)) (*result.Result, error) {
	parts := slices.Clone(s.results)
	if edit != nil {
		last := *parts[len(parts)-1]
		edit(s, &last)
		parts[len(parts)-1] = &last
	}
	merged, err := check.Merge(parts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.set.Source, err)
	}
	return merged, nil
}

func (t *PairedTest) measure(ctx context.Context, s *side, n int) (*result.Result, error) {
	r, err := s.measure(ctx, s.Config, t.Begin(s.set.Source, n))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.set.Source, err)
	}
	return r, nil
}

// ended returns why the test is over after n rounds, or "" if it is not.
func (t *PairedTest) ended(report *compare.Report, n int, began time.Time) EndReason {
	if ended, precise := t.Ended(report, t.Compare.Metrics, n); precise {
		return EndPrecise
	} else if ended {
		return EndMaxRepeats
	}
	if t.TimeLimit > 0 && time.Since(began) >= t.TimeLimit {
		return EndTimeLimit
	}
	return ""
}

func (t *PairedTest) compare(sides [2]*side) (*compare.Report, error) {
	o := t.Compare
	if t.MinEffect != nil {
		o.MinEffect = t.MinEffect(len(sides[0].results))
	}
	return compare.Pairwise(sides[0].set, sides[1].set, o)
}

// cutShort returns err and the outcome of the rounds before it; failed is the side that returned
// err.
func (t *PairedTest) cutShort(ctx context.Context, err error, sides [2]*side,
	failed *side) (*PairedResult, error) {
	reason, why := EndFailed, err
	if stopped := context.Cause(ctx); stopped != nil {
		why = stopped
	}
	interrupted := errors.Is(why, context.Canceled)
	if interrupted {
		reason = EndStopped
	}
	outcome, wrong := t.conclude(sides, reason, func(s *side, last *result.Result) {
		runner.CutShort(last, format.Count(len(s.results), "repeat"), why, interrupted)
		if s != failed {
			last.Failure = nil
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	return outcome, err
}

// conclude returns the outcome of all rounds. edit is as in [side.merge].
func (t *PairedTest) conclude(sides [2]*side, reason EndReason,
	edit func(s *side, last *result.Result)) (*PairedResult, error) {
	outcome := &PairedResult{Ended: reason}
	var err error
	if outcome.Report, err = t.compare(sides); err != nil {
		return nil, err
	}
	var whole [2]*set.Set
	for i, merged := range []**result.Result{&outcome.A, &outcome.B} {
		if *merged, err = sides[i].merge(edit); err != nil {
			return nil, err
		}
		cell, err := set.New().NewCell(*merged)
		if err != nil {
			return nil, err
		}
		whole[i] = &set.Set{Cells: []set.Cell{cell}}
	}
	outcome.Report.Warnings = set.WarningsOfBoth(whole[0], whole[1])
	return outcome, nil
}
