package memory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// fake is a Driver with one fault. The functions that are set make the fault: each changes the
// correct value that it gets.
type fake struct {
	name   string
	clause string // the clause that must catch the fault
	says   string // part of the clause's report
	hangs  bool   // the clause fails at its time limit

	info       func(*fakeDriver, *transport.Info)
	open       func(*fakeDriver) error
	properties func(*transport.Properties)
	transport  func(*fakeTransport)
	worker     func(*fakeWorker)
	shape      func(transport.Worker) transport.Worker // wraps the worker that NewWorker returns
	kill       func(*fakeDriver, *endpoint)
	// names of microbenchmarks; all of them run whether wanted or not
	micro func(*fakeDriver) []string
}

type fakeDriver struct {
	*Driver
	fake     *fake
	released chan struct{} // closed at the end of the test; faults that hang wait for it

	mu         sync.Mutex
	opened     int
	transports []*fakeTransport
	workers    []*fakeWorker
	atEnd      []func()
	data       sync.Mutex // for faults of the data path
}

func (f *fake) driver(t *testing.T) *fakeDriver {
	d := &fakeDriver{Driver: NewDriver(), fake: f, released: make(chan struct{})}
	t.Cleanup(func() {
		close(d.released)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, f := range d.atEnd {
			f()
		}
	})
	return d
}

func (f *fake) suite(t *testing.T) *transporttest.Suite {
	d := f.driver(t)
	return &transporttest.Suite{Driver: d, Kill: func(t transport.Transport) {
		sound := t.(*fakeTransport).endpoint
		if f.kill != nil {
			f.kill(d, sound)
			return
		}
		d.Driver.Kill(sound)
	}}
}

func (d *fakeDriver) Info() transport.Info {
	info := d.Driver.Info()
	if d.fake.info != nil {
		d.fake.info(d, &info)
	}
	return info
}

// Microbenchmarks implements [transport.Microbenchmarker].
func (d *fakeDriver) Microbenchmarks() []string {
	if d.fake.micro != nil {
		return d.fake.micro(d)
	}
	return []string{"copy"}
}

// Microbenchmark implements [transport.Microbenchmarker].
func (d *fakeDriver) Microbenchmark(_ context.Context, _ transport.Values, wanted func(string) bool,
	_ time.Duration, report func(transport.Measurement) error) error {
	for _, name := range d.Microbenchmarks() {
		if !wanted(name) && d.fake.micro == nil {
			continue
		}
		if err := report(transport.Measurement{Name: name, Samples: 1}); err != nil {
			return err
		}
	}
	return nil
}

func (d *fakeDriver) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	d.mu.Lock()
	d.opened++
	d.mu.Unlock()
	if d.fake.open != nil {
		if err := d.fake.open(d); err != nil {
			return nil, err
		}
	}
	sound, err := d.Driver.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &fakeTransport{endpoint: sound.(*endpoint), driver: d}
	t.newWorker, t.close = t.endpoint.NewWorker, t.endpoint.Close
	if d.fake.transport != nil {
		d.fake.transport(t)
	}
	d.mu.Lock()
	d.transports = append(d.transports, t)
	d.mu.Unlock()
	return t, nil
}

type fakeTransport struct {
	*endpoint
	driver    *fakeDriver
	newWorker func(int) (transport.Worker, error)
	close     func() error
}

func (t *fakeTransport) Properties() transport.Properties {
	p := t.endpoint.Properties()
	if t.driver.fake.properties != nil {
		t.driver.fake.properties(&p)
	}
	return p
}

