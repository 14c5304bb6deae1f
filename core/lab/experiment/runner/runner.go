package runner

import (
	"cmp"
	"context"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/base/replay"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Launcher starts ranks.
type Launcher interface {
	// Launch starts a rank and returns once it answers calls. It gives up when ctx ends. If it
	// returns an error, nothing is left of the rank. It is called for several ranks at once.
	Launch(ctx context.Context, rank int) (Process, error)
}

// Process is a rank that was launched. When its process ends without being killed, its calls
// return a [*record.ExitError].
type Process interface {
	record.Control
	// Exited returns a channel that is closed once the process is gone.
	Exited() <-chan struct{}
	// UsesUp waits until the process has used limit of its own time, in which it computes or sleeps
	// and does not wait for a processor or a disk, and reports true, or until ctx ends.
	UsesUp(ctx context.Context, limit time.Duration) bool
	// Kill ends the process at once, whatever it is doing, and makes its calls in progress
	// return. It is bounded in time, may be called again, and is called on every path.
	Kill()
}

// Network is a network between ranks that impairs their packets.
type Network interface {
	// Open makes the network of a number of ranks, and Close removes it.
	Open(ranks int) error
	Close()
	// Counters returns what the network has done since Open.
	Counters() result.NetworkCounters
}

// Request is the input of a run.
type Request struct {
	Config config.Config
	// CPUs are the processors on which polling threads may be placed.
	CPUs     []machine.CPU
	Launcher Launcher
	// Hosts are the hosts on which the launcher starts ranks, and RankHosts has the number of each
	// rank's. Without them all ranks are on this host. CPUs, System and Environment are then those
	// of the first host.
	Hosts     []Host
	RankHosts []int

	// Explain may add to the error of a failed run what is known of the hosts. It may be nil.
	Explain func(error) error

	// Began is when the command started, from which the setup time counts. If it is zero, the
	// setup time counts from the call of Run.
	Began time.Time
	// Steps precede those of the first launch: what the command did after Began, such as to wait
	// for agents.
	Steps []result.Step

	// Root has proc and sys of this machine; empty means "/".
	Root machine.Root

	// Capabilities, Limits and Needs are those that the transport declares before it is opened, and
	// System what the kernel grants. A run that exceeds the limits is refused before anything
	// starts.
	Capabilities transport.Capabilities
	Limits       transport.Limits
	Needs        transport.Needs
	Roles        transport.Roles
	References   []transport.Reference
	System       machine.Limits

	// StartTimeout is how long a rank may take for each step of the setup, besides what the
	// configuration's size adds; 0 is 10 seconds.
	StartTimeout time.Duration
	Beside

	// Network is the network of the ranks that the launcher starts. It is nil unless the
	// configuration asks for one.
	Network Network
	// ImpairedBy is the mechanism of the network that the configuration asks for.
	ImpairedBy result.Mechanism

	// Part is the part of a trace that the configuration replays, and Replay the path of its
	// prepared file, which ranks on other hosts cannot read.
	Part   *replay.Part
	Replay string

	// Trace, unless it is nil, is called with the steps of the transfers in the first window, of
	// workers that record them, and again if that window is measured again. The result does not
	// have them.
	Trace func([]record.ThreadTrace)

	// Keep, unless it is nil, is called between windows with the number of repeats that are
	// complete, of those still to come, and what returns their result. The run ends with its error.
	Keep func(repeats int, soFar func() (*result.Result, error)) error

	// The result contains these as they are. Run fills in the fields of Plugin that only an open
	// transport knows.
	Argv        []string
	Tool        result.Tool
	Plugin      result.Plugin
	Environment machine.Environment
}

// Durations and timeouts. Only the first affects results.
const (
	overheadTime = 10 * time.Millisecond

	// margin is how much longer than planned a call may take, not counting time in which the rank
	// waits for a processor or a disk. A rank that spins on every core answers slowly, and a window
	// waits up to 12 s for its last responses.
	margin = 15 * time.Second
	// startTimeout is the default of Request.StartTimeout. Each rank adds launchTime to a step of
	// the setup, because ranks may share a processor, and each connection connectTime. A rank that
	// waits for a processor or a disk has up to starvedFactor as long.
	startTimeout  = 10 * time.Second
	launchTime    = 100 * time.Millisecond
	connectTime   = 10 * time.Millisecond
	starvedFactor = 6
	// fillRate is the lowest expected rate, in B/s, of filling a store and of registering buffers.
	fillRate = 50 << 20
	// stopGrace is how long interrupted ranks may take to end their window.
	stopGrace = 2 * time.Second
	// closeTimeout and abortTimeout bound closing after a complete and after a failed run.
	closeTimeout = 5 * time.Second
	abortTimeout = time.Second
)

// LaunchesAtOnce returns how many plugins start at once on a number of processors. If hundreds did
// on a few, all would miss their limits.
func LaunchesAtOnce(processors int) int { return max(8, 2*processors) }

// defaultSampleEvery is the latency sampling if neither the configuration nor a warm-up chooses
// it. It keeps two readings of the clock, of 50 ns each, below 2% of an op of 20 ns. The check
// sampling_cost verifies it.
const defaultSampleEvery = 256

// bench is the state of one launch: processes that are started, measure repeats, and end. One
// goroutine calls its methods; other goroutines use only ranks, progress and steady.
type bench struct {
	req            Request
	cfg            config.Config // Repeats counts those of this launch
	plans          []record.Plan
	oversubscribed bool
	began          time.Time
	earlier        int // repeats of earlier launches
	// keep stores the first repeats of this launch after those of earlier launches.
	keep func(repeats int, launch func() *result.Result) error

	ranks    *ranks
	progress *progress
	steady   *steady

	prepared    []record.Prepared
	sampleEvery int
	unprobed    map[transport.ProbeKind]string // kinds that cannot be probed, with the reason
	// probesGivenUp means that the last probes beside a window were given up, perhaps in an earlier
	// launch.
	probesGivenUp bool
	steps         []result.Step
	firstWindow   time.Time
	collected     time.Duration // reports of the first window
	repeats       []result.Repeat
	failed        *result.Repeat // the repeat during or after whose window a rank failed
	warmup        *result.Warmup
	settled       bool    // the warm-up ended because its throughput was steady
	closing       []error // of each rank, after a complete launch
	setups        []record.RankSetup
	closed        time.Duration // how long closing took, after a complete launch
	witness       *witness.Witness
	unwitnessed   string // why readings of a witness are missing
}

// run launches the ranks, measures and ends them. If it returns an error, the result has the
// complete repeats and the failed one, and is nil if there is neither.
func (b *bench) run(ctx context.Context) (*result.Result, error) {
	if b.req.Network != nil {
		if err := b.req.Network.Open(len(b.plans)); err != nil {
			return nil, err
		}
		defer b.req.Network.Close()
	}
	defer b.ranks.kill()
	err := b.setup(ctx)
	if err == nil {
		err = b.measure(ctx)
	}
	b.progress.enter(StepClose, 0, 0)
	timeout := closeTimeout
	if err != nil {
		timeout = abortTimeout
	}
	began := time.Now()
	closing := b.ranks.close(context.WithoutCancel(ctx), timeout)
	switch {
	case err == nil:
		b.closing, b.closed = closing, time.Since(began)
		return b.conclude(), nil
	case len(b.repeats) > 0 || b.failed != nil && ctx.Err() == nil:
		return b.conclude(), err
	}
	return nil, err
}

// all, servers and callers return rank numbers. In a mesh, every rank serves and calls.
func (b *bench) all() []int     { return numbers(0, len(b.plans)) }
func (b *bench) servers() []int { return numbers(0, b.cfg.ServingRanks()) }
func (b *bench) callers() []int { return numbers(len(b.plans)-b.cfg.CallingRanks(), len(b.plans)) }

func numbers(from, to int) []int {
	list := make([]int, 0, to-from)
	for r := from; r < to; r++ {
		list = append(list, r)
	}
	return list
}

// setup launches and connects all ranks, and warms up.
func (b *bench) setup(ctx context.Context) error {
	for _, step := range []struct {
		name    string
		planned time.Duration // 0 if unknown
		run     func(context.Context) error
	}{
		{StepLaunch, 0, b.launch},
		{StepPrepare, 0, b.prepare},
		{StepConnect, 0, b.connect},
		{StepWarmup, time.Duration(b.cfg.Warmup), b.warmUp},
	} {
		b.progress.enter(step.name, 0, step.planned)
		if err := b.timed(ctx, step.name, step.run); err != nil {
			return err
		}
	}
	return nil
}

// timed runs a step of the setup and records its duration.
func (b *bench) timed(ctx context.Context, name string, run func(context.Context) error) error {
	start := time.Now()
	err := run(ctx)
	b.steps = append(b.steps, result.Step{Name: name, MS: milliseconds(time.Since(start))})
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) launch(ctx context.Context) error {
	processors := 0
	for _, p := range b.req.pools() {
		processors += len(p.cpus)
	}
	slots := make(chan struct{}, LaunchesAtOnce(processors))
	// The launcher has the timeout of each launch. This one is for all, in turns, and is longer.
	turns := 1 + len(b.plans)/cap(slots)
	timeout := time.Duration(turns)*(b.startTimeout()+margin) +
		time.Duration(len(b.plans))*launchTime
	_, err := callAll(ctx, b.ranks, b.all(), "launch", timeout,
		func(ctx context.Context, r int) (struct{}, error) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return struct{}{}, context.Cause(ctx)
			}
			return struct{}{}, b.ranks.launch(ctx, b.req.Launcher, r)
		})
	return err
}

