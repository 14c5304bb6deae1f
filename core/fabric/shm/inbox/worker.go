package inbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// Transport holds the inboxes of one process. It implements [transport.Transport].
type Transport struct {
	settings settings
	watch    *shm.Watcher
	workers  *control.Workers[*worker]
}

var _ transport.Transport = (*Transport)(nil)

// Open returns a transport without workers. It returns a [*transport.OptionError] if
// options do not fit the counts, and an error that wraps [transport.ErrUnavailable] if the
// kernel lacks membarrier(2).
func Open(cfg Config) (*Transport, error) {
	name := control.Name(cfg.Name)
	s, err := resolve(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	if err := shm.RegisterBarrier(); err != nil {
		return nil, name.Error("open", transport.Unavailable("%w", err))
	}
	watch, err := shm.NewWatcher()
	if err != nil {
		return nil, name.Error("open", err)
	}
	return &Transport{settings: s, watch: watch, workers: control.NewWorkers[*worker](name,
		cfg.Workers)}, nil
}

// Properties implements [transport.Transport].
func (t *Transport) Properties() transport.Properties {
	kind, slots, slotSize, arena := t.settings.identity()
	p := transport.Properties{
		Provider:     string(t.settings.backing),
		Medium:       transport.MediumMemory,
		Capabilities: Capabilities,
		Limits: transport.Limits{
			MaxPayload: t.settings.maxPayload(),
			InlineSize: t.settings.inlineSize(),
			Peers:      MaxPeers,
		},
		Notes: map[string]string{
			"ring":  kind,
			"slots": fmt.Sprint(slots),
			"slot":  transport.FormatSize(int64(slotSize)),
			"arena": transport.FormatSize(int64(arena)),
		},
		Integrity: "none",
	}
	if t.settings.auto {
		p.Chosen = map[string]string{"ring": kind}
		because := " because one call is in flight on a connection"
		switch t.settings.algorithm {
		case ring.FastForward:
			because = " because several calls are in flight on a connection"
		case ring.Onesided:
			because += fmt.Sprintf(", with payloads over %d bytes", ring.WideInlineSize)
		}
		p.Notes[transport.NoteAuto] = kind + because
	}
	return p
}

// NewWorker implements [transport.Transport].
func (t *Transport) NewWorker(index int) (transport.Worker, error) {
	return t.workers.New(index, func() (*worker, error) { return newWorker(t.settings, t.watch) })
}

// Close implements [transport.Transport].
func (t *Transport) Close() error {
	return t.workers.Close(func(workers []*worker) error {
		t.watch.Close()
		return control.Each(workers, func(w *worker) error {
			return errors.Join(w.Close(), w.unmap())
		})
	})
}

// worker is one thread's inbox and connections. worker_datapath.go holds the methods that
// the measured loop calls.
type worker struct {
	settings settings
	watch    *shm.Watcher
	inbox    *inbox
	address  []byte

	peers   control.Peers[peer, uint64] // by PeerID, and by the nonce of the peer's inbox
	regions []*region                   // by region of the own inbox

	// only is the single active ring, or nil if Poll must look at anything else. Usually it is set.
	only      *region
	active    []*region // Poll looks at these
	first     int       // index in active where the next Poll starts
	unmatched []*region // notified before Connect was called with their peer's address
	to        *peer     // of the last op posted, or nil; it is in posting
	posting   []*peer   // Flush looks at these; a lone one stays after it
	// toArmed is the armed word of the only peer in posting, or nil if Flush must do more than load
	// it.
	toArmed  *atomic.Uint32
	lost     control.LostPeers
	sequence uint32 // of the notifier, as last seen

	counts counts
}

// counts are the values of ReadStats.
type counts struct {
	polled, full, notifications, activated, retired, slept uint64
	syscalls                                               uint64
}

// peer is one connection.
type peer struct {
	id       transport.PeerID
	inbox    *inbox // the peer's
	index    int    // of the region that this worker has claimed there
	out      outbound
	slots    *slotLink      // out with call slots, or nil
	armed    *atomic.Uint32 // in the peer's inbox
	posting  bool           // in worker.posting
	lost     bool
	watching int // handle at the watcher, or 0
	died     atomic.Bool
	errors   control.PeerErrors
}

// region is one region of the worker's own inbox, into which a peer writes.
type region struct {
	index    int
	id       transport.PeerID // of peer
	in       inbound          // nil with call slots until peer is known
	answerer *ring.Answerer   // with call slots
	armed    *atomic.Uint32   // in the own inbox
	closed   *atomic.Uint32
	peer     *peer // nil until both sides have connected
	idle     uint32
	active   bool
	closing  bool // report the peer lost once the ring is empty
}

func newWorker(s settings, watch *shm.Watcher) (*worker, error) {
	in, err := createInbox(s)
	if err != nil {
		return nil, err
	}
	w := &worker{
		settings: s, watch: watch, inbox: in,
		peers:     control.NewPeers[peer](MaxPeers, s.peers, in.nonce),
		regions:   make([]*region, s.peers),
		active:    make([]*region, 0, s.peers),
		unmatched: make([]*region, 0, s.peers),
		posting:   make([]*peer, 0, s.peers), lost: control.NewLostPeers(s.peers),
	}
	for i := range w.regions {
		half, answerer, err := newInbound(in.memory(i), s)
		if err != nil {
			return nil, errors.Join(err, in.segment.Close())
		}
		w.regions[i] = &region{
			index: i, in: half, answerer: answerer,
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
	return w.settings.name.PeerError("connect", id, w.connect(id, address))
}

func (w *worker) connect(id transport.PeerID, address []byte) error {
	a, err := decodeAddress(address)
	if err != nil {
		return err
	}
	if err := w.peers.Check(id, a.Nonce); err != nil {
		return err
	}
	p, err := w.newPeer(id, a)
	if err != nil {
		return err
	}
	w.peers.Add(id, a.Nonce, p, w.settings.maxPayload(), &p.errors)
	// The peer may have notified before this worker knew it.
	early := w.unmatched
	w.unmatched = w.unmatched[:0]
	for _, r := range early {
		w.activate(r)
	}
	return nil
}

func (w *worker) newPeer(id transport.PeerID, a address) (*peer, error) {
	p := &peer{id: id, errors: w.settings.name.PeerErrors(id)}
	// Watch before opening: if the inbox can still be opened, the watched process is its
	// owner and not a later process with the same PID.
	if a.PID != os.Getpid() {
		handle, err := w.watch.Add(a.PID, func() { p.died.Store(true); w.inbox.notifier.wake() })
		if err != nil {
			return nil, err
		}
		p.watching = handle
	}
	var err error
	if p.inbox, err = openInbox(a, w.settings); err == nil {
		if p.index, err = p.inbox.claim(w.inbox.nonce); err == nil {
			p.armed = p.inbox.word32(p.index, armedOffset)
			p.out, p.slots, err = newOutbound(p.inbox.memory(p.index), w.settings)
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

// Close implements [transport.Worker]. The memory stays mapped until the transport closes,
// so that payloads of the last Poll stay readable.
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	w.only, w.to, w.toArmed = nil, nil, nil
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		w.watch.Remove(p.watching)
		p.inbox.word32(p.index, closedOffset).Store(1)
		p.inbox.notifier.notify(p.index)
	}
	return w.inbox.segment.Unlink()
}

func (w *worker) unmap() error {
	errs := []error{w.inbox.segment.Close()}
	for _, p := range w.peers.ByID {
		if p != nil {
			errs = append(errs, p.inbox.segment.Close())
		}
	}
	return errors.Join(errs...)
}

// work returns what the worker has done for its messages, and how many it has posted.
func (w *worker) work() (sum control.Work, posted uint64) {
	sum = control.Work{Syscalls: w.counts.syscalls, Doorbells: w.counts.notifications}
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		out := p.out.Posted()
		posted += out.Messages
		sum.Copies += out.Payloads
		sum.CopiedBytes += out.Bytes
		if p.slots != nil {
			payloads, bytes := p.slots.copied()
			sum.Copies += payloads
			sum.CopiedBytes += bytes
		}
	}
	return sum, posted
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	sum, posted := w.work()
	return append(sum.Append(dst),
		transport.Stat{Name: "posted", Help: "messages put into rings", Value: posted},
		transport.Stat{Name: "polled", Help: "messages taken from rings", Value: w.counts.polled},
		transport.Stat{Name: "ring_full", Means: transport.MeansShortage,
			Help:  "posts that found a ring full",
			Value: w.counts.full},
		transport.Stat{Name: "rings_taken_up", Help: "rings made active by a notification",
			Value: w.counts.activated},
		transport.Stat{Name: "rings_armed",
			Help: "idle rings that were armed and are no longer polled", Value: w.counts.retired},
		transport.Stat{Name: "parked", Help: "waits that slept", Value: w.counts.slept},
	)
}

// Silence implements [transport.PathReader]. Memory does not fall silent: a peer is lost when its
// process ends.
func (w *worker) Silence(transport.PeerID) error { return nil }

// ReadPaths implements [transport.PathReader]. The kernel knows the segments.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	return append(dst, transport.Path{Carrier: transport.MediumMemory})
}
