package ucxam

import (
	"context"
	"errors"
	"fmt"
	"slices"

	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

var (
	_ transport.Worker = (*worker)(nil)
	_ transport.Prober = (*worker)(nil)
)

// worker is one thread's UCX worker and its connections. worker_datapath.go has the methods
// that the measured loop calls.
type worker struct {
	endpoint *endpoint
	ucp      *ucp.Worker
	nonce    uint64
	address  []byte
	limit    int // bytes of payload
	window   int // calls in flight on one connection

	peers control.Peers[peer, uint64]
	lost  control.LostPeers // whose ErrCorrupt Poll has returned

	stream    *floor.StreamPort // for probes of TCP; nil if UCX does not send over it
	parking   *control.Parking  // nil without the option wake-up
	closed    bool
	destroyed bool
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
	lane           lane
	info           string // UCX's description of the connection
	probe          []byte // address of its port for probes
	state          peerState
	calls          int                            // posted, without a response
	pendingReplies int                            // requests polled, without a reply
	sessions       struct{ led, followed uint32 } // of floor probes: the last in each role
	errors         control.PeerErrors
}

type peerState uint8

const (
	peerUp   peerState = iota
	peerCut            // broke the protocol; the shim will report its loss
	peerLost           // Poll has reported the loss, or LostPeers will
)

// noNonce is a nonce that no worker has. A worker may connect to itself: UCX's transport
// self allows nothing else.
const noNonce = 0

func newWorker(e *endpoint) (*worker, error) {
	cfg := e.settings.worker
	w := &worker{
		endpoint: e, nonce: control.NewNonce(), limit: cfg.MaxPayload, window: cfg.Window,
		peers: control.NewPeers[peer, uint64](cfg.Peers, noNonce),
		lost:  control.NewLostPeers(cfg.Peers),
	}
	var err error
	if w.ucp, err = e.context.NewWorker(cfg, w.nonce); err != nil {
		return nil, e.settings.explain(err)
	}
	e.AddRegistered(w.ucp.Registered())
	if e.settings.wakeUp {
		if w.ucp.Descriptor() < 0 {
			return nil, errors.Join(refuse(optionWakeUp, "UCX has no event descriptor for %s",
				e.lane), w.destroy())
		}
		if w.parking, err = control.NewParking(w.ucp.Descriptor()); err != nil {
			return nil, errors.Join(err, w.destroy())
		}
	}
	a := address{nonce: w.nonce, window: uint32(w.window), layout: e.settings.layout(),
		ucp: w.ucp.Address()}
	if e.lane.medium() == transport.MediumTCP {
		if w.stream, err = e.lane.listen(); err != nil {
			return nil, errors.Join(err, w.destroy())
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
	if int(a.window) != w.window {
		return fmt.Errorf("the peer was opened for %d calls in flight and this side for %d: open "+
			"all ranks with the same", a.window, w.window)
	}
	if a.layout != w.endpoint.settings.layout() {
		return errors.New("the peer has other values of UCX's variables for shared memory " +
			"(UCX_POSIX_*, UCX_SYSV_*): set the same on all ranks")
	}
	info, err := w.ucp.Connect(int(id), a.nonce, a.ucp)
	if err != nil {
		return w.endpoint.settings.explain(err)
	}
	p := &peer{id: id, info: info, probe: slices.Clone(a.probe), errors: name.PeerErrors(id)}
	w.peers.Add(id, a.nonce, p)
	if p.lane, err = laneOf(info); err == nil && p.lane.transport != w.endpoint.lane.transport {
		err = transport.Unavailable("the transport was opened for %s and UCX chose %s for this "+
			"peer: set the option %q or %q to a transport that reaches all peers",
			w.endpoint.lane, p.lane, optionTLS, optionLane)
	}
	if err != nil {
		p.state = peerLost // never connected, so Poll does not report it
		w.ucp.Cut(int(id))
	}
	return err
}

// drainRounds is how often a closing worker progresses. The reaper does the rest.
const drainRounds = 64

// Close implements [transport.Worker]. It drops what was not flushed; UCX still sends what
// was, and then tells the peers. Payloads of the last Poll stay readable until the transport
// closes.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.ucp.BeginClose()
	if w.ucp.Drain(drainRounds) > 0 {
		w.endpoint.reaper.Add(w.ucp)
	}
	return w.closeStream()
}

func (w *worker) closeStream() error {
	if w.stream == nil {
		return nil
	}
	return w.stream.Close()
}

// destroy frees what Close has left, including payloads.
func (w *worker) destroy() error {
	if w.destroyed {
		return nil
	}
	w.destroyed = true
	w.ucp.Destroy()
	err := w.closeStream()
	if w.parking != nil {
		err = errors.Join(err, w.parking.Close())
	}
	return err
}

// Probe implements [transport.Prober]. The library is UCX: two loops in C send messages with the
// payloads over the connection's lane, without the ring, the calls into C, and Go. The floors of a
// lane over TCP are the kernel's.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.closed, p != nil && p.state == peerUp, func() (transport.Floor, error) {
		if probe.Kind == transport.ProbeMedium || probe.Kind == transport.ProbeRate {
			if w.stream == nil {
				return transport.Floor{}, transport.ErrUnsupported
			}
			return w.stream.Probe(ctx, p.probe, probe)
		}
		if probe.Kind != transport.ProbeLibrary {
			return transport.Floor{}, transport.ErrUnsupported
		}
		// A longer message is announced and fetched, which the loops in C leave out.
		if most := w.ucp.ProbeLimit(); probe.Forth < 0 || probe.Forth > most || probe.Back < 0 ||
			probe.Back > most {
			return transport.Floor{},
				fmt.Errorf("%w: UCX fetches payloads of more than %[4]d bytes, and these have "+
					"%[2]d and %[3]d",
					transport.ErrUnsupported, probe.Forth, probe.Back, most)
		}
		if !probe.Initiate {
			session, err := w.ucp.Follow(ctx, int(id), probe.Back, p.sessions.followed)
			p.sessions.followed = max(p.sessions.followed, session)
			return transport.Floor{}, err
		}
		p.sessions.led++
		trips, batch, err := w.ucp.Lead(ctx, int(id), p.sessions.led, probe.Forth, probe.Duration)
		return transport.Floor{
			Name:      "UCX ping-pong in C over " + p.lane.transport,
			RoundTrip: floor.Median(trips),
			Samples:   len(trips) * batch,
		}, err
	})
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	var c ucp.Counts
	if !w.destroyed {
		c = w.ucp.Counts()
	}
	// Enqueue copies each payload. What UCX does itself cannot be counted.
	work := control.Work{Copies: w.counts.posted + c.Copied, CopiedBytes: w.counts.bytes +
		c.CopiedBytes, Syscalls: w.counts.syscalls}
	return append(work.Append(dst),
		transport.Stat{Name: "posted", Help: "messages posted", Value: w.counts.posted},
		transport.Stat{Name: "polled", Help: "messages polled", Value: w.counts.polled},
		transport.Stat{Name: "full", Help: "posts that found no room", Value: w.counts.full},
		transport.Stat{Name: "crossings", Help: "calls into C", Value: w.counts.crossings},
		transport.Stat{Name: "crossings_empty", Help: "calls into C by polls that found nothing",
			Value: w.counts.empty},
		transport.Stat{Name: "sends_pending", Help: "messages that UCX did not send at once",
			Value: c.Pended},
		transport.Stat{Name: "rendezvous", Help: "messages that were announced and then fetched",
			Value: c.Rendezvous},
		transport.Stat{Name: "copied", Help: "payloads copied out of UCX's memory",
			Value: c.Copied},
		transport.Stat{Name: "kept", Help: "payloads read in UCX's memory, without a copy",
			Value: c.Kept},
		transport.Stat{Name: "strangers",
			Help: "dropped messages that no connected peer can have sent", Value: c.Strangers},
		transport.Stat{Name: "parked", Help: "waits that slept", Value: w.counts.parked},
	)
}