func (t *fakeTransport) NewWorker(index int) (transport.Worker, error) {
	sound, err := t.newWorker(index)
	if err != nil {
		return nil, err
	}
	m := sound.(*worker)
	w := &fakeWorker{worker: m, driver: t.driver, transport: t, index: index,
		address: m.Address, connect: m.Connect, post: m.Post, flush: m.Flush, poll: m.Poll,
		close: m.Close, wait: m.Wait, wake: m.Wake, probe: m.Probe, readStats: m.ReadStats,
		readPaths: m.ReadPaths, silence: m.Silence, recorded: m.ReadRecording}
	if t.driver.fake.worker != nil {
		t.driver.fake.worker(w)
	}
	t.driver.mu.Lock()
	t.driver.workers = append(t.driver.workers, w)
	t.driver.mu.Unlock()
	if t.driver.fake.shape != nil {
		return t.driver.fake.shape(w), nil
	}
	return w, nil
}

func (t *fakeTransport) Close() error { return t.close() }

// fakeWorker has every method of a worker in a field.
type fakeWorker struct {
	*worker
	driver    *fakeDriver
	transport *fakeTransport
	index     int
	handedOut []byte // payloads of the last Poll, with handOut

	address   func() []byte
	connect   func(context.Context, transport.PeerID, []byte) error
	post      func([]transport.Op) (int, error)
	flush     func() error
	poll      func([]transport.Event) (int, error)
	close     func() error
	wait      func(time.Duration) error
	wake      func()
	probe     func(context.Context, transport.PeerID, transport.Probe) (transport.Floor, error)
	readStats func([]transport.Stat) []transport.Stat
	readPaths func([]transport.Path) []transport.Path
	silence   func(transport.PeerID) error
	recorded  func() transport.Recorded
}

func (w *fakeWorker) Address() []byte { return w.address() }
func (w *fakeWorker) Connect(ctx context.Context, peer transport.PeerID, address []byte) error {
	return w.connect(ctx, peer, address)
}
func (w *fakeWorker) Post(ops []transport.Op) (int, error)            { return w.post(ops) }
func (w *fakeWorker) Flush() error                                    { return w.flush() }
func (w *fakeWorker) Poll(events []transport.Event) (int, error)      { return w.poll(events) }
func (w *fakeWorker) Close() error                                    { return w.close() }
func (w *fakeWorker) Wait(timeout time.Duration) error                { return w.wait(timeout) }
func (w *fakeWorker) Wake()                                           { w.wake() }
func (w *fakeWorker) ReadStats(dst []transport.Stat) []transport.Stat { return w.readStats(dst) }
func (w *fakeWorker) ReadPaths(dst []transport.Path) []transport.Path { return w.readPaths(dst) }
func (w *fakeWorker) Silence(peer transport.PeerID) error             { return w.silence(peer) }
func (w *fakeWorker) ReadRecording() transport.Recorded               { return w.recorded() }
func (w *fakeWorker) Probe(ctx context.Context, peer transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	return w.probe(ctx, peer, probe)
}

// editOps changes copies of the ops before they are posted.
func (w *fakeWorker) editOps(edit func(ops []transport.Op)) {
	sound := w.post
	w.post = func(ops []transport.Op) (int, error) {
		edited := append([]transport.Op(nil), ops...)
		edit(edited)
		return sound(edited)
	}
}

// editEvents changes polled events.
func (w *fakeWorker) editEvents(edit func(e *transport.Event)) {
	w.filterEvents(func(e *transport.Event) bool {
		edit(e)
		return true
	})
}

// filterEvents drops polled events for which keep returns false.
func (w *fakeWorker) filterEvents(keep func(e *transport.Event) bool) {
	sound := w.poll
	w.poll = func(events []transport.Event) (int, error) {
		n, err := sound(events)
		kept := 0
		for i := range events[:n] {
			if e := events[i]; keep(&e) {
				events[kept] = e
				kept++
			}
		}
		return kept, err
	}
}

// editRequests changes a copy of each request's payload.
func (w *fakeWorker) editRequests(edit func(payload []byte) []byte) {
	w.editEvents(func(e *transport.Event) {
		if e.Kind == transport.EventRequest {
			e.Payload = edit(append([]byte(nil), e.Payload...))
			e.Size = len(e.Payload)
		}
	})
}

