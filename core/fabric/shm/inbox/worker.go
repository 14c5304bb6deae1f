package inbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// Transport is the inboxes of one process. It implements [transport.Transport].
type Transport struct {
	settings settings
	watch    *shm.Watcher

	mu      sync.Mutex
	workers []*worker
	closed  bool
}

var _ transport.Transport = (*Transport)(nil)

// Open returns a transport without workers. Options that do not fit the counts
// are a [*transport.OptionError]; where the kernel lacks what is needed, the
// error wraps [transport.ErrUnavailable].
func Open(cfg Config) (*Transport, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, transport.NewOpError(cfg.Name, "open", err)
	}
	if err := shm.RegisterBarrier(); err != nil {
		return nil, transport.NewOpError(cfg.Name, "open", transport.Unavailable("%w", err))
	}
	watch, err := shm.NewWatcher()
	if err != nil {
		return nil, transport.NewOpError(cfg.Name, "open", err)
	}
	return &Transport{settings: s, watch: watch, workers: make([]*worker, cfg.Workers)}, nil
}

// Properties implements [transport.Transport].
func (t *Transport) Properties() transport.Properties {
	kind, slots, arena := t.settings.identity()
	return transport.Properties{
		Provider:     string(t.settings.backing),
		Capabilities: Capabilities,
		Limits: transport.Limits{
			MaxPayload: t.settings.maxPayload(),
			InlineSize: t.settings.inlineSize(),
			Peers:      MaxPeers,
		},
		Notes: map[string]string{
			"ring":  kind,
			"slots": fmt.Sprint(slots),
			"arena": transport.FormatSize(int64(arena)),
		},
	}
}

// NewWorker implements [transport.Transport].
func (t *Transport) NewWorker(index int) (transport.Worker, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, transport.NewOpError(t.settings.name, "new worker", transport.ErrClosed)
	}
	if index < 0 || index >= len(t.workers) || t.workers[index] != nil {
		return nil, transport.NewOpError(t.settings.name, "new worker", fmt.Errorf("index %d is taken or outside 0 to %d", index, len(t.workers)-1))
	}
	w, err := newWorker(t.settings, t.watch)
	if err != nil {
		return nil, transport.NewOpError(t.settings.name, "new worker", err)
	}
	t.workers[index] = w
	return w, nil
}

// Close implements [transport.Transport].
func (t *Transport) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.watch.Close()
	var errs []error
	for _, w := range t.workers {
		if w != nil {
			errs = append(errs, w.Close(), w.unmap())
		}
	}
	return errors.Join(errs...)
}

// worker is one thread's inbox and its connections. worker_datapath.go has what
// the measured loop calls.
type worker struct {
	settings settings
	watch    *shm.Watcher
	inbox    *inbox
	address  []byte

	peers   []*peer          // by PeerID; nil where none is connected
	byNonce map[uint64]*peer // by the nonce of the peer's inbox
	inbound []*inbound       // by ring of the own inbox

	active    []*inbound // polled by every Poll
	turn      int        // where in active the next Poll starts
	delivered []*inbound // handed out payloads in the last Poll
	unmatched []*inbound // rang before their peer was connected here
	dirty     []*peer    // posted to since the last Flush
	gone      []*peer    // lost, and not told yet
	heard     uint32     // bell.sequence as last seen

	closed bool
	counts counts
}

// counts are what ReadStats tells.
type counts struct {
	posted, polled, full, bells, taken, armed, parked uint64
}

// peer is one connection, seen from here.
type peer struct {
	id       transport.PeerID
	inbox    *inbox
	index    int // of the ring in the peer's inbox that is ours to write
	link     link
	armed    *atomic.Uint32
	dirty    bool
	state    peerState
	watching int // handle at the watcher, 0 for none
	died     atomic.Bool
	errors   peerErrors
}

// peerErrors are made with the peer, since data paths do not allocate.
type peerErrors struct {
	down, tooLarge, unsupported, noCall, corrupt error
}

type peerState uint8

const (
	peerUp   peerState = iota
	peerGone           // lost; the event is on its way or delivered
)

// inbound is one ring of the own inbox.
type inbound struct {
	index  int
	in     inHalf
	armed  *atomic.Uint32
	closed *atomic.Uint32
	peer   *peer // nil until both sides have connected
	idle   uint32
	active bool
	held   bool // in delivered
	dying  bool // tell the loss once the ring is empty
}

func newWorker(s settings, watch *shm.Watcher) (*worker, error) {
	in, err := createInbox(s)
	if err != nil {
		return nil, err
	}
	w := &worker{
		settings: s, watch: watch, inbox: in,
		byNonce: make(map[uint64]*peer, s.peers),
		inbound: make([]*inbound, s.peers),
		active:  make([]*inbound, 0, s.peers), delivered: make([]*inbound, 0, s.peers),
		unmatched: make([]*inbound, 0, s.peers),
		dirty:     make([]*peer, 0, s.peers), gone: make([]*peer, 0, s.peers),
	}
	for i := range w.inbound {
		half, err := newIn(in.memory(i), s)
		if err != nil {
			return nil, errors.Join(err, in.segment.Close())
		}
		w.inbound[i] = &inbound{
			index: i, in: half,
			armed: in.word32(i, armedOffset), closed: in.word32(i, closedOffset),
		}
	}
	if w.address, err = w.encodeAddress(); err != nil {
		return nil, errors.Join(err, in.segment.Close())
	}
	return w, nil
}

