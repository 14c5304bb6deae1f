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

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// Rank is one rank of a run. Its methods may be called from any goroutine, one
// at a time but for Advance.
type Rank struct {
	driver transport.Driver
	logger *slog.Logger

	transport transport.Transport
	links     *inbox.Transport // of mesh-proxied
	state     state

	// mu guards what Advance looks at; it may come at any time.
	mu      sync.Mutex
	plan    record.Plan
	threads []*thread // daemons before clients
	closed  bool
	begun   chan struct{} // closed when the running phase begins to measure
}

// thread is a poller and what runs on it: a daemon or a client.
type thread struct {
	*poller
	name     record.Thread
	worker   transport.Worker // of a client of mesh-proxied, its link
	daemon   *daemon
	client   *client
	counters *counters
}

var _ record.Control = (*Rank)(nil)

// New returns a rank that opens its transport with driver.
func New(driver transport.Driver, logger *slog.Logger) *Rank {
	return &Rank{driver: driver, logger: logger}
}

// wiring is who this rank's threads call.
func (r *Rank) wiring() wiring { return wiring{r.plan.Config, r.plan.Rank} }

// Prepare implements [Control].
func (r *Rank) Prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	if r.transport != nil {
		return record.Prepared{}, errors.New("preparing rank: it is prepared already")
	}
	if err := plan.Config.Validate(); err != nil {
		return record.Prepared{}, err
	}
	r.mu.Lock()
	r.plan = plan
	r.mu.Unlock()
	daemons, clients := plan.Config.Threads(plan.Rank)
	pollers := daemons + clients
	if len(plan.CPUs) != pollers {
		return record.Prepared{}, fmt.Errorf("preparing rank %d: the plan has %d processors for %d polling threads", plan.Rank, len(plan.CPUs), pollers)
	}
	// One more than the pollers, which never yield: the control plane needs a
	// turn too.
	runtime.GOMAXPROCS(pollers + 1)
	if err := r.open(ctx); err != nil {
		return record.Prepared{}, err
	}
	prepared := record.Prepared{
		Workers: record.RankWorkers{Rank: plan.Rank}, Properties: r.transport.Properties(),
		PID: os.Getpid(), Waits: true,
	}
	for index, cpu := range plan.CPUs {
		name := record.Thread{Rank: plan.Rank, Daemon: index, Client: -1}
		if index >= daemons {
			name = record.Thread{Rank: plan.Rank, Daemon: -1, Client: index - daemons}
		}
		t := &thread{poller: startPoller(cpu), name: name}
		r.mu.Lock()
		r.threads = append(r.threads, t)
		r.mu.Unlock()
		var affinity string
		err := t.do(ctx, func() (err error) {
			affinity, err = r.prepareThread(t, index)
			return err
		})
		if err != nil {
			return record.Prepared{}, err
		}
		prepared.CPUs = append(prepared.CPUs, affinity)
		if t.client != nil && plan.Config.Proxied() {
			continue // its link is known here
		}
		_, waits := t.worker.(transport.Waiter)
		prepared.Waits = prepared.Waits && waits
		if t.daemon != nil {
			prepared.Workers.Daemons = append(prepared.Workers.Daemons, t.worker.Address())
		} else {
			prepared.Workers.Clients = append(prepared.Workers.Clients, t.worker.Address())
		}
	}
	return prepared, r.link(ctx)
}

func (r *Rank) open(ctx context.Context) error {
	cfg := r.plan.Config
	options, err := transport.ParseOptions(r.driver.Info().Options, cfg.Options)
	if err != nil {
		return err
	}
	w := r.wiring()
	r.transport, err = r.driver.Open(ctx, transport.Config{
		Rank: r.plan.Rank, Workers: w.workers(), Peers: w.peers(), InFlight: w.cfg.CallsPerConnection(),
		MaxPayload: cfg.LargestMessage(), HostPrefix: kv.HeaderSize, Options: options, Logger: r.logger,
	})
	if err != nil {
		return err
	}
	capabilities := r.transport.Properties().Capabilities
	if capabilities.DeviceMemory {
		if err := deviceProblem(&cfg); err != nil {
			return err
		}
	}
	if cfg.Proxied() {
		r.links, err = openLinks(cfg)
	}
	return err
}

