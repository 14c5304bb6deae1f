package ofi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

var (
	_ transport.Worker = (*worker)(nil)
	_ transport.Prober = (*worker)(nil)
)

// worker is one thread's endpoint of libfabric and its connections.
type worker struct {
	amlib.Worker
	endpoint *endpoint
	library  *fi.Worker
	nonce    uint64
	address  []byte

	presence  *presence
	stream    *floor.StreamPort // for probes of TCP, or nil
	datagrams *datagram.UDP     // for probes of UDP, or nil
}

// peer is what a worker keeps for a connection.
type peer struct {
	probe   []byte // address of its port for probes
	library []byte // libfabric's address
	remote  datagram.Remote
	watch   int // handle of the watcher
}

func newWorker(e *endpoint) (_ *worker, err error) {
	cfg := e.settings.worker
	w := &worker{endpoint: e, nonce: control.NewNonce()}
	if w.library, err = e.newLibraryWorker(w.nonce); err != nil {
		return nil, err
	}
	e.AddRegistered(w.library.Registered())
	defer func() {
		if err != nil {
			err = errors.Join(err, w.release())
			w.library.Destroy()
		}
	}()
	if cfg.WakeUp && w.library.Descriptor() < 0 {
		return nil, e.noDescriptor()
	}
	err = w.Init(amlib.Config{Name: name, Peers: cfg.Peers, Window: cfg.Window,
		MaxPayload: cfg.MaxPayload,
		Own:        w.nonce, Waits: cfg.WakeUp}, &w.library.Queue, w.library)
	if err != nil {
		return nil, err
	}
	at := e.presenceAddress()
	if w.presence, err = newPresence(at, w.nonce, cfg.Peers, e.settings.silence); err != nil {
		return nil, err
	}
	a := address{
		nonce: w.nonce, window: uint32(cfg.Window), small: uint32(cfg.Small),
		maximum:  uint64(cfg.MaxPayload),
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
	a, err := decodeAddress(encoded)
	if err != nil {
		return err
	}
	if err := w.Check(id, a.nonce, a.window); err != nil {
		return err
	}
	e := w.endpoint
	cfg := &e.settings.worker
	switch {
	case a.provider != e.fabric.Provider:
		return fmt.Errorf(
			"the peer uses provider %s and this side %s: set the option %q on all ranks",
			a.provider, e.fabric.Provider, optionProvider)
	case int(a.small) != cfg.Small || int(a.maximum) != cfg.MaxPayload:
		return fmt.Errorf("the peer was opened for plain messages of %d bytes and payloads of "+
			"%d, and this side for %d and %d: open all ranks with the same",
			a.small, a.maximum, cfg.Small, cfg.MaxPayload)
	case len(a.library) != len(w.library.Address()) && e.fabric.Format != fi.FormatText:
		return errors.New("the peer's address of libfabric has another length: use the same " +
			"version of libfabric on all ranks")
	}
	own := &peer{probe: a.probe, library: slices.Clone(a.library)}
	p := w.NewPeer(id, own)
	if w.datagrams != nil {
		if own.remote, err = w.datagrams.Open(a.probe); err != nil {
			return err
		}
	}
	fd, err := dialPresence(ctx, a.presence, a.nonce, e.settings.silence)
	if err != nil {
		return err
	}
	sameHost := e.medium() == transport.MediumMemory
	own.watch, err = e.watcher.AddSocket(fd, func() {
		if sameHost {
			fi.ProcessDied()
		}
		w.Gone(p)
	})
	if err != nil {
		return err
	}
	if err := w.library.Connect(int(id), a.nonce, a.library); err != nil {
		e.watcher.Remove(own.watch)
		return fmt.Errorf("provider %s does not take the peer's address: %w",
			e.fabric.Provider, err)
	}
	w.Enter(p, a.nonce)
	return nil
}

// Close implements [transport.Worker]. It goes on with what is queued, and then tells the peers.
// Payloads of the last Poll stay readable until the transport closes.
func (w *worker) Close() error {
	if !w.CloseLibrary(&w.endpoint.reaper) {
		return nil
	}
	for _, p := range w.Peers.ByID {
		if p != nil {
			w.endpoint.watcher.Remove(p.Own.(*peer).watch)
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

// release frees what Close leaves, except libfabric's objects and the payloads.
func (w *worker) release() error {
	first, err := w.Release()
	if !first {
		return nil
	}
	if w.presence != nil {
		err = errors.Join(err, w.presence.close())
	}
	return errors.Join(err, w.closePorts())
}

// Probe implements [transport.Prober]. The floors of providers over TCP and UDP are the kernel's.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	return w.Measure(id, func(p *amlib.Peer) (transport.Floor, error) {
		own := p.Own.(*peer)
		switch {
		case probe.Kind == transport.ProbeLibrary:
			return w.ProbeLibrary(ctx, p, probe, "libfabric ping-pong in C over "+
				w.endpoint.fabric.Provider,
				w.endpoint.settings.worker.MaxPayload)
		case w.stream != nil:
			return w.stream.Probe(ctx, own.probe, probe)
		case w.datagrams != nil:
			return w.datagrams.Probe(ctx, own.remote, probe)
		}
		return transport.Floor{}, transport.ErrUnsupported
	})
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	var c fi.Counts
	if !w.Released() {
		c = w.library.Counts()
	}
	// libfabric's own work cannot be counted.
	return w.AppendStats(dst, control.Work{Copies: c.Early},
		transport.Stat{Name: "injected", Help: "messages that libfabric copied at once",
			Value: c.Injected},
		transport.Stat{Name: "gathered", Help: "large messages that were sent as one with others",
			Value: c.Gathered},
		transport.Stat{Name: "retried", Help: "messages that libfabric had no room for (FI_EAGAIN)",
			Value: c.Retried},
		transport.Stat{Name: "failed", Help: "operations that libfabric completed with an error",
			Value: c.Errors},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help: "dropped messages that no connected peer can have sent", Value: c.Strangers},
	)
}

// waitingWorker is a worker with the option wake-up.
type waitingWorker struct {
	*worker
	amlib.Waiter
}