func (w *worker) Address() []byte { return w.address }

func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	if w.closed {
		return w.settings.opError("connect", id, transport.ErrClosed)
	}
	if int(id) < len(w.peers) && w.peers[id] != nil {
		return w.settings.opError("connect", id, errors.New("already connected"))
	}
	if int(id) >= MaxPeers {
		return w.settings.opError("connect", id, fmt.Errorf("%w: peers are numbered below %d", transport.ErrUnsupported, MaxPeers))
	}
	a, err := decodeAddress(address)
	if err != nil {
		return w.settings.opError("connect", id, err)
	}
	if _, twice := w.byNonce[a.Nonce]; twice || a.Nonce == w.inbox.nonce {
		return w.settings.opError("connect", id, errors.New("the address is connected already, or the worker's own"))
	}
	p, err := w.newPeer(id, a)
	if err != nil {
		return w.settings.opError("connect", id, err)
	}
	for len(w.peers) <= int(id) {
		w.peers = append(w.peers, nil)
	}
	w.peers[id] = p
	w.byNonce[a.Nonce] = p
	// Rings that rang too early may be this peer's.
	early := w.unmatched
	w.unmatched = w.unmatched[:0]
	for _, r := range early {
		w.take(r)
	}
	return nil
}

func (s *settings) opError(op string, id transport.PeerID, err error) error {
	return &transport.OpError{Transport: s.name, Op: op, Peer: id, Err: err}
}

func (w *worker) newPeer(id transport.PeerID, a address) (*peer, error) {
	p := &peer{id: id, errors: peerErrors{
		down:        w.settings.opError("post", id, transport.ErrPeerDown),
		tooLarge:    w.settings.opError("post", id, transport.ErrTooLarge),
		unsupported: w.settings.opError("post", id, transport.ErrUnsupported),
		noCall:      w.settings.opError("post", id, fmt.Errorf("reply: %w: %w", transport.ErrUnsupported, ring.ErrNoCall)),
		corrupt:     w.settings.opError("poll", id, transport.ErrCorrupt),
	}}
	// Watching first: if the inbox can still be opened afterwards, the process
	// that is watched is the inbox's owner and not a later one of its number.
	if a.PID != os.Getpid() {
		handle, err := w.watch.Add(a.PID, func() { p.died.Store(true); w.inbox.bell.wake() })
		if err != nil {
			return nil, err
		}
		p.watching = handle
	}
	var err error
	if p.inbox, err = openInbox(a, w.settings); err == nil {
		if p.index, err = p.inbox.claim(w.inbox.nonce); err == nil {
			p.armed = p.inbox.word32(p.index, armedOffset)
			p.link, err = newOut(p.inbox.memory(p.index), w.settings)
		}
	}
	if err != nil {
		w.watch.Remove(p.watching)
		if p.inbox != nil {
			err = errors.Join(err, p.inbox.segment.Close())
		}
		return nil, err
	}
	return p, nil
}

// Close implements [transport.Worker]. The memory stays mapped until the
// transport closes, so that payloads handed out stay readable.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	for _, p := range w.peers {
		if p == nil {
			continue
		}
		w.watch.Remove(p.watching)
		// What was posted and not flushed is given up with the rest.
		p.inbox.word32(p.index, closedOffset).Store(1)
		p.inbox.bell.ring(p.index)
	}
	return w.inbox.segment.Unlink()
}

func (w *worker) unmap() error {
	errs := []error{w.inbox.segment.Close()}
	for _, p := range w.peers {
		if p != nil {
			errs = append(errs, p.inbox.segment.Close())
		}
	}
	return errors.Join(errs...)
}

// Probe implements [transport.Prober]: the two threads bounce one cache line,
// which the initiator's ring has in the other's inbox.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	if w.closed {
		return transport.Floor{}, w.settings.opError("probe", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil || w.peers[id].state != peerUp {
		return transport.Floor{}, w.settings.opError("probe", id, transport.ErrPeerDown)
	}
	p := w.peers[id]
	line := p.inbox.word64(p.index, probeOffset)
	if !initiate {
		index, ok := w.inbox.find(p.inbox.nonce)
		if !ok {
			return transport.Floor{}, w.settings.opError("probe", id, errors.New("the peer has not connected"))
		}
		line = w.inbox.word64(index, probeOffset)
	}
	reading, err := floor.Bounce(ctx, line, initiate, d)
	if err != nil {
		return transport.Floor{}, w.settings.opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
	}
	return reading, nil
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	return append(dst,
		transport.Stat{Name: "posted", Help: "messages put into rings", Value: w.counts.posted},
		transport.Stat{Name: "polled", Help: "messages taken from rings", Value: w.counts.polled},
		transport.Stat{Name: "ring_full", Help: "posts that found a ring full", Value: w.counts.full},
		transport.Stat{Name: "bells", Help: "bells rung at peers whose ring was armed", Value: w.counts.bells},
		transport.Stat{Name: "rings_taken_up", Help: "rings that a bell brought back into polling", Value: w.counts.taken},
		transport.Stat{Name: "rings_armed", Help: "rings dropped from polling as idle", Value: w.counts.armed},
		transport.Stat{Name: "parked", Help: "waits that gave the core away", Value: w.counts.parked},
	)
}
