package rank

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// Rank is one rank of a run. Any goroutine may call its methods, one at a time, except
// Advance, which may be called at any time.
type Rank struct {
	driver transport.Driver
	logger *slog.Logger

	plan      record.Plan
	transport transport.Transport
	links     *inbox.Transport    // nil unless mesh-proxied
	siblings  transport.Transport // nil unless daemons delegate
	shared    *shared             // nil until prepared
	state     loop.State
	setup     *record.RankSetup // until the report of the first window
	// sampleEvery is the latency sampling of the last window, or after a warm-up that of the next;
	// 0 if there was none.
	sampleEvery int

	// mu guards the fields that Advance uses.
	mu        sync.Mutex
	threads   []*thread // daemons before clients
	closed    bool
	measuring chan struct{} // closed when the running window begins to measure
}

var _ record.Control = (*Rank)(nil)

// New returns a rank that opens its transport with driver.
func New(driver transport.Driver, logger *slog.Logger) *Rank {
	return &Rank{driver: driver, logger: logger, setup: new(record.RankSetup)}
}

func (r *Rank) wiring() wiring.Wiring {
	return wiring.Wiring{Config: r.plan.Config, Rank: r.plan.Rank, Kinds: r.plan.Kinds,
		Replay: r.plan.Replay}
}

// Prepare implements [record.Control]. The plan comes from another process, so Prepare
// validates it; the rest of the runtime relies on that.
func (r *Rank) Prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	if r.transport != nil {
		return record.Prepared{}, errors.New("prepare: the rank is already prepared")
	}
	if err := plan.Config.Validate(); err != nil {
		return record.Prepared{}, err
	}
	if (plan.Replay != "") != plan.Config.Replays() {
		return record.Prepared{}, errors.New("prepare: the plan has no trace to replay")
	}
	r.plan = plan
	daemons, clients := plan.Config.Threads(plan.Rank)
	pollers := daemons + clients
	if len(plan.CPUs) != pollers {
		return record.Prepared{},
			fmt.Errorf("prepare rank %d: the plan has %d processors for %d polling threads",
				plan.Rank, len(plan.CPUs), pollers)
	}
	// Polling threads never yield to Go's scheduler, so the control plane needs one more, and a
	// storm another.
	processors := pollers + 1
	if plan.Config.Traffic.StormRate() > 0 {
		processors++
	}
	runtime.GOMAXPROCS(processors)
	if err := r.open(ctx); err != nil {
		return record.Prepared{}, err
	}
	if r.goroutines() {
		runtime.GOMAXPROCS(processorsFor(plan.Idle, pollers, startProcessors))
	}
	prepared := record.Prepared{
		Workers: record.RankWorkers{Rank: plan.Rank}, Properties: r.transport.Properties(),
		PID: os.Getpid(),
	}
	for index, cpu := range plan.CPUs {
		id := record.Thread{Rank: plan.Rank, Daemon: index, Client: -1}
		if index >= daemons {
			id = record.Thread{Rank: plan.Rank, Daemon: -1, Client: index - daemons}
		}
		r.mu.Lock()
		t := r.addThread(id, cpu)
		r.mu.Unlock()
		affinity, err := get(ctx, t, func() (string, error) { return r.prepareThread(t, index) })
		if err != nil {
			return record.Prepared{}, err
		}
		prepared.CPUs = append(prepared.CPUs, affinity)
		if t.client != nil && plan.Config.Proxied() {
			continue // it has a link of this rank instead of a worker
		}
		if t.daemon != nil {
			prepared.Workers.Daemons = append(prepared.Workers.Daemons, t.worker.Address())
		} else {
			prepared.Workers.Clients = append(prepared.Workers.Clients, t.worker.Address())
		}
	}
	r.shared, prepared.Workers.Shared = newShared(plan.Config, plan.Rank)
	if err := r.connectSiblings(ctx); err != nil {
		return record.Prepared{}, err
	}
	return prepared, r.connectLinks(ctx)
}

