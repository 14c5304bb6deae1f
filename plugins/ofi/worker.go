package ofi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"transportbench/core/fabric/datagram"
	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

var (
	_ transport.Worker = (*worker)(nil)
	_ transport.Prober = (*worker)(nil)
)

// worker is one thread's endpoint of libfabric and its connections. worker_datapath.go has the
// methods that the measured loop calls.
type worker struct {
	endpoint *endpoint
	library  *fi.Worker
	nonce    uint64
	address  []byte
	limit    int // bytes of payload
	window   int // calls in flight on one connection

	peers control.Peers[peer, uint64]
	lost  control.LostPeers // whose ErrCorrupt Poll has returned

	presence *presence
	gone     atomic.Uint32 // peers whose presence has ended
	handled  uint32        // of gone
	grace    int           // polls since it differs from handled, empty ones with their weight

	stream    *floor.StreamPort // for probes of TCP, or nil
	datagrams *datagram.UDP     // for probes of UDP, or nil
	parking   *control.Parking  // nil without the option wake-up
	closed    bool
	freed     bool // the library's part
	counts    counts
}

// counts are the counters that the shim does not have.
type counts struct {
	posted, bytes, polled, full, crossings, empty, parked uint64
	syscalls                                              uint64
}

// peer is one connection.
type peer struct {
	id             transport.PeerID
	probe          []byte // address of its port for probes
	library        []byte // libfabric's address
	remote         datagram.Remote
	watch          int // handle of the watcher
	gone           atomic.Bool
	state          peerState
	calls          int                            // posted, without a response
	pendingReplies int                            // requests polled, without a reply
	sessions       struct{ led, followed uint32 } // of library probes: the last in each role
	errors         control.PeerErrors
}

type peerState uint8

const (
	peerUp   peerState = iota
	peerCut            // broke the protocol or is gone; the shim will report its loss
	peerLost           // Poll has reported the loss, or LostPeers will
)

func newWorker(e *endpoint) (_ *worker, err error) {
	cfg := e.settings.worker
	w := &worker{
		endpoint: e, nonce: control.NewNonce(), limit: cfg.MaxPayload, window: cfg.Window,
		lost: control.NewLostPeers(cfg.Peers),
	}
	w.peers = control.NewPeers[peer](cfg.Peers, w.nonce)
	if w.library, err = e.newLibraryWorker(w.nonce); err != nil {
		return nil, err
	}
	e.AddRegistered(w.library.Registered())
	defer func() {
		if err != nil {
			err = errors.Join(err, w.closeAll())
			w.library.Destroy()
		}
	}()
	at := e.presenceAddress()
	if w.presence, err = newPresence(at, w.nonce, cfg.Peers, e.settings.silence); err != nil {
		return nil, err
	}
	if cfg.WakeUp {
		if w.library.Descriptor() < 0 {
			return nil, e.noDescriptor()
		}
		if w.parking, err = control.NewParking(w.library.Descriptor()); err != nil {
			return nil, err
		}
	}
	a := address{
		nonce: w.nonce, window: uint32(w.window), small: uint32(cfg.Small),
		most:     uint64(cfg.MaxPayload),
		provider: e.fabric.Provider, presence: w.presence.address, library: w.library.Address(),
	}
	switch medium := e.medium(); {
	case !at.IsValid():
	case medium == transport.MediumTCP:
		if w.stream, err = floor.ListenStream(at); err != nil {
			return nil, err
		}
		a.probe = w.stream.Address()
	case medium == transport.MediumUDP:
		if w.datagrams, err = datagram.OpenUDP(
			datagram.UDPOptions{Address: netip.AddrPortFrom(at, 0)}); err != nil {
			return nil, err
		}
		a.probe = w.datagrams.Address()
	}
	w.address = a.encode()
	return w, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker].
func (w *worker) Connect(ctx context.Context, id transport.PeerID, encoded []byte) error {
	return name.PeerError("connect", id, w.connect(ctx, id, encoded))
}

func (w *worker) connect(ctx context.Context, id transport.PeerID, encoded []byte) error {
	if w.closed {
		return transport.ErrClosed
	}
	if err := w.peers.CheckID(id); err != nil {
		return err
	}
	a, err := decodeAddress(encoded)
	if err != nil {
		return err
	}
	if err := w.peers.CheckNonce(a.nonce); err != nil {
		return err
	}
	e := w.endpoint
	switch {
	case int(a.window) != w.window:
		return fmt.Errorf("the peer was opened for %d calls in flight and this side for %d: open "+
			"all ranks with the same", a.window, w.window)
	case a.provider != e.fabric.Provider:
		return fmt.Errorf(
			"the peer uses provider %s and this side %s: set the option %q on all ranks",
			a.provider, e.fabric.Provider, optionProvider)
	case int(a.small) != e.settings.worker.Small || int(a.most) != w.limit:
		return fmt.Errorf("the peer was opened for plain messages of %d bytes and payloads of "+
			"%d, and this side for %d and %d: open all ranks with the same",
			a.small, a.most, e.settings.worker.Small, w.limit)
	case len(a.library) != len(w.library.Address()) && e.fabric.Format != fi.FormatText:
		return errors.New("the peer's address of libfabric has another length: use the same " +
			"version of libfabric on all ranks")
	}
	p := &peer{id: id, probe: a.probe, library: slices.Clone(a.library),
		errors: name.PeerErrors(id)}
	if w.datagrams != nil {
		if p.remote, err = w.datagrams.Open(a.probe); err != nil {
			return err
		}
	}
	fd, err := dialPresence(ctx, a.presence, a.nonce, e.settings.silence)
	if err != nil {
		return err
	}
	sameHost := e.medium() == transport.MediumMemory
	if p.watch, err = e.watcher.AddSocket(fd, func() { w.peerGone(p, sameHost) }); err != nil {
		return err
	}
	if err := w.library.Connect(int(id), a.nonce, a.library); err != nil {
		e.watcher.Remove(p.watch)
		return fmt.Errorf("provider %s does not take the peer's address: %w",
			e.fabric.Provider, err)
	}
	w.peers.Add(id, a.nonce, p)
	return nil
}

