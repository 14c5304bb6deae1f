package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"transportbench/core/base/files"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Options are the inputs of a calibration.
type Options struct {
	// Dir keeps the journal and then the calibration.
	Dir   string
	Quick bool
	// Resume continues the calibration in Dir.
	Resume bool
	Engine *experiment.Engine
	// Plugins has the plugin of [Transport].
	Plugins experiment.Plugins
	// Load runs a process that spins on every processor until stop is called. running returns an
	// error once one of them has ended.
	Load func() (running func() error, stop func(), err error)
	// Resumed is called before the first launch of a calibration that is resumed, with the plan and
	// what is left of it.
	Resumed func(p *Plan, launches int, left time.Duration)
	// Begin is called before each launch. The observer that it returns may be nil.
	Begin func(experiment.Status) experiment.Observer
	Log   io.Writer // gets what plugins log
}

// attempts is how often a launch is tried, since a machine under load has transient failures.
const attempts = 3

// pilots is how many launches measure the time of an operation before the plan is made.
const pilots = 5

// keptSamples are the metrics that the document has.
var keptSamples = []string{
	result.Throughput, result.LatencyMean, result.LatencyP50, result.LatencyP99, result.LatencyMax,
	result.ResponseP50, result.ResponseP99, result.ResponseMax,
}

// Run makes a calibration and stores it in o.Dir. Every finished launch is in the journal there,
// with which a calibration that ended early is resumed. When ctx ends, Run drops the current launch
// and returns ctx's error.
func Run(ctx context.Context, o Options) (*calibration.Document, error) {
	if err := files.MakeDir(o.Dir); err != nil {
		return nil, &result.IOError{Op: "making a directory for the calibration", Path: o.Dir,
			Err: err}
	}
	lock, err := result.LockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	measure, err := o.Engine.Measure(o.Plugins, o.Log, false)
	if err != nil {
		return nil, err
	}
	c := &calibrator{Options: o, measure: measure, began: time.Now()}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	defer c.journal.close()
	if err := c.measureAll(ctx); err != nil {
		return nil, err
	}
	d, err := c.document()
	if err != nil {
		return nil, err
	}
	if err := calibration.Conclude(d); err != nil {
		return nil, err
	}
	if err := calibration.Write(filepath.Join(o.Dir, calibration.FileName), d); err != nil {
		return nil, err
	}
	return d, c.journal.remove()
}

// calibrator is a calibration in progress.
type calibrator struct {
	Options
	plan    *Plan
	measure experiment.Measure
	journal *journal
	began   time.Time

	pace experiment.Pace
}

// begin makes the plan and opens or creates the journal.
func (c *calibrator) begin(ctx context.Context) (err error) {
	exists := Exists(c.Dir)
	switch {
	case c.Resume:
		return c.resume()
	case exists:
		return fmt.Errorf("%s: %w; use --resume to continue it", c.Dir, ErrExists)
	}
	bases := NominalBases(c.Plugins)
	nominal, err := NewPlan(c.Quick, bases, c.Plugins)
	if err != nil {
		return err
	}
	if bases.Memory, err = c.pilot(ctx, nominal, nil); err != nil {
		return err
	}
	if bases.Sockets > 0 {
		if bases.Sockets, err = c.pilot(ctx, nominal, overSockets); err != nil {
			return err
		}
	}
	if c.plan, err = NewPlan(c.Quick, bases, c.Plugins); err != nil {
		return err
	}
	c.journal, err = createJournal(c.Dir, header{
		ID: result.NewID(), StartedAt: c.began.UTC(), Digest: c.plan.Digest(), Quick: c.Quick,
		Bases: bases, Origin: originOf(c.Engine, c.Plugins),
	})
	return err
}

func (c *calibrator) resume() (err error) {
	if c.journal, err = openJournal(c.Dir); err != nil {
		return err
	}
	if c.plan, err = NewPlan(c.Quick, c.journal.Bases, c.Plugins); err == nil {
		err = c.journal.check(c.Dir, c.plan, originOf(c.Engine, c.Plugins))
	}
	if err != nil {
		c.journal.close()
	}
	return err
}

// Left is what a calibration would measure.
type Left struct {
	*Plan
	Launches int           `json:"launches"` // that are not in the journal
	Expected time.Duration `json:"expected_ns"`
}