func (r *Rank) open(ctx context.Context) error {
	cfg := r.plan.Config
	options, err := transport.ParseOptions(r.driver.Info().Options, cfg.Options)
	if err != nil {
		return err
	}
	w, needs := r.wiring(), r.driver.Info().Needs
	machine.ReserveFiles(w.Workers() * (needs.WorkerFiles + w.Peers()*needs.PeerFiles))
	began := time.Now()
	r.transport, err = r.driver.Open(ctx, transport.Config{
		Rank: r.plan.Rank, Workers: w.Workers(), Peers: w.Peers(),
		InFlight:   cfg.CallsPerConnection(),
		MaxPayload: cfg.LargestMessage(), HostPrefix: kv.HeaderSize, Crosses: r.plan.Crosses,
		Options: options, Logger: r.logger,
	})
	if err != nil {
		return err
	}
	r.setup.OpenNS = nanoseconds(time.Since(began))
	if r.deviceMemory() {
		if err := checkDeviceWorkload(&cfg); err != nil {
			return err
		}
		if cfg.Proxied() && r.transport.Properties().Capabilities.DeviceSend {
			return fmt.Errorf("transport %s sends values from device memory, and proxies forward "+
				"them from host memory: %w by this runtime; "+
				"use another topology, or transport options that send from host memory",
				cfg.Transport, transport.ErrUnsupported)
		}
	}
	if cfg.Delegate && cfg.Serves(r.plan.Rank) {
		siblings, err := openSiblings(w)
		if err != nil {
			return err
		}
		r.siblings = siblings
	}
	if cfg.Proxied() {
		r.links, err = openLinks(cfg)
	}
	return err
}

// goroutines reports whether the polling loops are goroutines that the Go scheduler moves between
// threads.
func (r *Rank) goroutines() bool { return r.transport.Properties().Capabilities.Goroutines }

// startProcessors is GOMAXPROCS of the process before any run changed it: a plugin may serve
// several.
var startProcessors = runtime.GOMAXPROCS(0)

// processorsFor returns GOMAXPROCS for a transport with goroutines, given what it was when the
// process started. Loops that park block in the Go scheduler, so they share its processors with the
// transport as in any Go program. A loop that spins or yields holds one.
func processorsFor(idle string, pollers, initial int) int {
	if idle == config.IdlePark {
		return max(initial, 2)
	}
	return pollers + initial
}

func (r *Rank) deviceMemory() bool { return r.transport.Properties().Capabilities.DeviceMemory }

// prepareThread makes the worker of t and its daemon or client. It runs on t itself, so that
// memory is first touched by the thread that uses it.
func (r *Rank) prepareThread(t *thread, index int) (affinity string, err error) {
	cfg, w := r.plan.Config, r.wiring()
	newWorker := r.transport.NewWorker
	if cfg.Proxied() && !t.id.IsDaemon() {
		newWorker = r.links.NewWorker
	}
	began := time.Now()
	worker, err := newWorker(index)
	if err != nil {
		return "", err
	}
	took := nanoseconds(time.Since(began))
	r.mu.Lock()
	t.worker = worker
	if !cfg.Proxied() || t.id.IsDaemon() {
		r.setup.WorkersNS += took
	}
	r.mu.Unlock()
	if affinity, err = t.pin(); err != nil {
		return "", err
	}
	t.counters = &counters{reason: countersNeedSpin}
	switch {
	case !t.locked:
		t.counters.reason = countersNeedThread
	case r.plan.Idle == config.IdleSpin:
		t.counters = openCounters()
	}
	if !t.id.IsDaemon() {
		t.client, err = client.New(w, cfg.CallerNumber(r.plan.Rank)*cfg.Clients+t.id.Client,
			r.plan.Idle, worker)
		if err == nil && !t.locked {
			t.client.ParkAtOnce()
		}
		if err == nil && r.transport.Properties().Capabilities.DeviceSend {
			err = t.client.MoveToDevice()
		}
		return affinity, err
	}
	t.daemon, err = daemon.New(w, t.id.Daemon, r.plan.Idle, worker)
	if err == nil && !t.locked {
		t.daemon.ParkAtOnce()
	}
	if err == nil && r.deviceMemory() {
		err = t.daemon.VerifyDevice()
	}
	return affinity, err
}

// Connect implements [record.Control].
func (r *Rank) Connect(ctx context.Context, workers []record.RankWorkers) error {
	w := r.wiring()
	all := slices.SortedFunc(slices.Values(workers),
		func(a, b record.RankWorkers) int { return a.Rank - b.Rank })
	r.shared.connect(all)
	began := time.Now()
	err := r.each(ctx, func(t *thread) error {
		r.shareTraces(t)
		if t.client != nil && w.Config.Proxied() {
			return nil
		}
		for _, c := range w.Connections(t.id, all) {
			start := time.Now()
			if err := t.worker.Connect(ctx, c.Peer, c.Address); err != nil {
				return err
			}
			t.connects.add(time.Since(start))
		}
		return nil
	})
	r.setup.ConnectAllNS = nanoseconds(time.Since(began))
	return err
}

