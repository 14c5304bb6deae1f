package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The operations of a fake rank, in a cluster's hooks and log.
const (
	opLaunch   = "launch"
	opPrepare  = "prepare"
	opConnect  = "connect"
	opOverhead = "overhead"
	opProbe    = "probe"
	opRun      = "run"
	opMeasure  = "measure" // these three are Advance
	opDrain    = "drain"
	opStop     = "stop"
	opClose    = "close"
	opKill     = "kill"
)

var opOf = map[record.State]string{record.StateMeasuring: opMeasure, record.StateDraining: opDrain,
	record.StateStopped: opStop}

// call is one operation of a rank; nth counts calls of the same operation from 1.
type call struct {
	rank int
	op   string
	nth  int
}

var errBroken = errors.New("broken")

// cluster launches fake ranks. Tests set the maps before the run.
type cluster struct {
	fail  map[call]error // the call fails at once
	hang  map[call]bool  // the call ends only when its rank is killed
	polls map[call]bool  // the call ends only with its context, or the rank
	hook  func(call)     // told of every call before it does anything

	// dies has calls of Run that fail halfway through their window. Ranks that call that rank
	// report a lost peer before it reports its own error.
	dies  map[call]error
	stuck map[call]bool // calls of Run whose window never ends

	prepared record.Prepared // the answer of every rank, without addresses
	floor    transport.Floor
	// others are the floors of the kinds besides transport.ProbeMedium; one that is missing is not
	// supported. They are not logged, and of the probes of the medium only those of the first pair.
	others  map[transport.ProbeKind]transport.Floor
	perPair func(record.Probe, *transport.Floor) // edits the caller's reading, if set
	advice  int                                  // sampling that a warm-up recommends
	leave   bool                                 // the server ends its measured Run early
	// ranks report a constant throughput from the start
	steady bool
	edit   func(*record.Report)
	// edit the windows in which a class calls alone, from 1, and those of a pair of ranks
	alone func(r *record.Report, class int)
	pair  func(r *record.Report, pair record.Pair)

	mu      sync.Mutex
	log     []call
	only    map[int][]int // of each window, by rank
	count   map[call]int
	alive   map[int]int // launched and not killed, by rank
	ready   map[int]bool
	drained map[int]bool
	lost    chan struct{} // closed when a rank has died
	wrong   []string      // calls in the wrong order
}

func newCluster() *cluster {
	return &cluster{
		prepared: record.Prepared{
			Properties: transport.Properties{Provider: "memfd",
				Capabilities: transport.Capabilities{Waits: true},
				Limits:       transport.Limits{MaxPayload: 1 << 20, Peers: 100}},
			PID: 42,
		},
		floor: transport.Floor{Name: "bounce", RoundTrip: 500, Samples: 10}, advice: 7,
		others: map[transport.ProbeKind]transport.Floor{
			record.ProbeDistance: {Name: "cache-line bounce", RoundTrip: 50, Samples: 10},
			transport.ProbeRate:  {Name: "stream", PerOp: 400, Samples: 10},
		},
		only: map[int][]int{}, count: map[call]int{}, alive: map[int]int{}, ready: map[int]bool{},
		drained: map[int]bool{},
		lost:    make(chan struct{}),
	}
}

// note logs a call.
func (c *cluster) note(r int, op string) call {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[call{r, op, 0}]++
	this := call{r, op, c.count[call{r, op, 0}]}
	c.log = append(c.log, this)
	return this
}

// begin logs a call and applies the maps to it.
func (c *cluster) begin(ctx context.Context, r int, op string, dead <-chan struct{}) error {
	return c.obey(ctx, c.note(r, op), dead)
}

func (c *cluster) obey(ctx context.Context, this call, dead <-chan struct{}) error {
	if c.hook != nil {
		c.hook(this)
	}
	if err := c.fail[this]; err != nil {
		return err
	}
	switch {
	case c.hang[this]:
		<-dead
		return errors.New("killed")
	case c.polls[this]:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-dead:
			return errors.New("killed")
		}
	}
	return nil
}

// calls returns the logged operations of rank r, or of all ranks if r is -1.
func (c *cluster) calls(r int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ops []string
	for _, l := range c.log {
		if r < 0 || l.rank == r {
			ops = append(ops, l.op)
		}
	}
	return ops
}

func (c *cluster) requireAllKilled(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for r, n := range c.alive {
		require.Zero(t, n, "rank %d lives on", r)
	}
}

func (c *cluster) Launch(ctx context.Context, r int) (Process, error) {
	p := &fakeRank{cluster: c, number: r, dead: make(chan struct{}), changed: make(chan struct{})}
	never := make(chan struct{})
	if err := c.begin(ctx, r, opLaunch, never); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.alive[r]++
	c.mu.Unlock()
	return p, nil
}

type fakeRank struct {
	*cluster
	number int
	plan   record.Plan
	dead   chan struct{}
	once   sync.Once

	// These are guarded by the cluster's mutex.
	state   record.State
	changed chan struct{} // closed when state moves on
}