// Remaining returns what is left of the calibration in dir, which [Run] would resume with the same
// arguments. It leaves the journal as it is.
func Remaining(dir string, quick bool, e *experiment.Engine, plugins experiment.Plugins) (Left,
	error) {
	j, _, err := readJournal(dir)
	if err != nil {
		return Left{}, err
	}
	p, err := NewPlan(quick, j.Bases, plugins)
	if err == nil {
		err = j.check(dir, p, originOf(e, plugins))
	}
	if err != nil {
		return Left{}, err
	}
	launches, expected := j.left(p)
	return Left{p, launches, expected}, nil
}

// left returns how many launches of a plan the journal does not have, and how long they take.
func (j *journal) left(p *Plan) (launches int, expected time.Duration) {
	for _, l := range p.launches() {
		if _, done := j.done[l]; !done {
			launches++
			expected += p.Experiments[l.Experiment].expected(l.Cell)
		}
	}
	return launches, expected
}

// pilot measures the time of an operation of the experiments of power: the median, which the share
// of a processor that other processes take does not move.
func (c *calibrator) pilot(ctx context.Context, nominal *Plan, load values) (time.Duration,
	error) {
	cell, err := cell(c.Plugins, load)
	if err != nil {
		return 0, err
	}
	var times []float64
	for i := range pilots {
		m, err := c.try(ctx, cell, experiment.Status{
			Label: "pilot", Repeat: i + 1, Repeats: pilots, Runs: nominal.Launches(),
			Left: nominal.Expected(),
		})
		if err != nil {
			return 0, err
		}
		times = append(times, m.Samples[result.LatencyP50])
	}
	slices.Sort(times)
	return time.Duration(times[pilots/2]), nil
}

// measureAll measures all launches that the journal does not have.
func (c *calibrator) measureAll(ctx context.Context) error {
	launches := c.plan.launches()
	todo, left := c.journal.left(c.plan)
	c.pace.ToCome = left
	if c.Resume {
		c.Resumed(c.plan, todo, left)
	}
	for len(launches) > 0 {
		first := launches[0].Experiment
		n := slices.IndexFunc(launches, func(l launch) bool { return l.Experiment != first })
		if n < 0 {
			n = len(launches)
		}
		if err := c.measureExperiment(ctx, launches[:n]); err != nil {
			return err
		}
		launches = launches[n:]
	}
	return nil
}

// measureExperiment measures the launches of one experiment.
func (c *calibrator) measureExperiment(ctx context.Context, launches []launch) error {
	todo := slices.DeleteFunc(slices.Clone(launches),
		func(l launch) bool { _, done := c.journal.done[l]; return done })
	if len(todo) == 0 {
		return nil
	}
	e := &c.plan.Experiments[todo[0].Experiment]
	running := func() error { return nil }
	if e.Loaded {
		check, stop, err := c.Load()
		if err != nil {
			return fmt.Errorf("loading the processors: %w", err)
		}
		defer stop()
		running = check
	}
	for _, l := range todo {
		expected, began := e.expected(l.Cell), time.Now()
		m, err := c.try(ctx, &e.Cells[l.Cell], experiment.Status{
			Label: e.Name, Repeat: l.Round + 1, Repeats: e.Rounds,
			Run: len(c.journal.done) + 1, Runs: c.plan.Launches(), Left: c.pace.Left(),
		})
		if err != nil {
			return err
		}
		if err := running(); err != nil { // the launch was not measured under load
			return fmt.Errorf("loading the processors: %w", err)
		}
		took := time.Since(began)
		c.pace.Made(expected, took)
		m.launch, m.TookS = l, took.Seconds()
		m.Window.Launch = l.Round
		if err := c.journal.add(m); err != nil {
			return err
		}
	}
	return nil
}

// try makes one launch, again if it fails. It counts the failures.
func (c *calibrator) try(ctx context.Context, cell *experiment.Cell,
	s experiment.Status) (m measured, err error) {
	if cell.Unavailable != "" {
		return m, fmt.Errorf("%s: %s", cell.Config.Transport, cell.Unavailable)
	}
	for attempt := 1; ; attempt++ {
		m, err = c.launch(ctx, cell, s)
		switch {
		case err == nil:
			m.Again = attempt - 1
			return m, nil
		case ctx.Err() != nil:
			return m, ctx.Err()
		case attempt == attempts:
			return m, fmt.Errorf("%s, after %d attempts: %w", s.Label, attempts, err)
		}
	}
}