func (b *bench) prepare(ctx context.Context) error {
	var err error
	b.prepared, err = setupAll(ctx, b, "prepare", b.prepareTimeout(),
		func(ctx context.Context, r int) (record.Prepared, error) {
			return b.ranks.process(r).Prepare(ctx, b.plans[r])
		})
	if err != nil {
		return err
	}
	if err := checkPrepared(b.cfg, b.prepared); err != nil {
		return err
	}
	if err := b.req.checkCrossing(b.prepared); err != nil {
		return err
	}
	b.findWitness(ctx)
	return nil
}

func (b *bench) connect(ctx context.Context) error {
	workers := make([]record.RankWorkers, len(b.prepared))
	for r, p := range b.prepared {
		workers[r] = p.Workers
	}
	lists := workersFor(&b.cfg, workers)
	_, err := setupAll(ctx, b, "connect", b.connectTimeout(workers),
		func(ctx context.Context, r int) (struct{}, error) {
			return struct{}{}, b.ranks.process(r).Connect(ctx, lists[r])
		})
	return err
}

// workersFor returns for each rank the workers to which its own connect: daemons of the ranks that
// it calls, and clients of those that call it. In a mesh whose keys choose the ranks, each rank
// needs all workers, so the bytes of the addresses grow with the square of the ranks.
func workersFor(cfg *config.Config, workers []record.RankWorkers) [][]record.RankWorkers {
	lists := make([][]record.RankWorkers, len(workers))
	calls := callsBetween(cfg)
	for r := range lists {
		for _, w := range workers {
			if !calls(r, w.Rank) {
				w.Daemons = nil
			}
			if !calls(w.Rank, r) {
				w.Clients = nil
			}
			if len(w.Daemons)+len(w.Clients) > 0 {
				lists[r] = append(lists[r], w)
			}
		}
	}
	return lists
}