// graceful is how many empty polls a worker makes before it reports a peer whose presence has
// ended, and busyGraceful how many of any kind, if other peers keep it busy. What the peer sent
// before is polled first.
const (
	graceful     = 64
	busyGraceful = 64 * graceful
)

// peerGone is called by the watcher.
func (w *worker) peerGone(p *peer, sameHost bool) {
	if sameHost {
		fi.ProcessDied()
	}
	p.gone.Store(true)
	w.gone.Add(1)
	if w.parking != nil {
		w.parking.Wake()
	}
}

// drainRounds is how often a closing worker makes progress. The reaper does the rest.
const drainRounds = 64

// Close implements [transport.Worker]. It goes on with what is queued, and then tells the peers.
// Payloads of the last Poll stay readable until the transport closes.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.library.BeginClose()
	if w.library.Drain(drainRounds) > 0 {
		w.endpoint.reaper.Add(w.library)
	}
	for _, p := range w.peers.ByID {
		if p != nil {
			w.endpoint.watcher.Remove(p.watch)
		}
	}
	return w.closePorts()
}

func (w *worker) closePorts() (err error) {
	if w.stream != nil {
		err = w.stream.Close()
	}
	if w.datagrams != nil {
		err = errors.Join(err, w.datagrams.Close())
		w.datagrams = nil
	}
	return err
}

// closeAll closes what Close has left, except for libfabric's objects and the payloads.
func (w *worker) closeAll() error {
	w.freed = true
	err := errors.Join(w.closePorts(), w.presence.close())
	if w.parking != nil {
		err = errors.Join(err, w.parking.Close())
	}
	return err
}

// Probe implements [transport.Prober]. The library is libfabric: two loops in C send messages with
// the payloads from endpoint to endpoint, without the ring, the calls into C, and Go. The floors of
// providers over TCP and UDP are the kernel's.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.closed, p != nil && p.state == peerUp, func() (transport.Floor, error) {
		switch {
		case probe.Kind == transport.ProbeLibrary:
			return w.probeLibrary(ctx, p, probe)
		case w.stream != nil:
			return w.stream.Probe(ctx, p.probe, probe)
		case w.datagrams != nil:
			return w.datagrams.Probe(ctx, p.remote, probe)
		}
		return transport.Floor{}, transport.ErrUnsupported
	})
}

func (w *worker) probeLibrary(ctx context.Context, p *peer, probe transport.Probe) (transport.Floor,
	error) {
	if probe.Forth < 0 || probe.Forth > w.limit || probe.Back < 0 || probe.Back > w.limit {
		return transport.Floor{}, fmt.Errorf("%w: payloads of %d and %d bytes, the limit is %d",
			transport.ErrUnsupported, probe.Forth, probe.Back, w.limit)
	}
	if !probe.Initiate {
		session, err := w.library.Follow(ctx, int(p.id), probe.Back, p.sessions.followed)
		p.sessions.followed = max(p.sessions.followed, session)
		return transport.Floor{}, err
	}
	p.sessions.led++
	trips, batch, err := w.library.Lead(ctx, int(p.id), p.sessions.led, probe.Forth, probe.Duration)
	return transport.Floor{
		Name:      "libfabric ping-pong in C over " + w.endpoint.fabric.Provider,
		RoundTrip: floor.Median(trips),
		Samples:   len(trips) * batch,
	}, err
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	var c fi.Counts
	if !w.freed {
		c = w.library.Counts()
	}
	// Enqueue copies each payload. What libfabric does itself cannot be counted.
	work := control.Work{Copies: w.counts.posted + c.Early, CopiedBytes: w.counts.bytes,
		Syscalls: w.counts.syscalls}
	return append(work.Append(dst),
		transport.Stat{Name: "posted", Help: "messages posted", Value: w.counts.posted},
		transport.Stat{Name: "polled", Help: "messages polled", Value: w.counts.polled},
		transport.Stat{Name: "full", Help: "posts that found no room", Value: w.counts.full},
		transport.Stat{Name: "crossings", Help: "calls into C", Value: w.counts.crossings},
		transport.Stat{Name: "crossings_empty", Help: "calls into C by polls that found nothing",
			Value: w.counts.empty},
		transport.Stat{Name: "injected", Help: "messages that libfabric copied at once",
			Value: c.Injected},
		transport.Stat{Name: "retried", Help: "messages that libfabric had no room for (FI_EAGAIN)",
			Value: c.Retried},
		transport.Stat{Name: "failed", Help: "operations that libfabric completed with an error",
			Value: c.Errors},
		transport.Stat{Name: "strangers",
			Help: "dropped messages that no connected peer can have sent", Value: c.Strangers},
		transport.Stat{Name: "parked", Help: "waits that slept", Value: w.counts.parked},
	)
}