// each runs f on all threads concurrently and joins their errors.
func (r *Rank) each(ctx context.Context, f func(*thread) error) error {
	return eachOf(ctx, r.threads, f)
}

func eachOf(ctx context.Context, threads []*thread, f func(*thread) error) error {
	errs := make([]error, len(threads))
	var all sync.WaitGroup
	for i, t := range threads {
		all.Go(func() { errs[i] = t.do(ctx, func() error { return f(t) }) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Probe implements [record.Control].
func (r *Rank) Probe(ctx context.Context, probe record.Probe) (transport.Floor, error) {
	at := slices.IndexFunc(r.threads, func(t *thread) bool { return t.id == probe.Near })
	if at < 0 {
		return transport.Floor{}, fmt.Errorf("probe: rank %d has no %v", r.plan.Rank, probe.Near)
	}
	peer, err := r.wiring().Peer(probe.Near, probe.Far)
	if err != nil {
		return transport.Floor{}, fmt.Errorf("probe: %w", err)
	}
	t := r.threads[at]
	if record.CallsAlone(probe.Kind) && !probe.Initiate {
		r.state.Reset()
	}
	return get(ctx, t, func() (transport.Floor, error) { return r.probe(ctx, t, peer, probe) })
}

// probe runs on the thread t. Between ranks that share memory, the probes of the machine and of
// memory are the same for all transports.
func (r *Rank) probe(ctx context.Context, t *thread, peer transport.PeerID,
	probe record.Probe) (transport.Floor, error) {
	ofMemory := r.transport.Properties().Medium == transport.MediumMemory &&
		(probe.Kind == transport.ProbeMedium || probe.Kind == transport.ProbeRate)
	if probe.Kind == record.ProbeDistance || ofMemory {
		caller, server := probe.Near, probe.Far
		if !probe.Initiate {
			caller, server = server, caller
		}
		line, lines, missing := r.shared.pair(caller, server)
		switch {
		case missing != "":
			return transport.Floor{}, fmt.Errorf("probe: %w between these ranks: %s",
				transport.ErrUnsupported, missing)
		case ofMemory:
			return lines.Probe(ctx, probe.Probe)
		default:
			return floor.CacheLine(ctx, line, probe.Initiate, probe.Duration)
		}
	}
	if record.CallsAlone(probe.Kind) {
		reading, err := t.probeBare(ctx, &r.state, peer, probe)
		return reading, loop.ExplainLoss(t.worker, err)
	}
	if prober, ok := t.worker.(transport.Prober); ok {
		floor, err := prober.Probe(ctx, peer, probe.Probe)
		return floor, loop.ExplainLoss(t.worker, err)
	}
	return transport.Floor{}, transport.NewOpError(r.plan.Config.Transport, "probe",
		transport.ErrUnsupported)
}

// Advance implements [record.Control].
func (r *Rank) Advance(_ context.Context, to record.State) error {
	r.advance(to)
	if to == record.StateMeasuring {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.measuring != nil {
			close(r.measuring)
			r.measuring = nil
		}
	}
	return nil
}

// advance moves the state and wakes parked threads.
func (r *Rank) advance(to record.State) {
	r.state.Advance(to)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // the workers' memory may be unmapped
		return
	}
	for _, t := range r.threads {
		if w, ok := t.worker.(transport.Waiter); ok {
			w.Wake()
		}
	}
}

// Close implements [record.Control]. It is idempotent. If a thread does not return before ctx
// ends, the transport stays open, because that thread may still use its memory; both end with
// the process.
func (r *Rank) Close(ctx context.Context) error {
	r.advance(record.StateStopped)
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	r.mu.Unlock()
	if closed {
		return nil
	}
	err := r.each(ctx, (*thread).release)
	if ctx.Err() != nil {
		return err
	}
	for _, t := range r.threads {
		t.end()
	}
	if r.shared != nil {
		err = errors.Join(err, r.shared.close())
	}
	if r.links != nil {
		err = errors.Join(err, r.links.Close())
	}
	if r.siblings != nil {
		err = errors.Join(err, r.siblings.Close())
	}
	if r.transport != nil {
		err = errors.Join(err, r.transport.Close())
	}
	return err
}
