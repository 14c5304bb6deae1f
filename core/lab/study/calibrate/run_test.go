package calibrate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
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

	require.Equal(t, full.Digest(), plan(t, false).Digest())
	require.NotEqual(t, full.Digest(), quick.Digest())
	other, err := NewPlan(false, Bases{Memory: time.Microsecond}, plugins())
	require.NoError(t, err)
	require.NotEqual(t, full.Digest(), other.Digest())

	list := full.launches()
	require.Len(t, list, full.Launches())
	once := map[launch]bool{}
	orders := map[int]bool{} // the cell of self that is first in a round
	for i, l := range list {
		require.True(t, full.has(l))
		once[l] = true
		if i > 0 && names[l.Experiment] == calibration.ExperimentSelf &&
			list[i-1].Round != l.Round {
			orders[l.Cell] = true
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
	unloaded func(launch int) bool  // whether a process that spins has ended after a launch
	loaded   int                    // processes that run
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
		Load: func() (func() error, func(), error) {
			f.loads++
			f.loaded++
			running := func() error {
				if f.unloaded != nil && f.unloaded(f.launches) {
					return errors.New("a process has ended")
				}
				return nil
			}
			return running, func() { f.loaded-- }, nil
		},
		Resumed: func(*Plan, int, time.Duration) {},
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

// comparable drops what differs between two calibrations that measured the same.
func comparable(d *calibration.Document) *calibration.Document {
	c := *d
	c.ID, c.TookS, c.StartedAt = "", 0, time.Time{}
	for i := range c.Experiments {
		c.Experiments[i].Set.CreatedAt = time.Time{}
	}
	return &c
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

	require.False(t, Exists(dir), "the journal is gone")
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

// A calibration that was interrupted, and whose process was killed while it wrote a line, ends as
// one that was not.
func TestResumedCalibrationIsTheSame(t *testing.T) {
	whole := new(fake)
	want, err := Run(t.Context(), whole.options(t.TempDir()))
	require.NoError(t, err)

	f, dir := new(fake), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	f.fail = func(n int) error {
		if n == 100 {
			cancel()
			return context.Canceled
		}
		return nil
	}
	_, err = Run(ctx, f.options(dir))
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, Exists(dir))
	require.NoFileExists(t, filepath.Join(dir, calibration.FileName))

	_, err = Run(t.Context(), f.options(dir))
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "use --resume to continue it")

	path := filepath.Join(dir, journalName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, `{"e":3,"c":`...), 0o600))
	f.fail = nil
	o := f.options(dir)
	o.Resume = true
	o.Resumed = func(p *Plan, launches int, left time.Duration) {
		require.Equal(t, quickLaunches, p.Launches())
		require.Equal(t, quickLaunches-(99-pilots), launches)
		require.Less(t, left, p.Expected())
	}
	got, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, whole.launches, f.launches, "no launch is measured twice")
	require.Equal(t, comparable(want), comparable(got))
}

// A launch that fails once is tried again; one that fails always ends the calibration, and its
// journal stays.
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
	f.fail = nil
	o := f.options(dir)
	o.Resume = true
	_, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, quickLaunches+pilots, f.launches)
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
	require.False(t, Exists(o.Dir), "the pilot is not in the journal")

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
	j, err := createJournal(t.TempDir(), header{})
	require.NoError(t, err)
	defer j.close()
	c := &calibrator{measure: f.measure, Options: f.options(""), plan: p, journal: j}
	f.fail = func(n int) error {
		if n == 20 {
			return errors.New("it crashed")
		}
		return nil
	}
	require.Error(t, c.measureAll(t.Context()))
	require.Zero(t, f.loaded)
	f.fail = nil
	f.unloaded = func(n int) bool { return n == 22 }
	require.ErrorContains(t, c.measureAll(t.Context()),
		"loading the processors: a process has ended")
	require.Zero(t, f.loaded)
	require.Len(t, j.done, 21, "the launch after which a process had ended is not kept")
	f.unloaded = nil
	require.NoError(t, c.measureAll(t.Context()))
	require.Len(t, j.done, 24)
	require.Equal(t, 11, f.underLoad)
	require.Equal(t, 3, f.loads)
	require.Zero(t, f.loaded)
	require.NoError(t, c.measureAll(t.Context()))
	require.Equal(t, 3, f.loads, "nothing is left to measure")
}

// interrupted makes a calibration with launches of the journal, and returns its directory.
func interrupted(t *testing.T, f *fake, launches int) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	f.fail = func(n int) error {
		if n > launches+pilots {
			cancel()
		}
		return ctx.Err()
	}
	_, err := Run(ctx, f.options(dir))
	require.ErrorIs(t, err, context.Canceled)
	f.fail = nil
	return dir
}

