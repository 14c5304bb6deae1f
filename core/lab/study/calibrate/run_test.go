package calibrate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// quickLaunches is how many launches a quick calibration has.
const quickLaunches = 422

// plugins have the transport calibration with some of its options, all of them by default.
func plugins(options ...string) experiment.Plugins {
	if len(options) == 0 {
		options = []string{
			"delay", "delay-distribution", "slow-delay", "slow-every", "rate", "stall",
			"stall-every", "daemon-time", "lose-every",
		}
	}
	p := &experiment.Plugin{
		Identity: result.Plugin{Name: Transport, Version: "1", SHA256: "abc"},
		Launcher: func(io.Writer, bool) (experiment.Launcher, error) { return nil, nil },
	}
	for _, name := range options {
		p.Info.Options = append(p.Info.Options,
			transport.Option{Name: name, Type: transport.TypeString})
	}
	return experiment.Plugins{Transport: p}
}

func plan(t *testing.T, quick bool) *Plan {
	t.Helper()
	p, err := NewPlan(quick, NominalBases(plugins()), plugins())
	require.NoError(t, err)
	return p
}

func TestPlan(t *testing.T) {
	full, quick := plan(t, false), plan(t, true)
	require.Equal(t, 10143, full.Launches())
	require.Equal(t, quickLaunches, quick.Launches())
	require.Less(t, quick.Expected(), 2*time.Minute, "promised by --quick")
	require.Less(t, full.Expected(), 40*time.Minute)

	var names []string
	for i := range full.Experiments {
		e := &full.Experiments[i]
		names = append(names, e.Name)
		require.Len(t, e.Known, len(e.Cells))
		require.Equal(t, e.Name == calibration.ExperimentMemoryLoaded, e.Loaded, e.Name)
	}
	require.ElementsMatch(t, []string{
		calibration.ExperimentDelay, calibration.ExperimentHalf, calibration.ExperimentExponential,
		calibration.ExperimentBimodal, calibration.ExperimentRate, calibration.ExperimentStall,
		calibration.ExperimentObserver, calibration.ExperimentSelf, calibration.ExperimentMemory,
		calibration.ExperimentMemoryLoaded, calibration.ExperimentClients,
	}, names)

	at := func(name string) *PlannedExperiment {
		return &full.Experiments[slices.Index(names, name)]
	}
	require.Equal(t, []float64{0, 10, 20, 50, 100, 200, 500}, at(calibration.ExperimentDelay).Known)
	require.Equal(t, at(calibration.ExperimentDelay).Cells[6].Config.Options["lose-every"],
		at(calibration.ExperimentDelay).Cells[0].Config.Options["lose-every"])
	require.Equal(t, "500ns", at(calibration.ExperimentDelay).Cells[6].Config.Options["delay"])
	require.Equal(t, "10ms", at(calibration.ExperimentHalf).Cells[8].Config.Options["slow-delay"])
	require.Equal(t, config.Duration(200*time.Millisecond),
		at(calibration.ExperimentHalf).Cells[8].Config.Duration)
	require.Equal(t, "100000", at(calibration.ExperimentRate).Cells[1].Config.Options["rate"],
		"the limit of the transport")
	require.Zero(t, at(calibration.ExperimentRate).Cells[1].Config.Rate)
	require.Equal(t, config.Rate(20_000), at(calibration.ExperimentStall).Cells[2].Config.Rate,
		"the load")
	require.Equal(t, "74ms", at(calibration.ExperimentStall).Cells[2].Config.Options["stall"])
	require.Equal(t, at(calibration.ExperimentSelf).Cells[0].ID,
		at(calibration.ExperimentSelf).Cells[2].ID)
	require.GreaterOrEqual(t, at(calibration.ExperimentSelf).Rounds/10, 200,
		"comparisons of 10 repeats")
	require.InDeltaSlice(t, []float64{0, 0.01, 0.02, 0.05, 0.1},
		at(calibration.ExperimentMemory).Known, 1e-9)
	require.Equal(t, config.Duration(15), at(calibration.ExperimentMemory).Cells[3].Config.Burn)
	require.Equal(t, "0s", cmp.Or(at(calibration.ExperimentMemory).Cells[3].Config.Options["delay"],
		"0s"), "not padded")
	with := plugins()
	with[SocketTransport] = &experiment.Plugin{Identity: result.Plugin{Name: SocketTransport}}
	sockets, err := NewPlan(false, NominalBases(with), with)
	require.NoError(t, err)
	require.Equal(t, full.Launches()+5*400, sockets.Launches())
	require.Less(t, sockets.Expected(), 45*time.Minute)
	require.Equal(t, 16, at(calibration.ExperimentClients).Cells[2].Config.Clients)

	list := full.launches()
	require.Len(t, list, full.Launches())
	once := map[launch]bool{}
	orders := map[int]bool{} // the cell of self that is first in a round
	for i, l := range list {
		once[l] = true
		if i > 0 && names[l.experiment] == calibration.ExperimentSelf &&
			list[i-1].round != l.round {
			orders[l.cell] = true
		}
	}
	require.Len(t, once, len(list))
	require.Len(t, orders, 3, "each cell is first in some rounds")
}

