package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
	"transportbench/core/lab/runner"
	"transportbench/core/transport"
)

// Measure makes one run, of one repeat, of a configuration.
type Measure func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error)

// State is how far a sweep has come.
type State struct {
	Label           string // of the current cell
	Repeat, Repeats int    // from 1
	Step, Steps     int    // repeats of all cells, those of before the resumption included
	Cells, Done     int    // cells, and how many are complete
	Left            time.Duration
}

// Watcher is told how a sweep goes. Its methods are called from one goroutine.
type Watcher interface {
	// Begin is told of a repeat that begins; what it returns watches the run,
	// and may be nil.
	Begin(State) runner.Observer
	// Cell is told of a cell that is complete or will not be: its record, with
	// the samples of all repeats or the reason.
	Cell(State, *set.Cell)
}

// Failure is a cell that cannot be measured.
type Failure struct {
	Status set.Status // Failed or Unavailable
	Reason string
}

// Options are what a sweep needs beside its plan.
type Options struct {
	Dir    string
	Origin Origin
	// Resume goes on with the sweep in Dir.
	Resume  bool
	Measure Measure
	Watcher Watcher
	// Round is called between the rounds of an interleaved sweep; may be nil.
	Round func()
	// Limit bounds the whole, CellLimit one repeat; 0 is none.
	Limit, CellLimit time.Duration
}

// Outcome is what a sweep came to.
type Outcome struct {
	Set      *set.Set
	Failed   int // cells
	Complete int
	// OutOfTime says that the limit ended the sweep before it was done.
	OutOfTime bool
}

// Run goes through a plan. A cell that cannot be measured is recorded with its
// reason, and the sweep goes on. Where ctx ends, the repeat under way is
// dropped, the index written, and ctx's error returned beside the outcome.
func Run(ctx context.Context, p *Plan, o Options) (*Outcome, error) {
	begin := create
	if o.Resume {
		begin = open
	}
	s, err := begin(o.Dir, p, o.Origin)
	if err != nil {
		return nil, err
	}
	defer s.close()
	w := &walk{plan: p, options: o, store: s, failures: map[int]Failure{}, began: time.Now(), labels: labels(p)}
	interrupted := w.all(ctx)
	var broken *storeError
	if errors.As(interrupted, &broken) {
		return nil, broken.error
	}
	index, err := s.finish(w.failures)
	if err != nil {
		return nil, err
	}
	outcome := &Outcome{Set: index, Failed: w.failed(), Complete: w.complete(), OutOfTime: w.outOfTime}
	return outcome, interrupted
}

// storeError is a repeat that could not be stored, after which nothing is worth
// measuring.
type storeError struct{ error }

// walk is a sweep under way.
type walk struct {
	plan      *Plan
	options   Options
	store     *store
	failures  map[int]Failure
	labels    []string
	began     time.Time
	outOfTime bool

	steps          int
	planned, spent time.Duration // of the repeats made so far
	left           time.Duration // planned, of those to come
}

func labels(p *Plan) []string {
	cells := make([]set.Cell, len(p.Cells))
	for i := range p.Cells {
		cells[i].Config = p.Cells[i].Flat()
	}
	varying := set.Varying(cells)
	list := make([]string, len(cells))
	for i := range cells {
		list[i] = cells[i].Label(varying)
	}
	return list
}

func (w *walk) all(ctx context.Context) error {
	for i := range w.plan.Cells {
		if reason := w.plan.Cells[i].Unavailable; reason != "" {
			w.fail(i, Failure{set.Unavailable, reason})
		} else if err := w.stored(i, w.store.complete(i)); err != nil {
			return err
		}
	}
	steps := w.plan.steps()
	for _, s := range steps {
		if !w.skip(s) {
			w.left += w.plan.Cells[s.cell].Expected()
		}
	}
	for at, s := range steps {
		w.steps = at + 1
		if w.options.Round != nil && w.plan.Order == Interleaved && at > 0 && s.repeat != steps[at-1].repeat {
			w.options.Round()
		}
		if w.skip(s) {
			continue
		}
		if limit := w.options.Limit; limit > 0 && time.Since(w.began) > limit {
			w.outOfTime = true
			return nil
		}
		if err := w.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// skip says whether a repeat is done, or its cell given up.
func (w *walk) skip(s step) bool {
	_, failed := w.failures[s.cell]
	return failed || w.store.cells[s.cell].done[s.repeat]
}

// step measures one repeat of one cell.
func (w *walk) step(ctx context.Context, s step) error {
	cell := &w.plan.Cells[s.cell]
	expected := cell.Expected()
	began := time.Now()
	r, err := w.measure(ctx, cell.Config, w.options.Watcher.Begin(w.state(s)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.planned, w.spent, w.left = w.planned+expected, w.spent+time.Since(began), w.left-expected
	if err == nil && (r == nil || len(r.Repeats) != 1) {
		err = errors.New("the run came to no repeat")
	}
	if err != nil {
		w.fail(s.cell, failureOf(err))
		w.left -= expected * time.Duration(w.plan.Repeats-len(w.store.cells[s.cell].done)-1)
		return nil
	}
	if err := w.stored(s.cell, w.store.save(s.cell, s.repeat, r)); err != nil {
		return err
	}
	if w.store.cells[s.cell].complete {
		w.options.Watcher.Cell(w.state(s), &w.store.cells[s.cell].cell)
	}
	return nil
}

// stored takes the outcome of storing: what concerns one cell is its failure,
// all else the end.
func (w *walk) stored(i int, err error) error {
	var one *cellError
	switch {
	case errors.As(err, &one):
		w.fail(i, failureOf(one.error))
		return nil
	case err != nil:
		return &storeError{err}
	}
	return nil
}

// measure makes the run, within the cell's limit.
func (w *walk) measure(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
	c.Repeats = 1
	if w.options.CellLimit == 0 {
		return w.options.Measure(ctx, c, obs)
	}
	limited, cancel := context.WithTimeout(ctx, w.options.CellLimit)
	defer cancel()
	r, err := w.options.Measure(limited, c, obs)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("a repeat took longer than the limit of %v", w.options.CellLimit)
	}
	return r, err
}

func failureOf(err error) Failure {
	reason := oneLine(err.Error())
	var limit *config.Error
	if errors.Is(err, transport.ErrUnavailable) || errors.As(err, &limit) {
		return Failure{set.Unavailable, reason}
	}
	return Failure{set.Failed, reason}
}

// fail gives a cell up.
func (w *walk) fail(i int, f Failure) {
	w.failures[i] = f
	w.options.Watcher.Cell(w.state(step{i, 0}), &set.Cell{
		Config: w.plan.Cells[i].Flat(), Status: f.Status, Reason: f.Reason, Environment: -1,
	})
}

func (w *walk) state(s step) State {
	left := w.left
	if w.planned > 0 {
		left = time.Duration(float64(left) * float64(w.spent) / float64(w.planned))
	}
	return State{
		Label: w.labels[s.cell], Repeat: s.repeat + 1, Repeats: w.plan.Repeats,
		Step: w.steps, Steps: len(w.plan.Cells) * w.plan.Repeats,
		Cells: len(w.plan.Cells), Done: w.complete() + len(w.failures), Left: max(left, 0),
	}
}

func (w *walk) complete() int {
	n := 0
	for i := range w.store.cells {
		if w.store.cells[i].complete {
			n++
		}
	}
	return n
}

func (w *walk) failed() int {
	n := 0
	for _, f := range w.failures {
		if f.Status == set.Failed {
			n++
		}
	}
	return n
}
