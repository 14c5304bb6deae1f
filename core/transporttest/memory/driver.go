package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

const name = control.Name("memory")

// The limits of [Driver]. An open transport has the limits of its Config.
const (
	maxPayload  = 16 << 20
	maxInFlight = 1 << 16
	maxPeers    = 1024
)

// Driver is a correct transport between the workers of one process, for tests of the users of a
// transport. It is as strict as the contract allows: nothing arrives before Flush, and the memory
// of a payload is reused after the next Poll.
//
// A worker of a Driver reaches only other workers of the same Driver. The zero value is ready to
// use.
type Driver struct {
	mu      sync.Mutex
	workers map[uint64]*worker // open workers, by number
	links   map[linkKey]*rings
	last    uint64
}

// linkKey has the numbers of two workers, the lower one first.
type linkKey [2]uint64

// rings are shared by the two ends of a connection. The first carries messages from the worker
// with the lower number to the other, the second in the other direction.
type rings struct {
	rings [2]*ring
	pings [2]atomic.Uint64 // in the same directions
}

// NewDriver returns a new driver.
func NewDriver() *Driver { return &Driver{} }

// Info implements [transport.Driver].
func (m *Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: "1", Summary: "within one process, for tests",
		Choose:       "in tests of the conformance suite",
		Groups:       []transport.Group{transport.GroupMemory},
		Providers:    []string{"heap"},
		Capabilities: transport.Capabilities{Ordered: true, Waits: true, TellsPeerLost: true},
		Limits: transport.Limits{MaxPayload: maxPayload, InlineSize: inlinePayload,
			InFlight: maxInFlight, Peers: maxPeers},
		Options: []transport.Option{{Name: "ring-size", Type: transport.TypeSize,
			Default: "16KiB", Min: 4 << 10, Max: 64 << 20,
			Help: "minimum bytes of the ring in each direction; grows with the calls in flight"}},
	}
}

// Open implements [transport.Driver].
func (m *Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	if cfg.MaxPayload > maxPayload || cfg.InFlight > maxInFlight ||
		cfg.Peers > maxPeers {
		return nil, name.Error("open",
			fmt.Errorf("%w: the configuration exceeds the limits %+v",
				transport.ErrUnsupported, m.Info().Limits))
	}
	return &endpoint{driver: m, config: cfg, ringSize: cfg.Options.Size("ring-size")}, nil
}

// Kill is a function for Suite.Kill. It ends the rank without a farewell; ops that it posted but
// did not flush are lost.
func (m *Driver) Kill(t transport.Transport) {
	for _, w := range t.(*endpoint).made() {
		w.die()
	}
}

// endpoint is one rank.
type endpoint struct {
	driver   *Driver
	config   transport.Config
	ringSize int

	mu      sync.Mutex
	workers map[int]*worker // by index
	closed  bool
}

// Properties implements [transport.Transport].
func (t *endpoint) Properties() transport.Properties {
	info := t.driver.Info()
	limits := info.Limits
	limits.MaxPayload = max(t.config.MaxPayload, inlinePayload)
	limits.InFlight = max(t.config.InFlight, 1)
	return transport.Properties{Provider: "heap", Capabilities: info.Capabilities, Limits: limits,
		Integrity: "none"}
}

// NewWorker implements [transport.Transport].
func (t *endpoint) NewWorker(index int) (transport.Worker, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, name.Error("new worker", transport.ErrClosed)
	case index < 0 || index >= t.config.Workers || t.workers[index] != nil:
		return nil, name.Error("new worker", fmt.Errorf(
			"%w: index %d is taken or out of range (0 to %d)", transport.ErrUnsupported, index,
			t.config.Workers-1))
	}
	if t.workers == nil {
		t.workers = map[int]*worker{}
	}
	w := t.driver.newWorker(t)
	t.workers[index] = w
	return w, nil
}

func (t *endpoint) made() []*worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*worker
	for _, w := range t.workers {
		all = append(all, w)
	}
	return all
}

