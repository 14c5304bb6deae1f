package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// Measure makes one run of a configuration, with one repeat.
type Measure func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error)

// Status is the progress of a sweep.
type Status struct {
	Label           string // of the current cell
	Repeat, Repeats int    // of the current cell, from 1
	Run, Runs       int    // over all repeats of all cells, from 1; those before a resumption count
	Cells, Done     int    // all cells, and those that are complete or given up
	Left            time.Duration
}

// Watcher follows the progress of a sweep. Its methods are called from one goroutine.
type Watcher interface {
	io.Writer // for what plugins log
	// Begin is called before each run. The observer that it returns may be nil.
	Begin(Status) runner.Observer
	// Cell is called when a cell is complete, with the samples of all repeats, and when a cell is
	// given up, with the reason.
	Cell(Status, *set.Cell)
	// Again is called before a run that has failed is made once more, with the reason and the file
	// that has more about it.
	Again(s Status, reason, log string)
}

// Failure is why a cell has no result.
type Failure struct {
	Status set.Status // Failed or Unavailable
	Reason string
	// Invalid means that the plugin reported an impossible value.
	Invalid bool
}

// Sweep is a sweep to make.
type Sweep struct {
	Spec    *Spec
	Plugins Plugins
	Plan    *Plan // of Spec and Plugins
	Dir     string
	// Resume continues the sweep in Dir.
	Resume bool
}

// NewSweep plans a sweep with the plugins of its transports. With all, one that cannot run here is
// an error.
func NewSweep(spec *Spec, plugins []*Plugin, all bool) (s Sweep, err error) {
	s.Spec = spec
	if s.Plugins, err = pluginsOf(plugins); err != nil {
		return s, err
	}
	if all {
		if err := s.Plugins.available(); err != nil {
			return s, err
		}
	}
	s.Plan, err = Expand(spec, s.Plugins)
	return s, err
}

// fewestForInterval is the number of windows from which a cell has intervals. Sweeps of fewer
// repeats measure no reference.
const fewestForInterval = 6

// AddReference adds the reference to the cells of the sweep, which are measured in rounds: the cell
// of another sweep that has nothing else. It does nothing if that cell cannot be measured beside
// the others.
func (s *Sweep) AddReference(reference *Sweep) {
	p := reference.Plugins[set.ReferenceTransport]
	if s.Plan.Repeats < fewestForInterval || s.Plan.Order != Interleaved || p == nil ||
		s.Plugins[set.ReferenceTransport] != nil || reference.Plan.Cells[0].Unavailable != "" {
		return
	}
	for _, other := range s.Plugins {
		if other.Identity.RuntimeDigest != p.Identity.RuntimeDigest {
			return
		}
	}
	s.Plugins[set.ReferenceTransport] = p
	s.Plan.Cells = append(s.Plan.Cells, reference.Plan.Cells[0])
}

// Outcome is the result of a sweep.
type Outcome struct {
	Set      *set.Set
	Failed   int // cells
	Invalid  int // of those that failed, the ones whose plugin reported what cannot be
	Complete int // cells
	// Unavailable is the number of cells that this machine cannot measure.
	Unavailable int
	// OutOfTime reports that Limit ended the sweep early.
	OutOfTime bool
}

// Sweep measures the cells of a plan. It records why a cell cannot be measured, and goes on. When
// ctx ends or a host is lost, it drops the current run, writes the index and returns the error
// together with the outcome.
func (e *Engine) Sweep(ctx context.Context, of *Sweep, w Watcher) (*Outcome, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	measure, err := e.Measure(of.Plugins, w, false)
	if err != nil {
		return nil, err
	}
	begun := origin{Plugins: map[string]string{}}
	for name, p := range of.Plugins {
		begun.Plugins[name] = p.Identity.SHA256
	}
	if begun.Machine, err = set.Flatten(e.Environment.Identity); err != nil {
		return nil, err
	}
	begin := create
	if of.Resume {
		begin = open
	}
	store, err := begin(of, begun)
	if err != nil {
		return nil, err
	}
	defer store.close()
	s := &sweep{
		Sweep: of, make: endOnLoss(measure, end), beside: e.Beside, watcher: w,
		store: store, failures: map[int]Failure{}, began: time.Now(), labels: labels(of.Plan),
	}
	interrupted := s.all(ctx)
	if interrupted != nil && ctx.Err() == nil {
		return nil, interrupted // a run cannot be stored
	}
	index, err := store.finish(s.failures)
	if err != nil {
		return nil, err
	}
	index.SetReferenceAside()
	outcome := &Outcome{Set: index, Complete: s.complete(), OutOfTime: s.outOfTime}
	for _, f := range s.failures {
		switch {
		case f.Status != set.Failed:
			outcome.Unavailable++
		case f.Invalid:
			outcome.Invalid++
			fallthrough
		default:
			outcome.Failed++
		}
	}
	return outcome, endOf(ctx, interrupted)
}

// sweep is a sweep in progress.
type sweep struct {
	*Sweep
	make      Measure
	beside    runner.Beside
	watcher   Watcher
	store     *store
	failures  map[int]Failure
	labels    []string
	began     time.Time
	outOfTime bool

	current int // number of the current run, from 1
	pace    Pace
}