// prepareThread runs on the thread itself.
func (r *Rank) prepareThread(t *thread, index int) (affinity string, err error) {
	cfg, w := r.plan.Config, r.wiring()
	linked := cfg.Proxied() && !t.name.IsDaemon()
	var worker transport.Worker
	if linked {
		worker, err = r.links.NewWorker(index)
	} else {
		worker, err = r.transport.NewWorker(index)
	}
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	t.worker = worker
	r.mu.Unlock()
	if affinity, err = t.pin(); err != nil {
		return "", err
	}
	t.counters = &counters{reason: oversubscribedCounters}
	if r.plan.Idle == config.IdleSpin {
		t.counters = openCounters()
	}
	if t.name.IsDaemon() {
		t.daemon, err = newDaemon(w, t.name.Daemon, r.plan.Idle, t.worker)
		if err == nil && r.transport.Properties().Capabilities.DeviceMemory {
			t.daemon.device, err = newDeviceLog(&cfg, t.worker)
		}
	} else {
		t.client, err = newClient(w, cfg.CallerNumber(r.plan.Rank)*cfg.Clients+t.name.Client, r.plan.Idle, t.worker)
	}
	return affinity, err
}

// Connect implements [Control].
func (r *Rank) Connect(ctx context.Context, workers []record.RankWorkers) error {
	w := r.wiring()
	all := slices.SortedFunc(slices.Values(workers), func(a, b record.RankWorkers) int { return a.Rank - b.Rank })
	return r.each(ctx, func(t *thread) error {
		if t.client != nil && w.cfg.Proxied() {
			return nil
		}
		for _, c := range w.connections(t.name, all) {
			if err := t.worker.Connect(ctx, c.peer, c.address); err != nil {
				return err
			}
		}
		return nil
	})
}

// each runs f on all threads at once and returns the errors together.
func (r *Rank) each(ctx context.Context, f func(*thread) error) error {
	errs := make([]error, len(r.threads))
	var all sync.WaitGroup
	for i, t := range r.threads {
		all.Go(func() { errs[i] = t.do(ctx, func() error { return f(t) }) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Probe implements [Control].
func (r *Rank) Probe(ctx context.Context, probe record.Probe) (floor transport.Floor, err error) {
	at := slices.IndexFunc(r.threads, func(t *thread) bool { return t.name == probe.Near })
	if at < 0 {
		return floor, fmt.Errorf("probing the floor: rank %d has no %v", r.plan.Rank, probe.Near)
	}
	peer, err := r.wiring().peer(probe.Near, probe.Far)
	if err != nil {
		return floor, fmt.Errorf("probing the floor: %w", err)
	}
	t := r.threads[at]
	prober, ok := t.worker.(transport.Prober)
	if !ok {
		return floor, transport.NewOpError(r.plan.Config.Transport, "probe", transport.ErrUnsupported)
	}
	err = t.do(ctx, func() (err error) {
		floor, err = prober.Probe(ctx, peer, probe.Initiate, probe.Duration)
		return err
	})
	return floor, err
}

// Advance implements [Control].
func (r *Rank) Advance(_ context.Context, to record.State) error {
	r.advance(to)
	if to == record.StateMeasuring {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.begun != nil {
			close(r.begun)
			r.begun = nil
		}
	}
	return nil
}

// advance moves the stage on and wakes who is parked.
func (r *Rank) advance(to record.State) {
	r.state.advance(to)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // the workers' memory may be gone
		return
	}
	for _, t := range r.threads {
		if w, ok := t.worker.(transport.Waiter); ok {
			w.Wake()
		}
	}
}

// Close implements [Control].
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
		// A thread that does not come back may still touch the transport's
		// memory; it goes with the process.
		return err
	}
	for _, t := range r.threads {
		t.poller.close()
	}
	if r.links != nil {
		err = errors.Join(err, r.links.Close())
	}
	if r.transport != nil {
		err = errors.Join(err, r.transport.Close())
	}
	return err
}

// release gives up what a thread holds.
func (t *thread) release() error {
	var errs []error
	if t.worker != nil {
		errs = append(errs, t.worker.Close())
	}
	if t.counters != nil {
		errs = append(errs, t.counters.close())
	}
	if t.daemon != nil {
		errs = append(errs, t.daemon.close())
	}
	if t.client != nil {
		errs = append(errs, t.client.close())
	}
	return errors.Join(errs...)
}