// hang does not return before the end of the test.
func (d *fakeDriver) hang() { <-d.released }

// fakeLimits are the time limits to try, in order: on a busy machine a short one may be over before
// the fault. The first is for clauses that fail by their limit.
var fakeLimits = []time.Duration{500 * time.Millisecond, 10 * time.Second, time.Minute}

// caught returns nil if the clause fails for the expected reason.
func (f *fake) caught(t *testing.T) (err error) {
	limits := fakeLimits
	if !f.hangs {
		limits = limits[1:]
	}
	for _, limit := range limits {
		s := f.suite(t)
		s.Timeout = limit
		failed, report, runErr := transporttest.RunClause(*s, f.clause)
		switch {
		case runErr != nil:
			return runErr
		case !failed:
			return fmt.Errorf("%s passes a transport that %s", f.clause, f.name)
		case strings.Contains(report, f.says):
			return nil
		}
		err = fmt.Errorf("%s fails, but does not say %q:\n%s", f.clause, f.says, report)
	}
	return err
}

// alone has the clauses that measure the whole process.
func alone() map[string]bool {
	alone := map[string]bool{}
	for _, c := range transporttest.Clauses() {
		alone[c.Name] = c.Alone
	}
	return alone
}

// TestFakesAreCaught tries several fakes concurrently, because slow ones mostly wait for a time
// limit.
func TestFakesAreCaught(t *testing.T) {
	list, alone := fakes(), alone()
	results := make([]error, len(list))
	running := make(chan struct{}, 4)
	var all sync.WaitGroup
	for i, f := range list {
		if !alone[f.clause] {
			all.Go(func() {
				running <- struct{}{}
				defer func() { <-running }()
				results[i] = f.caught(t)
			})
		}
	}
	all.Wait()
	for i, f := range list {
		if !alone[f.clause] {
			t.Run(f.clause+" "+f.name, func(t *testing.T) { require.NoError(t, results[i]) })
		}
	}
}

// TestFakesAreCaughtAlone tries the clauses that measure the whole process.
func TestFakesAreCaughtAlone(t *testing.T) {
	alone := alone()
	for _, f := range fakes() {
		if alone[f.clause] {
			t.Run(f.clause+" "+f.name, func(t *testing.T) { require.NoError(t, f.caught(t)) })
		}
	}
}

// TestEveryClauseCatchesAFake checks that every clause has a fake, which the tests above check to
// be caught.
func TestEveryClauseCatchesAFake(t *testing.T) {
	caught := map[string]bool{}
	for _, f := range fakes() {
		require.NotEmpty(t, f.says, f.name)
		caught[f.clause] = true
	}
	seen := map[string]bool{}
	for _, c := range transporttest.Clauses() {
		require.True(t, caught[c.Name], "no fake fails %s", c.Name)
		require.False(t, seen[c.Name], "two clauses are called %s", c.Name)
		require.NotEmpty(t, c.Says, c.Name)
		seen[c.Name] = true
	}
}

// TestFakeWithoutFault checks that the clauses catch the faults, not the fake.
func TestFakeWithoutFault(t *testing.T) {
	transporttest.Run(t, *(&fake{}).suite(t))
}

func TestPoisonConforms(t *testing.T) {
	transporttest.Run(t, *(&fake{shape: Poison}).suite(t))
}

// TestWithoutOptionalParts runs the clauses that remain if nothing optional is declared.
func TestWithoutOptionalParts(t *testing.T) {
	bare := fake{
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Capabilities = transport.Capabilities{}
		},
		properties: func(p *transport.Properties) {
			p.Capabilities = transport.Capabilities{}
			p.Limits.InFlight = 0
		},
		worker: func(w *fakeWorker) {
			w.filterEvents(func(e *transport.Event) bool {
				return e.Kind != transport.EventPeerLost
			})
		},
		shape: func(w transport.Worker) transport.Worker { return struct{ transport.Worker }{w} },
	}
	transporttest.Run(t, *bare.suite(t))
}
