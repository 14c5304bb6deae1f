package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

// Launcher starts ranks.
type Launcher interface {
	// Launch starts a rank and returns once it can be asked. It gives up when
	// ctx ends, and leaves nothing behind where it returns an error. It is
	// called for several ranks at once.
	Launch(ctx context.Context, rank int) (Process, error)
}

// Process is a rank that was launched. When its process ends without being
// killed, its calls return a [*record.ExitError].
type Process interface {
	record.Control
	// Exited returns a channel that is closed once the process is gone.
	Exited() <-chan struct{}
	// Kill ends the process at once, whatever it is doing, and makes its calls
	// in progress return. It is bounded in time, may be called again, and is
	// called on every path.
	Kill()
}

// Request is everything that a run needs.
type Request struct {
	Config config.Config
	// CPUs are the processors that polling threads may be placed on.
	CPUs     []machine.CPU
	Launcher Launcher

	// Began is when the command started, from which the setup time counts;
	// zero is the call of Run.
	Began time.Time

	// The rest goes into the result as it is, except that the parts of Plugin
	// which only an open transport knows are filled in.
	Argv        []string
	Tool        result.Tool
	Plugin      result.Plugin
	Environment machine.Environment
}

// How long things take, or may take. No figure but the first two has any
// influence on a result.
const (
	overheadDuration = 30 * time.Millisecond
	probeDuration    = 10 * time.Millisecond

	// margin is how much longer than its nominal time a call may take. The
	// control plane of a rank that spins on every core can be slow.
	margin = 10 * time.Second
	// setupLimit bounds launching and preparing, where devices are opened.
	setupLimit = 60 * time.Second
	// launchTime is what each rank adds to that, and leastLaunches how many are
	// launched at once where there are few processors.
	launchTime    = 100 * time.Millisecond
	leastLaunches = 8
	// fillRate is the least rate in B/s at which a store is filled.
	fillRate = 50 << 20
	// stopGrace is how long interrupted ranks may take to end their phase.
	stopGrace = 2 * time.Second
	// closeLimit and abortLimit bound closing after a good run and a bad one.
	closeLimit = 5 * time.Second
	abortLimit = time.Second
)

// defaultSampleEvery is the latency sampling where neither the configuration
// nor a warm-up chooses it. It keeps two stamps of 50 ns under 2% of an op of
// 20 ns; the check of the sampling's cost has the last word.
const defaultSampleEvery = 256

// Run goes through one benchmark and returns its result. obs may be nil.
//
// Options that cannot be met are a [*config.Error]; a rank that fails or does
// not answer is a [*RankError]. Before the first window, there is no result.
//
// Where ctx ends first, Run stops the ranks, drops the repeat that it was in,
// and returns ctx's error. If at least one repeat was complete, the result is
// returned beside that error, with Incomplete set; otherwise it is nil. Where a
// rank fails in a window or after one, the result has the repeats that were
// complete, the one that was not as far as the ranks recorded it, and what
// failed. So a caller saves a result that is not nil, whatever the error.
//
// A result whose checks say that its numbers must not be used is returned
// without an error; see [result.Result.Failed].
func Run(ctx context.Context, req Request, obs Observer) (*result.Result, error) {
	began := time.Now()
	if !req.Began.IsZero() {
		began = req.Began
	}
	if err := req.Config.Validate(); err != nil {
		return nil, err
	}
	if err := checkMemory(req.Config, req.Environment.Volatile.AvailableMemory); err != nil {
		return nil, err
	}
	plans, oversubscribed, err := Place(req.Config, req.CPUs)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := newBench(req, plans, began, obs)
	b.oversubscribed = oversubscribed
	defer b.ranks.kill()

	err = b.setup(ctx)
	if err == nil {
		err = b.measure(ctx)
	}
	if err != nil && ctx.Err() != nil {
		// Whatever failed, failed because of the interruption or beside it.
		err = ctx.Err()
	}
	closed := b.close(ctx, err == nil)
	complete := fmt.Sprintf("after %d of %d repeats", len(b.repeats), req.Config.Repeats)
	switch {
	case err == nil:
		return b.conclude(closed, ""), nil
	case ctx.Err() != nil && len(b.repeats) > 0:
		return b.conclude(nil, "interrupted "+complete), err
	case ctx.Err() == nil && (b.failed != nil || len(b.repeats) > 0):
		r := b.conclude(nil, fmt.Sprintf("failed %s: %v", complete, err))
		r.FailedRepeat, r.Failure = b.failed, failureOf(err)
		return r, err
	}
	return nil, err
}