// callsBetween returns whether workers of the first rank may call daemons of the second. Daemons of
// mesh-proxied answer over the connection by which they call.
func callsBetween(cfg *config.Config) func(caller, server int) bool {
	m := cfg.Traffic.Matrix()
	return func(caller, server int) bool {
		return cfg.Calls(caller) && cfg.Serves(server) && (m == nil || m[caller][server] > 0 ||
			cfg.Proxied() && m[server][caller] > 0)
	}
}

func (b *bench) startTimeout() time.Duration { return cmp.Or(b.req.StartTimeout, startTimeout) }

// prepareTimeout returns the time to open the transport, register buffers and fill the store.
func (b *bench) prepareTimeout() time.Duration {
	value := b.cfg.ValueSize.Mean() + 64
	const copies = 4 // a payload's, of both sides
	buffers := copies * float64(b.cfg.InFlight) * float64(b.cfg.Clients) * float64(len(b.plans))
	seconds := min(value*(float64(b.cfg.StoredKeys())+buffers)/fillRate, 1e9)
	return b.startTimeout() + time.Duration(len(b.plans))*launchTime +
		time.Duration(seconds*float64(time.Second))
}

// connectTimeout returns the time to connect the workers.
func (b *bench) connectTimeout(workers []record.RankWorkers) time.Duration {
	daemons, all := 0, 0
	for _, w := range workers {
		daemons += len(w.Daemons)
		all += len(w.Daemons) + len(w.Clients)
	}
	return b.startTimeout() + time.Duration(len(b.plans))*launchTime +
		time.Duration(daemons*all)*connectTime
}

// setupAll makes a call of the setup of all ranks at once, with timeout as in ownTime.
func setupAll[T any](ctx context.Context, b *bench, op string, timeout time.Duration,
	call func(context.Context, int) (T, error)) ([]T, error) {
	return patientAll(ctx, b, b.all(), op, timeout, noSetup(b.req.Plugin.Name, timeout), call)
}