func (f *fakeRank) Exited() <-chan struct{} { return f.dead }

// UsesUp implements [Process] for a rank that always has a processor.
func (f *fakeRank) UsesUp(ctx context.Context, limit time.Duration) bool {
	select {
	case <-time.After(limit):
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *fakeRank) Kill() {
	_ = f.begin(context.Background(), f.number, opKill, nil)
	f.once.Do(func() {
		close(f.dead)
		f.mu.Lock()
		f.alive[f.number]--
		f.mu.Unlock()
	})
}

func (f *fakeRank) Prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	if err := f.begin(ctx, f.number, opPrepare, f.dead); err != nil {
		return record.Prepared{}, err
	}
	f.plan = plan
	p := f.prepared
	p.Workers.Rank = f.number
	daemons, _ := plan.Config.Threads(f.number)
	for i, cpu := range plan.CPUs {
		address := []byte{byte(f.number)}
		if i < daemons {
			p.Workers.Daemons = append(p.Workers.Daemons, address)
		} else {
			p.Workers.Clients = append(p.Workers.Clients, address)
		}
		p.CPUs = append(p.CPUs, string(rune('0'+cpu)))
	}
	return p, nil
}

func (f *fakeRank) Connect(ctx context.Context, workers []record.RankWorkers) error {
	if err := f.begin(ctx, f.number, opConnect, f.dead); err != nil {
		return err
	}
	// A rank gets the daemons of the ranks that it calls, and the clients of those that call it.
	cfg := &f.plan.Config
	matrix := cfg.Traffic.Matrix()
	calls := func(caller, server int) bool {
		return cfg.Calls(caller) && cfg.Serves(server) &&
			(matrix == nil || matrix[caller][server] > 0)
	}
	got, want := 0, 0
	for _, w := range workers {
		daemons, clients := cfg.Threads(w.Rank)
		if !calls(f.number, w.Rank) {
			daemons = 0
		}
		if !calls(w.Rank, f.number) {
			clients = 0
		}
		if len(w.Daemons) != daemons || len(w.Clients) != clients || daemons+clients == 0 {
			return fmt.Errorf("addresses for rank %d of rank %d: %d daemons and %d clients",
				f.number, w.Rank, len(w.Daemons), len(w.Clients))
		}
		got++
	}
	for r := range cfg.Ranks {
		if calls(f.number, r) || calls(r, f.number) {
			want++
		}
	}
	if got != want {
		return fmt.Errorf("addresses for rank %d of %d ranks, want %d", f.number, got, want)
	}
	return nil
}

func (f *fakeRank) Overhead(ctx context.Context, _ time.Duration) (record.Overhead, error) {
	return record.Overhead{PerOpNS: 12, VerifyNS: 3, StampNS: 40},
		f.begin(ctx, f.number, opOverhead, f.dead)
}

func (f *fakeRank) Probe(ctx context.Context, p record.Probe) (transport.Floor, error) {
	server, caller := p.Near, p.Far
	if p.Initiate {
		server, caller = caller, server
	}
	floor := f.floor
	if p.Kind != transport.ProbeMedium {
		var supported bool
		if floor, supported = f.others[p.Kind]; !supported {
			return transport.Floor{}, transport.NewOpError("fake", "probe",
				transport.ErrUnsupported)
		}
	} else if server.Rank > 0 || caller.Rank > 1 || caller.Client > 0 {
		// Not logged: the first pair stands for all.
	} else if err := f.begin(ctx, f.number, opProbe, f.dead); err != nil {
		return transport.Floor{}, err
	}
	if p.Near.Rank != f.number || p.Far.Rank == f.number || !p.Initiate && p.Near.Client >= 0 ||
		p.Initiate && p.Far.Client >= 0 {
		return transport.Floor{}, errors.New("the wrong side, or the wrong worker")
	}
	if !p.Initiate {
		return transport.Floor{}, nil
	}
	if f.perPair != nil {
		f.perPair(p, &floor)
	}
	return floor, nil
}

func (f *fakeRank) Run(ctx context.Context, ph record.Window, started func(),
	progress func(record.Progress)) (record.Report, error) {
	this := f.note(f.number, opRun)
	f.mu.Lock()
	f.only[f.number] = append(f.only[f.number], ph.Only)
	f.mu.Unlock()
	f.reset() // before a hook may ask for the next state
	if err := f.obey(ctx, this, f.dead); err != nil {
		return record.Report{}, err
	}
	cfg := &f.plan.Config
	started()
	if f.leave && !ph.Warmup && cfg.Serves(f.number) {
		return record.Report{}, nil
	}
	if err := f.wait(ctx, record.StateMeasuring, nil); err != nil {
		return record.Report{}, err
	}
	begun := time.Now()
	if death := f.dies[this]; death != nil {
		return record.Report{}, f.die(ctx, ph, death)
	}
	if f.stuck[this] {
		<-f.dead
		return record.Report{}, errors.New("killed")
	}
	err := f.window(ctx, ph, progress)
	elapsed := time.Since(begun)
	report := f.report(ph, elapsed)
	if err != nil {
		return report, err
	}
	if cfg.Calls(f.number) {
		f.mu.Lock()
		f.drained[f.number] = true
		f.mu.Unlock()
		progress(record.Progress{Ops: uint64(elapsed / time.Microsecond), Elapsed: elapsed,
			Drained: true})
	}
	if cfg.Serves(f.number) {
		err = f.wait(ctx, record.StateStopped, nil)
	}
	return report, err
}