func TestPlanOfAnotherPlugin(t *testing.T) {
	_, err := NewPlan(true, NominalBases(plugins()),
		plugins("delay", "delay-distribution", "slow-delay",
			"slow-every", "rate", "lose-every"))
	require.ErrorContains(t, err, `experiment stall: unknown option "stall`)
}

// fake measures launches without a machine: how many there were determines the figures.
type fake struct {
	launches int
	fail     func(launch int) error // before a launch, from 1
	loaded   int                    // loads that run
	underLoad,
	loads int
}

var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func (f *fake) measure(ctx context.Context, c config.Config, _ experiment.Observer) (*result.Result,
	error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.fail != nil {
		if err := f.fail(f.launches + 1); err != nil {
			return nil, err
		}
	}
	f.launches++
	if f.loaded > 0 {
		f.underLoad++
	}
	operation := 1200 + float64(f.launches%7) + float64(c.Burn)
	return &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, Config: c,
		Plugin: result.Plugin{Name: Transport},
		Repeats: []result.Repeat{{
			StartedAt: began.Add(time.Duration(f.launches) * time.Second),
			Before:    result.Readings{CoreDistance: 50}, After: result.Readings{CoreDistance: 51},
			Samples: map[string]float64{
				result.Throughput: 1e9 / operation, result.LatencyMean: operation,
				result.LatencyP50: operation,
				result.LatencyP99: 2 * operation, result.LatencyMax: 3 * operation,
				result.Goodput: 7,
			},
		}},
	}, nil
}

// making returns a maker of runs that measure makes.
func making(measure experiment.Measure) func(context.Context, runner.Request,
	runner.Observer) (*result.Result, error) {
	return func(ctx context.Context, req runner.Request, obs runner.Observer) (
		*result.Result, error) {
		return measure(ctx, req.Config, obs)
	}
}

func (f *fake) options(dir string) Options {
	return Options{
		Dir: dir, Quick: true,
		Begin: func(experiment.Status) experiment.Observer { return nil },
		Load: func() (func(), error) {
			f.loads++
			f.loaded++
			return func() { f.loaded-- }, nil
		},
		Plugins: plugins(), Log: io.Discard,
		Engine: &experiment.Engine{
			Make: making(f.measure), Argv: []string{"transportbench", "calibrate"},
			Environment: machine.Environment{Identity: machine.Identity{CPU: "some", Arch: "amd64",
				CPUs: 2}},
		},
	}
}

// experimentOf returns the experiment of a name.
func experimentOf(d *calibration.Document, name string) *calibration.Experiment {
	i := slices.IndexFunc(d.Experiments,
		func(e calibration.Experiment) bool { return e.Name == name })
	return &d.Experiments[i]
}

func TestRun(t *testing.T) {
	f, dir := new(fake), filepath.Join(t.TempDir(), "made")
	var first, last experiment.Status
	o := f.options(dir)
	o.Begin = func(s experiment.Status) experiment.Observer {
		if s.Run == 1 && s.Label != "pilot" {
			first = s
		}
		last = s
		return nil
	}
	d, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, quickLaunches+pilots, f.launches)
	require.Zero(t, f.loads, "a quick one has no experiment under load")
	require.Equal(t, quickLaunches, first.Runs)
	require.Equal(t, plan(t, true).Expected(), first.Left)
	require.Equal(t, quickLaunches, last.Run)

	stored, err := calibration.Read(filepath.Join(dir, calibration.FileName))
	require.NoError(t, err)
	require.Equal(t, d.ID, stored.ID)
	require.True(t, stored.Quick)
	require.Equal(t, "abc", stored.Plugin.SHA256)
	require.Len(t, stored.Experiments, 10)
	self := experimentOf(stored, calibration.ExperimentSelf).Set
	require.Equal(t, "some", self.Machine(&self.Cells[0]).Identity["cpu"])
	require.Len(t, self.Cells[0].Windows, 60)
	require.Equal(t, 59, self.Cells[0].Windows[59].Launch)
	require.Equal(t, 50.0, self.Cells[0].Windows[0].DistanceBefore)
	require.NotContains(t, self.Cells[0].Samples, result.Goodput)
	require.NotEmpty(t, stored.Recovery, "concluded")
	require.Contains(t, experimentOf(stored, calibration.ExperimentHalf).Set.Cells[0].Samples,
		calibration.LowerQuartile)
	require.NotContains(t, experimentOf(stored, calibration.ExperimentBimodal).Set.Cells[0].Samples,
		calibration.LowerQuartile)

	// Another one replaces it.
	again, err := Run(t.Context(), f.options(dir))
	require.NoError(t, err)
	require.NotEqual(t, d.ID, again.ID)
}