// failureOf is what a result keeps of the rank that ended a run.
func failureOf(err error) *result.Failure {
	f := &result.Failure{Rank: -1, Error: err.Error()}
	var rankErr *RankError
	if errors.As(err, &rankErr) {
		f.Rank, f.Operation = rankErr.Rank, rankErr.Op
	}
	var died *record.ExitError
	if errors.As(err, &died) {
		f.Output = died.Output
	}
	return f
}

// bench is the state of one run. Its methods are called from one goroutine;
// what others touch is in ranks and progress.
type bench struct {
	req            Request
	cfg            config.Config
	plans          []record.Plan
	oversubscribed bool
	began          time.Time

	ranks    *ranks
	progress *progress
	steady   *steady

	prepared    []record.Prepared
	overhead    record.Overhead
	sampleEvery int
	noFloor     string // why there are no floors
	steps       []result.Step
	firstWindow time.Time
	repeats     []result.Repeat
	failed      *result.Repeat // the one in whose window or after it a rank failed
	warmup      *result.Warmup
	settled     bool // the warm-up was ended since its throughput was steady
}

func newBench(req Request, plans []record.Plan, began time.Time, obs Observer) *bench {
	return &bench{
		req: req, cfg: req.Config, plans: plans, began: began,
		ranks: newRanks(len(plans)), progress: newProgress(req.Config, obs),
		steady: newSteady(req.Config.CallingRanks()),
	}
}

// setup launches and connects all ranks, and runs what comes before the first
// repeat.
func (b *bench) setup(ctx context.Context) error {
	for _, step := range []struct {
		name  string
		lasts time.Duration // by plan; 0 where nobody can tell
		run   func(context.Context) error
	}{
		{PhaseLaunch, 0, b.launch},
		{PhasePrepare, 0, b.prepare},
		{PhaseConnect, 0, b.connect},
		{PhaseOverhead, overheadDuration, b.measureOverhead},
		{PhaseWarmup, time.Duration(b.cfg.Warmup), b.warmUp},
	} {
		b.progress.enter(step.name, 0, step.lasts)
		if err := b.timed(ctx, step.name, step.run); err != nil {
			return err
		}
	}
	return nil
}

// timed runs one step of the setup and notes how long it took.
func (b *bench) timed(ctx context.Context, name string, run func(context.Context) error) error {
	start := time.Now()
	err := run(ctx)
	b.steps = append(b.steps, result.Step{Name: name, MS: milliseconds(time.Since(start))})
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) launch(ctx context.Context) error {
	// Hundreds of processes that start at once on a few processors would all
	// miss their deadlines.
	atOnce := make(chan struct{}, max(leastLaunches, 2*len(b.req.CPUs)))
	limit := setupLimit + time.Duration(len(b.plans))*launchTime
	_, err := askAll(ctx, b.ranks, b.all(), "launch", limit,
		func(ctx context.Context, r int) (struct{}, error) {
			select {
			case atOnce <- struct{}{}:
				defer func() { <-atOnce }()
			case <-ctx.Done():
				return struct{}{}, context.Cause(ctx)
			}
			return struct{}{}, b.ranks.launch(ctx, b.req.Launcher, r)
		})
	return err
}

func (b *bench) prepare(ctx context.Context) error {
	fill := time.Duration(float64(b.cfg.TotalKeys()) * (b.cfg.ValueSize.Mean() + 64) / fillRate * float64(time.Second))
	var err error
	b.prepared, err = askAll(ctx, b.ranks, b.all(), "prepare", setupLimit+fill,
		func(ctx context.Context, r int) (record.Prepared, error) {
			return b.ranks.process(r).Prepare(ctx, b.plans[r])
		})
	if err != nil {
		return err
	}
	return checkPrepared(b.cfg, b.prepared)
}

func (b *bench) connect(ctx context.Context) error {
	workers := make([]record.RankWorkers, len(b.prepared))
	for r, p := range b.prepared {
		workers[r] = p.Workers
	}
	_, err := askAll(ctx, b.ranks, b.all(), "connect", setupLimit,
		func(ctx context.Context, r int) (struct{}, error) {
			return struct{}{}, b.ranks.process(r).Connect(ctx, workers)
		})
	return err
}

// measureOverhead asks one calling rank, since all run the same loop.
func (b *bench) measureOverhead(ctx context.Context) error {
	r := b.callers()[0]
	var err error
	b.overhead, err = ask(ctx, b.ranks, r, "measuring overhead", overheadDuration+margin,
		func(ctx context.Context) (record.Overhead, error) {
			return b.ranks.process(r).Overhead(ctx, overheadDuration)
		})
	return err
}

