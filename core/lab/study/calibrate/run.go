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
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Options are the inputs of a calibration.
type Options struct {
	Dir    string // gets the calibration
	Quick  bool
	Engine *experiment.Engine
	// Plugins has the plugin of [Transport].
	Plugins experiment.Plugins
	// Load keeps every processor busy until stop is called.
	Load func() (stop func(), err error)
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

// Run makes a calibration and stores it in o.Dir. When ctx ends, Run drops what it has measured and
// returns ctx's error.
func Run(ctx context.Context, o Options) (*calibration.Document, error) {
	if err := files.MakeDir(o.Dir); err != nil {
		return nil, &result.IOError{Op: "making a directory for the calibration", Path: o.Dir,
			Err: err}
	}
	measure, err := o.Engine.Measure(o.Plugins, o.Log, false)
	if err != nil {
		return nil, err
	}
	c := &calibrator{Options: o, measure: measure, began: time.Now().UTC(),
		done: map[launch]measured{}}
	if c.plan, err = c.newPlan(ctx); err != nil {
		return nil, err
	}
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
	return d, calibration.Write(filepath.Join(o.Dir, calibration.FileName), d)
}

// calibrator is a calibration in progress.
type calibrator struct {
	Options
	plan    *Plan
	measure experiment.Measure
	done    map[launch]measured
	began   time.Time

	pace experiment.Pace
}

// measured is a finished launch.
type measured struct {
	tookS     float64
	clockStep float64 // in ns
	again     int     // how many launches failed before this one
	window    set.Window
	samples   map[string]float64
}

// newPlan makes the plan, for which it measures the operations that are slowed down.
func (c *calibrator) newPlan(ctx context.Context) (*Plan, error) {
	bases := NominalBases(c.Plugins)
	nominal, err := NewPlan(c.Quick, bases, c.Plugins)
	if err != nil {
		return nil, err
	}
	if bases.Memory, err = c.pilot(ctx, nominal, nil); err != nil {
		return nil, err
	}
	if bases.Sockets > 0 {
		if bases.Sockets, err = c.pilot(ctx, nominal, overSockets); err != nil {
			return nil, err
		}
	}
	return NewPlan(c.Quick, bases, c.Plugins)
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
		times = append(times, m.samples[result.LatencyP50])
	}
	return time.Duration(record.Median(times)), nil
}

// measureAll measures all launches.
func (c *calibrator) measureAll(ctx context.Context) error {
	c.pace.ToCome = c.plan.Expected()
	launches := c.plan.launches()
	for len(launches) > 0 {
		first := launches[0].experiment
		n := slices.IndexFunc(launches, func(l launch) bool { return l.experiment != first })
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
	e := &c.plan.Experiments[launches[0].experiment]
	if e.Loaded {
		stop, err := c.Load()
		if err != nil {
			return fmt.Errorf("loading the processors: %w", err)
		}
		defer stop()
	}
	for _, l := range launches {
		expected, began := e.expected(l.cell), time.Now()
		m, err := c.try(ctx, &e.Cells[l.cell], experiment.Status{
			Label: e.Name, Repeat: l.round + 1, Repeats: e.Rounds,
			Run: len(c.done) + 1, Runs: c.plan.Launches(), Left: c.pace.Left(),
		})
		if err != nil {
			return err
		}
		took := time.Since(began)
		c.pace.Made(expected, took)
		m.tookS, m.window.Launch = took.Seconds(), l.round
		c.done[l] = m
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
			m.again = attempt - 1
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
	one.Windows[0].StartedAt = one.Windows[0].StartedAt.UTC()
	m = measured{window: one.Windows[0], clockStep: one.ClockStep, samples: map[string]float64{}}
	for _, name := range keptSamples {
		if values := one.Samples[name]; len(values) == 1 {
			m.samples[name] = values[0]
		}
	}
	if s.Label == calibration.ExperimentHalf {
		h, err := result.Histograms(r.Repeats[0].Latency)
		if err != nil {
			return m, err
		}
		m.samples[calibration.LowerQuartile], m.samples[calibration.UpperQuartile] = h.Interpolate(
			0.25, one.ClockStep), h.Interpolate(0.75, one.ClockStep)
	}
	if !(m.samples[result.Throughput] > 0) {
		return m, errors.New("the window completed nothing")
	}
	if _, timed := m.samples[result.LatencyP50]; !timed && cell.Config.SampleEvery != offEvery {
		return m, errors.New("the window timed no operation")
	}
	return m, nil
}

// document returns the calibration without conclusions.
func (c *calibrator) document() (*calibration.Document, error) {
	d := &calibration.Document{
		SchemaVersion: calibration.SchemaVersion, Kind: calibration.Kind, ID: result.NewID(),
		StartedAt: c.began, Argv: c.Engine.Argv, Tool: experiment.Tool(),
		Plugin: c.Plugins[Transport].Identity, Environment: c.Engine.Environment, Quick: c.Quick,
		Alpha: compare.Defaults().Alpha,
	}
	environment, err := set.EnvironmentOf(d.Environment)
	if err != nil {
		return nil, err
	}
	for _, m := range c.done {
		d.TookS += m.tookS
	}
	for i := range c.plan.Experiments {
		e := &c.plan.Experiments[i]
		s := set.New()
		s.CreatedAt, s.Environments = c.began, []set.Environment{environment}
		for cell := range e.Cells {
			s.Cells = append(s.Cells, c.cell(e, launch{experiment: i, cell: cell}))
		}
		d.Experiments = append(d.Experiments, calibration.Experiment{
			Name: e.Name, Loaded: e.Loaded, Unit: e.Unit, Known: e.Known,
			Discarded: c.discarded(i, len(e.Cells)), Set: s,
		})
	}
	return d, nil
}

// discarded counts the launches of each cell of an experiment that were made again; nil if there
// were none.
func (c *calibrator) discarded(experiment, cells int) []int {
	counts, total := make([]int, cells), 0
	for l, m := range c.done {
		if l.experiment == experiment {
			counts[l.cell] += m.again
			total += m.again
		}
	}
	if total == 0 {
		return nil
	}
	return counts
}

// cell returns what was measured of one cell of an experiment. It leaves out metrics that some
// window lacks, because the i-th samples of all metrics are of the i-th window.
func (c *calibrator) cell(e *PlannedExperiment, of launch) set.Cell {
	one := set.Cell{
		Config: e.Cells[of.cell].Flat(), Status: set.Measured, Schema: result.SchemaVersion,
		Plugin:  set.Plugin{Name: e.Cells[of.cell].Config.Transport},
		Samples: map[string][]float64{},
	}
	if one.Plugin.Name == Transport {
		one.Plugin = set.PluginOf(&c.Plugins[Transport].Identity)
	}
	for of.round = range e.Rounds {
		m := c.done[of]
		one.Windows = append(one.Windows, m.window)
		one.ClockStep = max(one.ClockStep, m.clockStep)
		for name, value := range m.samples {
			one.Samples[name] = append(one.Samples[name], value)
		}
	}
	for name, values := range one.Samples {
		if len(values) < e.Rounds {
			delete(one.Samples, name)
		}
	}
	one.StartedAt = one.Windows[0].StartedAt
	return one
}