func labels(p *Plan) []string {
	cells := make([]set.Cell, len(p.Cells))
	for i := range p.Cells {
		cells[i].Config = p.Cells[i].Flat()
	}
	labels := set.LabelsOf(cells)
	list := make([]string, len(cells))
	for i := range cells {
		list[i] = labels.Of(cells[i].Config)
	}
	return list
}

func (s *sweep) all(ctx context.Context) error {
	for i := range s.Plan.Cells {
		if err := s.stored(i, s.store.complete(i)); err != nil {
			return err
		}
		if reason := s.Plan.Cells[i].Unavailable; reason != "" && !s.store.cells[i].complete {
			s.fail(i, Failure{Status: set.Unavailable, Reason: reason})
		}
	}
	runs := s.Plan.runs()
	for _, r := range runs {
		if !s.skip(r) {
			s.pace.ToCome += s.Plan.Cells[r.cell].Expected(s.beside)
		}
	}
	for i, r := range runs {
		s.current = i + 1
		if s.skip(r) {
			continue
		}
		if s.overLimit() {
			s.outOfTime = true
			return nil
		}
		if err := s.run(ctx, r); err != nil {
			return err
		}
	}
	return s.topUp(ctx)
}

// overLimit reports whether the time of the sweep is up.
func (s *sweep) overLimit() bool {
	return s.Spec.Limit > 0 && time.Since(s.began) > s.Spec.Limit
}

// skip reports whether the run is done or its cell is given up.
func (s *sweep) skip(r run) bool {
	_, failed := s.failures[r.cell]
	return failed || s.store.cells[r.cell].done[r.repeat]
}

// run measures and stores one run.
func (s *sweep) run(ctx context.Context, r run) error {
	cell := &s.store.cells[r.cell]
	expected := s.Plan.Cells[r.cell].Expected(s.beside)
	began := time.Now()
	c, capacity, err := s.configOf(r.cell)
	var measured *result.Result
	var failure Failure
	for try := 1; err == nil; try++ {
		measured, err = s.attempt(ctx, c, s.status(r))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			break
		}
		if failure = failureOf(err); failure.Status != set.Failed {
			break
		}
		log, logErr := s.store.log(r, try, err, measured)
		if logErr != nil {
			return logErr
		}
		if try == tries {
			failure.Reason += fmt.Sprintf("%s%d times, see %s", set.Tried, tries, log)
			break
		}
		s.watcher.Again(s.status(r), failure.Reason, log)
		err = nil
	}
	s.pace.Made(expected, time.Since(began))
	complete := cell.complete // so the run is one more
	if err != nil && complete {
		return nil
	}
	if err != nil {
		if failure.Reason == "" {
			failure = failureOf(err)
		}
		s.fail(r.cell, failure)
		s.pace.ToCome -= expected * time.Duration(s.Plan.Repeats-len(cell.done)-1)
		return nil
	}
	measured.Capacity = capacity
	if err := s.stored(r.cell, s.store.save(r.cell, r.repeat, measured)); err != nil {
		return err
	}
	if cell.complete && !complete {
		s.watcher.Cell(s.status(r), &cell.cell)
	}
	return nil
}

// tries is how often a run is made that fails: a stall of the machine should not cost a cell.
const tries = 2

// attempt makes one run with one repeat, within CellLimit.
func (s *sweep) attempt(ctx context.Context, c config.Config, status Status) (*result.Result,
	error) {
	c.Repeats = 1
	limited, cancel := ctx, func() {}
	if limit := s.Spec.CellLimit; limit > 0 {
		limited, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	r, err := s.make(limited, c, s.watcher.Begin(status))
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("a repeat took longer than the cell limit of %v", s.Spec.CellLimit)
	case err == nil && (r == nil || len(r.Repeats) != 1):
		err = errors.New("the run has no complete repeat")
	}
	return r, err
}

// stored handles err, the outcome of storing cell i: it gives up the cell if err concerns only that
// cell, and returns any other error.
func (s *sweep) stored(i int, err error) error {
	var one *cellError
	if errors.As(err, &one) {
		s.fail(i, failureOf(one.error))
		return nil
	}
	return err
}

func failureOf(err error) Failure {
	reason := printable.Joined(err)
	var limit *config.Error
	if errors.Is(err, transport.ErrUnavailable) || errors.As(err, &limit) {
		return Failure{Status: set.Unavailable, Reason: reason}
	}
	var invalid *record.InvalidError
	return Failure{Status: set.Failed, Reason: reason, Invalid: errors.As(err, &invalid)}
}

// fail gives up cell i.
func (s *sweep) fail(i int, f Failure) {
	s.failures[i] = f
	s.watcher.Cell(s.status(run{i, 0}), &set.Cell{
		Config: s.Plan.Cells[i].Flat(), Status: f.Status, Reason: f.Reason, Environment: -1,
	})
}

func (s *sweep) status(r run) Status {
	return Status{
		Label: s.labels[r.cell], Repeat: r.repeat + 1, Repeats: max(s.Plan.Repeats, r.repeat+1),
		Run: s.current, Runs: max(len(s.Plan.Cells)*s.Plan.Repeats, s.current),
		Cells: len(s.Plan.Cells), Done: s.complete() + len(s.failures), Left: max(s.pace.Left(), 0),
	}
}

func (s *sweep) complete() int {
	n := 0
	for i := range s.store.cells {
		if s.store.cells[i].complete {
			n++
		}
	}
	return n
}