func (b *bench) warmUp(ctx context.Context) error {
	b.sampleEvery = b.cfg.SampleEvery
	if b.cfg.Warmup > 0 {
		start := time.Now()
		reports, err := b.phase(ctx, record.Window{
			Warmup: true, Duration: time.Duration(b.cfg.Warmup), SampleEvery: b.cfg.SampleEvery,
		})
		if err != nil {
			return err
		}
		b.warmup = &result.Warmup{LastedMS: milliseconds(time.Since(start)), Ended: result.WarmupLimit}
		if b.settled {
			b.warmup.Ended = result.WarmupSteady
		}
		if b.sampleEvery == 0 {
			for _, r := range b.callers() {
				b.sampleEvery = max(b.sampleEvery, reports[r].SampleEvery)
			}
		}
	}
	if b.sampleEvery == 0 {
		b.sampleEvery = defaultSampleEvery
	}
	return nil
}

// measure runs the repeats.
func (b *bench) measure(ctx context.Context) error {
	for i := range b.cfg.Repeats {
		if err := ctx.Err(); err != nil {
			return err
		}
		repeat, err := b.repeat(ctx, i)
		if err != nil {
			return err
		}
		b.repeats = append(b.repeats, repeat)
	}
	return nil
}

func (b *bench) repeat(ctx context.Context, i int) (result.Repeat, error) {
	repeat := result.Repeat{Index: i}
	before := func(ctx context.Context) (err error) {
		repeat.FloorBefore, err = b.floor(ctx)
		return err
	}
	b.progress.enter(PhaseFloor, i+1, probeDuration)
	var err error
	if i == 0 {
		err = b.timed(ctx, PhaseFloor, before)
	} else {
		err = before(ctx)
	}
	if err != nil {
		return repeat, err
	}
	window := time.Duration(b.cfg.Duration)
	b.progress.enter(PhaseRepeat, i+1, window)
	repeat.StartedAt = time.Now()
	repeat.Ranks, err = b.phase(ctx, record.Window{Duration: window, SampleEvery: b.sampleEvery})
	if err == nil {
		b.progress.enter(PhaseFloor, i+1, probeDuration)
		repeat.FloorAfter, err = b.floor(ctx)
	}
	repeat.FloorNote = b.noFloor
	if filled := fillSamples(b.cfg, &repeat); err == nil {
		err = filled
	}
	if err != nil {
		b.failed = &repeat
	}
	return repeat, err
}

// conclude makes the result of the repeats there are. closed are the errors of
// closing the ranks; incomplete says why there are not more repeats.
func (b *bench) conclude(closed []error, incomplete string) *result.Result {
	r := &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: b.began.UTC(), Argv: b.req.Argv,
		Tool: b.req.Tool, Plugin: b.req.Plugin, Config: b.cfg, Environment: b.req.Environment,
		Setup:    result.Setup{Steps: b.steps, FirstWindowMS: milliseconds(b.firstWindow.Sub(b.began)), Warmup: b.warmup},
		Overhead: b.overhead,
		Repeats:  append([]result.Repeat{}, b.repeats...), // a list, however short
		Summary:  result.SummarizeRepeats(b.repeats),

		Incomplete: incomplete != "", IncompleteReason: incomplete,
	}
	// These are measured once, so that their medians have no interval.
	r.Summary[result.HarnessOverhead] = result.Summarize(result.HarnessOverhead, []float64{b.overhead.PerOpNS})
	r.Summary[result.VerifyCost] = result.Summarize(result.VerifyCost, []float64{b.overhead.VerifyNS})

	opened := b.prepared[0].Properties
	r.Plugin.Provider, r.Plugin.Libraries, r.Plugin.Notes = opened.Provider, opened.Libraries, opened.Notes
	r.Plugin.Capabilities, r.Plugin.Limits = opened.Capabilities, opened.Limits
	for i, p := range b.prepared {
		r.Placement = append(r.Placement, result.Placement{
			Rank: i, PID: p.PID, CPUs: b.plans[i].CPUs, Affinity: p.CPUs, Idle: b.plans[i].Idle,
		})
	}
	r.Checks = runChecks(evidence{
		result: r, sampleEvery: b.sampleEvery,
		pollers: pollers(b.plans), cpus: len(b.req.CPUs), oversubscribed: b.oversubscribed,
		closing: closed,
	})
	return r
}