// reset begins a window.
func (f *fakeRank) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = record.StateReady
	f.ready[f.number], f.drained[f.number] = true, false
}

// errLost is a client's error when a peer died.
var errLost = transport.NewOpError("shm", "call", transport.ErrPeerDown)

// wait returns once the window has reached a state, or at a time.
func (f *fakeRank) wait(ctx context.Context, to record.State, until <-chan time.Time) error {
	lost := f.lost
	if !f.plan.Config.Calls(f.number) {
		lost = nil // a daemon of client-server serves on
	}
	for {
		f.mu.Lock()
		far, changed := f.state >= to, f.changed
		f.mu.Unlock()
		if far {
			return nil
		}
		select {
		case <-changed:
		case <-until:
			return nil
		case <-lost:
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		case <-f.dead:
			return errors.New("killed")
		}
	}
}

// window lasts for its duration, or until it is ended.
func (f *fakeRank) window(ctx context.Context, ph record.Window,
	progress func(record.Progress)) error {
	begun := time.Now()
	tell := func(elapsed time.Duration) {
		if f.plan.Config.Calls(f.number) {
			ops := uint64(elapsed / time.Microsecond)
			progress(record.Progress{Ops: ops, Elapsed: elapsed, RecentP50: 900, RecentP99: 1100 +
				float64(f.number)})
		}
	}
	tell(time.Millisecond)
	for elapsed := time.Duration(0); elapsed < ph.Duration; elapsed = time.Since(begun) {
		next := ph.Duration - elapsed
		if f.steady {
			next = min(next, 25*time.Millisecond)
		}
		timer := time.NewTimer(next)
		err := f.wait(ctx, record.StateDraining, timer.C)
		timer.Stop()
		if f.now() >= record.StateDraining || err != nil {
			return err
		}
		if f.steady {
			tell(time.Since(begun))
		}
	}
	return nil
}

func (f *fakeRank) now() record.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// die ends a Run like the end of its process: the peers notice first.
func (f *fakeRank) die(ctx context.Context, ph record.Window, death error) error {
	timer := time.NewTimer(ph.Duration / 2)
	defer timer.Stop()
	if err := f.wait(ctx, record.StateDraining, timer.C); err != nil {
		return err
	}
	close(f.lost)
	time.Sleep(100 * time.Millisecond)
	return death
}

func (f *fakeRank) report(ph record.Window, elapsed time.Duration) record.Report {
	cfg := &f.plan.Config
	report := record.Report{Rank: f.number, SampleEvery: ph.SampleEvery,
		Stopped: elapsed < ph.Duration}
	if ph.Warmup {
		report.SampleEvery = f.advice
		report.Setup = &record.RankSetup{OpenNS: 1000, Connections: 1, ConnectNS: 100,
			ConnectAllNS: 100}
	}
	daemons, clients := cfg.Threads(f.number)
	for range clients {
		report.Clients = append(report.Clients, meshed(clientReport(elapsed), cfg))
	}
	calls := uint64(cfg.CallingRanks()*cfg.Clients) * uint64(elapsed/time.Microsecond)
	for range daemons {
		report.Daemons = append(report.Daemons,
			daemonReport(elapsed, calls/uint64(cfg.ServingRanks()*cfg.Daemons), cfg))
	}
	if f.alone != nil && ph.Only > 0 {
		f.alone(&report, ph.Only)
	}
	if f.pair != nil && ph.Pair != nil {
		f.pair(&report, *ph.Pair)
	}
	if f.edit != nil && clients > 0 {
		f.edit(&report)
	}
	return report
}

func (f *fakeRank) Advance(ctx context.Context, to record.State) error {
	if err := f.begin(ctx, f.number, opOf[to], f.dead); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checkOrder(to)
	if to > f.state {
		f.state = to
		close(f.changed)
		f.changed = make(chan struct{})
	}
	return nil
}

// checkOrder records a state that comes too early.
func (f *fakeRank) checkOrder(to record.State) {
	for r := range f.plan.Config.Ranks {
		switch {
		case to == record.StateMeasuring && !f.ready[r]:
			f.wrong = append(f.wrong, fmt.Sprintf("rank %d measured before rank %d was in its loop",
				f.number, r))
		case to == record.StateStopped && f.plan.Config.Calls(r) && !f.drained[r]:
			f.wrong = append(f.wrong, fmt.Sprintf("rank %d was stopped before rank %d had drained",
				f.number, r))
		}
	}
}

func (f *fakeRank) Close(ctx context.Context) error {
	return f.begin(ctx, f.number, opClose, f.dead)
}
