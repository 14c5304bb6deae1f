package ucxam

import (
	"context"
	"errors"
	"slices"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

var (
	_ transport.Worker = (*worker)(nil)
	_ transport.Prober = (*worker)(nil)
)

// worker is one thread's UCX worker and its connections.
type worker struct {
	amlib.Worker
	endpoint *endpoint
	ucp      *ucp.Worker
	nonce    uint64
	address  []byte

	stream *floor.StreamPort // for probes of TCP; nil if UCX does not send over it
}

// peer is what a worker keeps for a connection.
type peer struct {
	lane  lane
	info  string // UCX's description of the connection
	probe []byte // address of its port for probes
}

// noNonce is a nonce that no worker has. A worker may connect to itself: UCX's transport
// self allows nothing else.
const noNonce = 0

func newWorker(e *endpoint) (_ *worker, err error) {
	cfg := e.settings.worker
	// Over TCP each of UCX's messages is a system call, and then costs ten times a copy.
	cfg.Pack = e.lane.medium() == transport.MediumTCP
	w := &worker{endpoint: e, nonce: control.NewNonce()}
	if w.ucp, err = e.context.NewWorker(cfg, w.nonce); err != nil {
		return nil, e.settings.explain(err)
	}
	e.AddRegistered(w.ucp.Registered())
	defer func() {
		if err != nil {
			err = errors.Join(err, w.destroy())
		}
	}()
	if e.settings.wakeUp && w.ucp.Descriptor() < 0 {
		return nil, refuse(optionWakeUp, "UCX has no event descriptor for %s", e.lane)
	}
	err = w.Init(amlib.Config{Name: name, Peers: cfg.Peers, Window: cfg.Window,
		MaxPayload: cfg.MaxPayload,
		Own:        noNonce, Waits: e.settings.wakeUp}, &w.ucp.Queue, w.ucp)
	if err != nil {
		return nil, err
	}
	a := address{nonce: w.nonce, window: uint32(cfg.Window), layout: e.settings.layout(),
		ucp: w.ucp.Address()}
	if e.lane.medium() == transport.MediumTCP {
		if w.stream, err = e.lane.listen(); err != nil {
			return nil, err
		}
		a.probe = w.stream.Address()
	}
	w.address = a.encode()
	return w, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, encoded []byte) error {
	return name.PeerError("connect", id, w.connect(id, encoded))
}

func (w *worker) connect(id transport.PeerID, encoded []byte) error {
	a, err := decodeAddress(encoded)
	if err != nil {
		return err
	}
	if err := w.Check(id, a.nonce, a.window); err != nil {
		return err
	}
	if a.layout != w.endpoint.settings.layout() {
		return errors.New("the peer has other values of UCX's variables for shared memory " +
			"(UCX_POSIX_*, UCX_SYSV_*): set the same on all ranks")
	}
	info, err := w.ucp.Connect(int(id), a.nonce, a.ucp)
	if err != nil {
		return w.endpoint.settings.explain(err)
	}
	own := &peer{info: info, probe: slices.Clone(a.probe)}
	p := w.NewPeer(id, own)
	w.Enter(p, a.nonce)
	if own.lane, err = laneOf(info); err == nil && own.lane.transport != w.endpoint.lane.transport {
		err = transport.Unavailable("the transport was opened for %s and UCX chose %s for this "+
			"peer: set the option %q or %q to a transport that reaches all peers",
			w.endpoint.lane, own.lane, optionTLS, optionLane)
	}
	if err != nil {
		w.Refuse(p)
	}
	return err
}

// Close implements [transport.Worker]. It drops what was not flushed; UCX still sends what
// was, and then tells the peers. Payloads of the last Poll stay readable until the transport
// closes.
func (w *worker) Close() error {
	if !w.CloseLibrary(&w.endpoint.reaper) {
		return nil
	}
	return w.closeStream()
}

func (w *worker) closeStream() error {
	if w.stream == nil {
		return nil
	}
	return w.stream.Close()
}

// destroy frees what Close leaves, including payloads.
func (w *worker) destroy() error {
	first, err := w.Release()
	if !first {
		return nil
	}
	w.ucp.Destroy()
	return errors.Join(err, w.closeStream())
}

// Probe implements [transport.Prober]. The floors of a lane over TCP are the kernel's.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	return w.Measure(id, func(p *amlib.Peer) (transport.Floor, error) {
		own := p.Own.(*peer)
		switch probe.Kind {
		case transport.ProbeLibrary:
			// The loops in C do not support rendezvous, which UCX uses for longer messages.
			return w.ProbeLibrary(ctx, p, probe, "UCX ping-pong in C over "+own.lane.transport,
				w.ucp.ProbeLimit())
		case transport.ProbeMedium, transport.ProbeRate:
			if w.stream != nil {
				return w.stream.Probe(ctx, own.probe, probe)
			}
		}
		return transport.Floor{}, transport.ErrUnsupported
	})
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	var c ucp.Counts
	if !w.Released() {
		c = w.ucp.Counts()
	}
	// UCX's own work cannot be counted.
	return w.AppendStats(dst, control.Work{Copies: c.Copied + c.Packed,
		CopiedBytes: c.CopiedBytes + c.PackedBytes},
		transport.Stat{Name: "sends_pending", Means: transport.MeansShortage,
			Help:  "messages that UCX did not send at once",
			Value: c.Pended},
		transport.Stat{Name: "packed", Help: "messages that UCX sent as one with others",
			Value: c.Packed},
		transport.Stat{Name: "rendezvous", Help: "messages that were announced and then fetched",
			Value: c.Rendezvous},
		transport.Stat{Name: "copied", Help: "payloads copied out of UCX's memory",
			Value: c.Copied},
		transport.Stat{Name: "kept", Help: "payloads read in UCX's memory, without a copy",
			Value: c.Kept},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help: "dropped messages that no connected peer can have sent", Value: c.Strangers},
	)
}

// waitingWorker is a worker with the option wake-up.
type waitingWorker struct {
	*worker
	amlib.Waiter
}