func (c *calibrator) launch(ctx context.Context, cell *experiment.Cell,
	s experiment.Status) (m measured, err error) {
	r, err := c.measure(ctx, cell.Config, c.Begin(s))
	switch {
	case err != nil:
		return m, err
	case r == nil || len(r.Repeats) != 1:
		return m, errors.New("the launch has no complete window")
	}
	for _, check := range r.Checks {
		// Calls are still due at the end of a window of an open loop that ends within a stall. To
		// measure these again would select the windows that end otherwise.
		if !check.OK && check.Severity == result.Error && check.Name != "rate" {
			return m, fmt.Errorf("check %s failed: %s", check.Name, check.Message)
		}
	}
	one, err := set.New().NewCell(r)
	if err != nil {
		return m, err
	}
	// as it is read from the journal
	one.Windows[0].StartedAt = one.Windows[0].StartedAt.UTC().Round(0)
	m = measured{Window: one.Windows[0], ClockStep: one.ClockStep, Samples: map[string]float64{}}
	for _, name := range keptSamples {
		if values := one.Samples[name]; len(values) == 1 {
			m.Samples[name] = values[0]
		}
	}
	if s.Label == calibration.ExperimentHalf {
		h, err := result.Histograms(r.Repeats[0].Latency)
		if err != nil {
			return m, err
		}
		m.Samples[calibration.LowerQuartile], m.Samples[calibration.UpperQuartile] = h.Interpolate(
			0.25, one.ClockStep), h.Interpolate(0.75, one.ClockStep)
	}
	if !(m.Samples[result.Throughput] > 0) {
		return m, errors.New("the window completed nothing")
	}
	if _, timed := m.Samples[result.LatencyP50]; !timed && cell.Config.SampleEvery != offEvery {
		return m, errors.New("the window timed no operation")
	}
	return m, nil
}

// document returns the calibration without conclusions.
func (c *calibrator) document() (*calibration.Document, error) {
	j := c.journal
	d := &calibration.Document{
		SchemaVersion: calibration.SchemaVersion, Kind: calibration.Kind, ID: j.ID,
		StartedAt: j.StartedAt, Argv: j.Argv, Tool: j.Tool,
		Plugin: j.Plugin, Environment: j.Environment, Quick: j.Quick,
		Alpha: compare.Defaults().Alpha,
	}
	environment, err := set.EnvironmentOf(j.Environment)
	if err != nil {
		return nil, err
	}
	for _, l := range c.plan.launches() {
		d.TookS += j.done[l].TookS
	}
	for i := range c.plan.Experiments {
		e := &c.plan.Experiments[i]
		s := set.New()
		s.CreatedAt, s.Environments = j.StartedAt, []set.Environment{environment}
		for cell := range e.Cells {
			s.Cells = append(s.Cells, j.cell(e, launch{Experiment: i, Cell: cell}))
		}
		d.Experiments = append(d.Experiments, calibration.Experiment{
			Name: e.Name, Loaded: e.Loaded, Unit: e.Unit, Known: e.Known,
			Discarded: j.discarded(i, len(e.Cells)), Set: s,
		})
	}
	return d, nil
}

// discarded counts the launches of each cell of an experiment that were made again; nil if there
// were none.
func (j *journal) discarded(experiment, cells int) []int {
	counts, total := make([]int, cells), 0
	for l, m := range j.done {
		if l.Experiment == experiment {
			counts[l.Cell] += m.Again
			total += m.Again
		}
	}
	if total == 0 {
		return nil
	}
	return counts
}

// cell returns what was measured of one cell of an experiment. It leaves out metrics that some
// window lacks, because the i-th samples of all metrics are of the i-th window.
func (j *journal) cell(e *PlannedExperiment, of launch) set.Cell {
	c := set.Cell{
		Config: e.Cells[of.Cell].Flat(), Status: set.Measured, Schema: result.SchemaVersion,
		Plugin:  set.Plugin{Name: e.Cells[of.Cell].Config.Transport},
		Samples: map[string][]float64{},
	}
	if c.Plugin.Name == Transport {
		c.Plugin.Version, c.Plugin.SHA256 = j.Plugin.Version, j.Plugin.SHA256
		c.Plugin.RuntimeDigest = j.Plugin.RuntimeDigest
	}
	for of.Round = range e.Rounds {
		m := j.done[of]
		c.Windows = append(c.Windows, m.Window)
		c.ClockStep = max(c.ClockStep, m.ClockStep)
		for name, value := range m.Samples {
			c.Samples[name] = append(c.Samples[name], value)
		}
	}
	for name, values := range c.Samples {
		if len(values) < e.Rounds {
			delete(c.Samples, name)
		}
	}
	c.StartedAt = c.Windows[0].StartedAt
	return c
}