// A launch that fails once is tried again; one that fails always ends the calibration.
func TestFailingLaunch(t *testing.T) {
	f, dir := new(fake), t.TempDir()
	failures, all := 0, 0
	f.fail = func(n int) error {
		if n%50 == 0 && failures < attempts-1 {
			failures++
			all++
			return errors.New("port in use")
		}
		failures = 0
		return nil
	}
	d, err := Run(t.Context(), f.options(dir))
	require.NoError(t, err)
	counted := 0
	for _, e := range d.Experiments {
		require.Contains(t, []int{0, len(e.Known)}, len(e.Discarded))
		for _, n := range e.Discarded {
			counted += n
		}
	}
	require.Equal(t, all, counted)
	stored, err := calibration.Read(filepath.Join(dir, calibration.FileName))
	require.NoError(t, err)
	require.Equal(t, d.Experiments[0].Discarded, stored.Experiments[0].Discarded)

	f = new(fake)
	f.fail = func(n int) error {
		if n > 50 {
			return errors.New("it crashed")
		}
		return nil
	}
	_, err = Run(t.Context(), f.options(dir))
	require.ErrorContains(t, err, "delay, after 3 attempts: it crashed")
}

// Figures that must not be used end a launch like a crash.
func TestUntrustedLaunch(t *testing.T) {
	f := new(fake)
	o := f.options(t.TempDir())
	o.Engine.Make = making(func(ctx context.Context, c config.Config, obs experiment.Observer) (
		*result.Result, error) {
		r, err := f.measure(ctx, c, obs)
		r.Checks = []result.Finding{{Name: "verified", Severity: result.Error,
			Message: "3 were wrong"}}
		return r, err
	})
	_, err := Run(t.Context(), o)
	require.ErrorContains(t, err, "check verified failed: 3 were wrong")

	// A window in which no operation was timed would lack the latency that the others have.
	o.Engine.Make = making(func(ctx context.Context, c config.Config, obs experiment.Observer) (
		*result.Result, error) {
		r, err := f.measure(ctx, c, obs)
		delete(r.Repeats[0].Samples, result.LatencyP50)
		return r, err
	})
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "timed no operation")

	// An open loop that did not keep its load counts, too: it may have ended in a stall.
	f = new(fake)
	o.Engine.Make = making(func(ctx context.Context, c config.Config, obs experiment.Observer) (
		*result.Result, error) {
		r, err := f.measure(ctx, c, obs)
		if c.Rate.Offers() {
			r.Checks = []result.Finding{{Name: "rate", Severity: result.Error,
				Message: "in 1 of 1 windows"}}
		}
		return r, err
	})
	d, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, quickLaunches+pilots, f.launches)
	require.Nil(t, experimentOf(d, calibration.ExperimentStall).Discarded)

	o.Engine.Make = making(f.measure)
	o.Plugins = plugins()
	o.Plugins[Transport].Info.Unavailable = "no memory"
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "calibration: no memory")
}

// Only the experiment under load is measured under load, also if it ends with an error.
func TestLoadedExperiment(t *testing.T) {
	p := plan(t, false)
	i := slices.IndexFunc(p.Experiments, func(e PlannedExperiment) bool { return e.Loaded })
	p.Experiments = []PlannedExperiment{p.Experiments[0], p.Experiments[i]}
	p.Experiments[0].Rounds, p.Experiments[1].Rounds = 2, 2
	f := new(fake)
	c := &calibrator{measure: f.measure, Options: f.options(""), plan: p,
		done: map[launch]measured{}}
	f.fail = func(n int) error {
		if n == 20 {
			return errors.New("it crashed")
		}
		return nil
	}
	require.Error(t, c.measureAll(t.Context()))
	require.Zero(t, f.loaded)
	f = new(fake)
	c.Options, c.measure = f.options(""), f.measure
	require.NoError(t, c.measureAll(t.Context()))
	require.Len(t, c.done, 24)
	require.Equal(t, 10, f.underLoad)
	require.Equal(t, 1, f.loads)
	require.Zero(t, f.loaded)
}

func TestNoDirectory(t *testing.T) {
	_, err := Run(t.Context(), new(fake).options("/dev/null/x"))
	require.ErrorContains(t, err, "choose another directory with --out")
	require.NotContains(t, err.Error(), "\n")
}