func TestChangedCalibrationIsRefused(t *testing.T) {
	f := new(fake)
	dir := interrupted(t, f, 3)
	for want, change := range map[string]func(*Options){
		"is a quick one, not a full one": func(o *Options) {
			o.Quick = false
		},
		"the plugin of transport calibration has changed": func(o *Options) {
			o.Plugins[Transport].Identity.SHA256 = "def"
		},
		`the machine's cpus was "2" and is now "4"`: func(o *Options) {
			o.Engine.Environment.Identity.CPUs = 4
		},
		"another plan than the one that began the calibration": func(o *Options) {
			o.Plugins[Transport].Info.Options[0].Default = "1ns"
		},
	} {
		o := f.options(dir)
		o.Resume = true
		change(&o)
		_, err := Run(t.Context(), o)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed, want)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "choose another --out")
		require.NotContains(t, err.Error(), "\n")
	}
}

// A device that is gone is a change, like one that is new.
func TestOtherDevices(t *testing.T) {
	p := plan(t, true)
	with := originOf(new(fake).options("").Engine, plugins())
	with.Environment.Identity.RDMA = []machine.RDMADevice{{Name: "mlx5_0"}}
	without := originOf(new(fake).options("").Engine, plugins())
	journalOf := func(o Origin) *journal {
		return &journal{header: header{Quick: true, Digest: p.Digest(), Origin: o}}
	}
	require.ErrorContains(t, journalOf(with).check("dir", p, without), `mlx5_0`)
	require.ErrorContains(t, journalOf(without).check("dir", p, with), `mlx5_0`)
	require.NoError(t, journalOf(with).check("dir", p, with))

	require.Equal(t, []string{"b", "c", "d"}, set.Differing(
		map[string]string{"a": "same", "b": "one", "c": "gone", "e": ""},
		map[string]string{"a": "same", "b": "two", "d": "new"}))
}

// Wherever a crash tears the journal, the launches with a whole line are kept.
func TestTornJournal(t *testing.T) {
	f := new(fake)
	dir := interrupted(t, f, 3)
	path := filepath.Join(dir, journalName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	require.Len(t, lines, 5, "a header, 3 launches, and nothing behind them")
	head := len(lines[0])
	for length := head; length <= len(text); length++ {
		require.NoError(t, os.WriteFile(path, text[:length], 0o600))
		j, err := openJournal(dir)
		require.NoError(t, err)
		whole := bytes.Count(text[head:length], []byte("\n"))
		require.Len(t, j.done, whole)
		require.NoError(t, j.add(measured{launch: launch{Experiment: 9}}))
		j.close()
		if j, err = openJournal(dir); err == nil {
			j.close()
		}
		require.NoError(t, err, "what follows a torn line can be read")
		require.Len(t, j.done, whole+1)
	}
	for length := range head {
		require.NoError(t, os.WriteFile(path, text[:length], 0o600))
		_, err := openJournal(dir)
		require.ErrorContains(t, err, "remove it to begin again")
	}

	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(`"memory_ns":`),
		[]byte(`"memory_ns":-`), 1), 0o600))
	_, err = openJournal(dir)
	require.ErrorContains(t, err, "is not the journal of a calibration")

	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(`"c":`), []byte(`"c"`), 1),
		0o600))
	_, err = openJournal(dir)
	require.ErrorContains(t, err, "line 2: ")
	require.ErrorContains(t, err, "remove the file to begin again")

	// A launch that no plan has is none of this calibration.
	require.NoError(t, os.WriteFile(path, append(slices.Clone(text), `{"e":99}`+"\n"...), 0o600))
	o := f.options(dir)
	o.Resume = true
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "a launch that is not in the plan")
}

// In a directory to which everybody may add links, a journal may be a link to any file.
func TestLinkedJournalIsLeftAlone(t *testing.T) {
	dir := interrupted(t, new(fake), 3)
	require.NoError(t, os.Chmod(dir, os.ModeSticky|0o777))
	path := filepath.Join(dir, journalName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text = append(text, "torn"...)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.NoError(t, os.Link(path, filepath.Join(dir, "victim")))
	_, err = openJournal(dir)
	require.ErrorContains(t, err, "has 2 hard links and is in a directory that others may write")
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), string(left))
}

// A full disk ends the calibration. What fitted is kept.
func TestFullDisk(t *testing.T) {
	f := new(fake)
	dir := interrupted(t, f, 3)
	j, err := openJournal(dir)
	require.NoError(t, err)
	j.close()
	if j.file, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
		t.Skip(err)
	}
	defer j.close()
	err = j.add(measured{launch: launch{Round: 5}})
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "free some space")
	require.NotContains(t, j.done, launch{Round: 5})
	o := f.options(dir)
	o.Resume = true
	_, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, quickLaunches+pilots, f.launches)
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	lock, err := result.LockDir(dir)
	require.NoError(t, err)
	defer lock.Close()
	_, err = Run(t.Context(), new(fake).options(dir))
	require.ErrorContains(t, err, "another process uses this directory")

	_, err = Run(t.Context(), new(fake).options("/dev/null/x"))
	require.ErrorContains(t, err, "choose another directory with --out")
	require.False(t, strings.Contains(fmt.Sprint(err), "\n"))
}