// Close implements [transport.Transport].
func (t *endpoint) Close() error {
	for _, w := range t.made() {
		w.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return nil
}

func (m *Driver) newWorker(t *endpoint) *worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.workers == nil {
		m.workers, m.links = map[uint64]*worker{}, map[linkKey]*rings{}
	}
	m.last++
	w := &worker{
		driver: m, number: m.last, limits: t.Properties().Limits, ringSize: t.ringSize,
		address: binary.LittleEndian.AppendUint64(nil, m.last),
		notify:  make(chan struct{}, 1),
	}
	m.workers[w.number] = w
	return w
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker]. It does not block.
func (w *worker) Connect(_ context.Context, peer transport.PeerID, address []byte) error {
	refuse := func(err error) error { return name.PeerError("connect", peer, err) }
	if w.gone.Load() {
		return refuse(transport.ErrClosed)
	}
	if len(address) != 8 {
		return refuse(fmt.Errorf("%w: an address of %d bytes is not an address of this transport",
			transport.ErrUnsupported, len(address)))
	}
	if int64(peer) >= int64(w.limits.Peers) || w.connection(peer) != nil {
		return refuse(fmt.Errorf("%w: the peer's number is taken or not below %d",
			transport.ErrUnsupported, w.limits.Peers))
	}
	remote, link := w.driver.link(w, binary.LittleEndian.Uint64(address))
	if remote == nil {
		return refuse(fmt.Errorf("%w: its worker is closed", transport.ErrPeerDown))
	}
	w.attach(peer, remote, link)
	return nil
}

// link returns an open worker and its link with w.
func (m *Driver) link(w *worker, number uint64) (*worker, *rings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	remote := m.workers[number]
	if remote == nil {
		return nil, nil
	}
	key := linkKey{min(w.number, number), max(w.number, number)}
	link := m.links[key]
	if link == nil {
		size := ringCapacity(w.ringSize, w.limits.InFlight, w.limits.MaxPayload)
		link = &rings{rings: [2]*ring{newRing(size), newRing(size)}}
		m.links[key] = link
	}
	return remote, link
}

func (w *worker) attach(peer transport.PeerID, remote *worker, link *rings) {
	for len(w.connections) <= int(peer) {
		w.connections = append(w.connections, nil)
	}
	c := &connection{peer: peer, remote: remote,
		pings: newPings(&link.pings[1], &link.pings[0]),
		send:  link.rings[0], receive: link.rings[1],
		errs: name.PeerErrors(peer)}
	if w.number > remote.number {
		c.send, c.receive = c.receive, c.send
		c.pings = newPings(&link.pings[0], &link.pings[1])
	}
	w.connections[peer] = c
	w.active = append(w.active, c)
}

// die makes the peers lose the worker.
func (w *worker) die() {
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	delete(w.driver.workers, w.number)
	for key := range w.driver.links {
		if key[0] == w.number || key[1] == w.number {
			delete(w.driver.links, key)
		}
	}
	w.gone.Store(true) // pairs with the load in collect
	for _, c := range w.active {
		c.remote.Wake()
	}
}

// Close implements [transport.Worker].
func (w *worker) Close() error {
	if !w.gone.Load() {
		w.die()
	}
	return nil
}

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.timer == nil {
		w.timer = time.NewTimer(timeout)
	} else {
		w.timer.Reset(timeout)
	}
	defer w.timer.Stop()
	select {
	case <-w.notify:
	case <-w.timer.C:
	}
	return nil
}

// Wake implements [transport.Waiter]. The notification stays in the channel until a Wait receives
// it, so that an arrival between a Poll and a Wait is not lost.
func (w *worker) Wake() {
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// ReadPaths implements [transport.PathReader].
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	return append(dst, transport.Path{Carrier: transport.MediumMemory})
}

// Silence implements [transport.PathReader]. A peer in the same process does not fall silent.
func (w *worker) Silence(transport.PeerID) error { return nil }

// pings is the [floor.Medium] of a connection: one word for each direction.
type pings struct{ in, out *atomic.Uint64 }

func newPings(in, out *atomic.Uint64) floor.PingPong {
	return floor.PingPong{Name: "goroutine ping-pong", Medium: pings{in, out}}
}

func (p pings) Post(number uint64) error {
	p.out.Store(number)
	return nil
}

func (p pings) Take() (number uint64, ok bool, err error) {
	runtime.Gosched() // the other side may be a goroutine of the same thread
	return p.in.Load(), true, nil
}

// Probe implements [transport.Prober].
func (w *worker) Probe(ctx context.Context, peer transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	c := w.connection(peer)
	return name.Probe(peer, w.gone.Load(), c != nil && !c.remote.gone.Load(),
		func() (transport.Floor, error) {
			if probe.Kind != transport.ProbeMedium {
				return transport.Floor{}, transport.ErrUnsupported
			}
			return c.pings.Run(ctx, probe.Initiate, probe.Duration)
		})
}