// patientAll makes the same call of several ranks at once, as callAll does. A rank fails with late
// after timeout, as in ownTime.
func patientAll[T any](ctx context.Context, b *bench, list []int, op string, timeout time.Duration,
	late error,
	call func(context.Context, int) (T, error)) ([]T, error) {
	return awaitAll(ctx, list, func(ctx context.Context, r int) (T, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return awaitRank(b.ownTime(ctx, r, timeout, late), b.ranks, r, op,
			func(ctx context.Context) (T, error) { return call(ctx, r) })
	})
}

// ownTime returns a context that ends with the cause late after timeout. Time in which rank r waits
// for a processor or a disk does not count, as [machine.UsesUp] measures it, but the context ends
// after starvedFactor times as long at the latest. It ends with ctx, too.
func (b *bench) ownTime(ctx context.Context, r int, timeout time.Duration,
	late error) context.Context {
	own, end := context.WithCancelCause(ctx)
	longest := timeout
	if p := b.ranks.process(r); p != nil {
		longest *= starvedFactor
		go func() {
			if p.UsesUp(own, timeout) {
				end(late)
			}
		}()
	}
	timer := time.AfterFunc(longest, func() { end(late) })
	context.AfterFunc(own, func() { timer.Stop() })
	return own
}

// warmUp runs the warm-up, which chooses the latency sampling unless the configuration does.
func (b *bench) warmUp(ctx context.Context) error {
	b.sampleEvery = b.cfg.SampleEvery
	if b.cfg.Warmup > 0 {
		start := time.Now()
		reports, err := b.runWindow(ctx, record.Window{
			Warmup: true, Duration: time.Duration(b.cfg.Warmup), SampleEvery: b.cfg.SampleEvery,
		})
		if err != nil {
			return err
		}
		b.warmup = &result.Warmup{LastedMS: milliseconds(time.Since(start)),
			Ended: result.WarmupLimit}
		if b.settled {
			b.warmup.Ended = result.WarmupSteady
		}
		if b.cfg.SampleEvery == 0 {
			for _, r := range b.callers() {
				b.sampleEvery = max(b.sampleEvery, reports[r].SampleEvery)
			}
		}
	}
	b.sampleEvery = cmp.Or(b.sampleEvery, defaultSampleEvery)
	return nil
}

// measure runs the repeats.
func (b *bench) measure(ctx context.Context) error {
	for i := range b.cfg.Repeats {
		if err := ctx.Err(); err != nil {
			return err
		}
		repeat, err := b.repeatWithParts(ctx, i)
		if err != nil {
			return err
		}
		b.repeats = append(b.repeats, repeat)
		if i+1 < b.cfg.Repeats {
			if err := b.keep(len(b.repeats), b.conclude); err != nil {
				return err
			}
		}
	}
	return nil
}

// conclude returns what this launch adds to the result of the run.
func (b *bench) conclude() *result.Result {
	r := &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: b.began.UTC(), Argv: b.req.Argv,
		Tool: b.req.Tool, Plugin: b.req.Plugin, Config: b.cfg, Environment: b.req.Environment,
		ImpairedBy: b.req.ImpairedBy, Hosts: b.req.resultHosts(), Replay: b.req.Part,
		Setup: result.Setup{
			Steps: b.steps, FirstWindowMS: milliseconds(b.firstWindow.Sub(b.began)),
			Warmup: b.warmup,
			Ranks:  b.setups, CollectMS: milliseconds(b.collected), CloseMS: milliseconds(b.closed),
		},
		Repeats:      b.repeats,
		FailedRepeat: b.failed,
		Witness:      b.witnessed(),
	}

	opened := b.prepared[0].Properties
	r.Plugin.Provider, r.Plugin.Libraries, r.Plugin.Notes = opened.Provider, opened.Libraries,
		opened.Notes
	r.Plugin.Chosen, r.Plugin.Integrity, r.Plugin.Uncounted = opened.Chosen, opened.Integrity,
		opened.Uncounted
	r.Plugin.Capabilities, r.Plugin.Limits = opened.Capabilities, opened.Limits
	for i, p := range b.prepared {
		r.Placement = append(r.Placement, result.Placement{
			Rank: i, Host: b.ranks.hosts[i], PID: p.PID, CPUs: b.plans[i].CPUs, Affinity: p.CPUs,
			Idle: b.plans[i].Idle,
		})
	}
	r.Launches = []result.Launch{{Placement: r.Placement, Setup: r.Setup}}
	if len(r.Repeats) > 0 {
		sample.Setup(&r.Setup, r.Repeats[0].Samples)
	}
	return r
}
