package amlib

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// Library is the control path of a worker of a shim.
type Library interface {
	control.Drainer
	// Cut ends the connection to a peer. An arrival of kind Lost follows.
	Cut(peer int)
	// Descriptor returns the descriptor that becomes readable when an armed worker has work, or -1
	// if there is none.
	Descriptor() int
	// Arm makes the descriptor readable with the next arrival. It returns false if there is work
	// already.
	Arm() bool
	// BeginClose begins to close the worker. Only Drain and Destroy may be called afterwards; Drain
	// sends what is still pending, and tells the peers that this worker closes.
	BeginClose()
	// Destroy frees all memory of the worker, including payloads, without waiting for peers.
	Destroy()
	// Lead measures round trips to a peer that follows, for about d after the first one, with size
	// bytes in a ping. It returns the mean of each batch of TripsPerBatch in nanoseconds. session
	// must exceed the session of any earlier probe.
	Lead(ctx context.Context, peer int, session uint32, size int, d time.Duration) (
		[]float64, error)
	// Follow answers the pings of a leader with size bytes until the leader ends its session, and
	// returns that session. It ignores sessions up to done.
	Follow(ctx context.Context, peer int, size int, done uint32) (session uint32, err error)
}

// Worker is one thread's worker of a library and its connections. A plugin's worker embeds it and
// adds Connect, Probe and ReadStats. worker_datapath.go holds the methods that the measured loop
// calls.
type Worker struct {
	name    control.Name
	queue   *Queue
	library Library
	limit   int // bytes of payload
	window  int // calls in flight on one connection

	// Peers are the connections.
	Peers control.Peers[Peer, uint64]
	lost  control.LostPeers // whose ErrCorrupt Poll has returned

	gone    atomic.Uint32 // calls of Gone
	handled uint32        // of them
	grace   int           // polls since they differ, empty ones with their weight

	parking  *control.Parking // nil if the worker cannot wait
	released bool
	counts   counts
}

// counts are the counters that the shims do not have.
type counts struct {
	posted, bytes, polled, full, crossings, empty, parked uint64
	syscalls                                              uint64
}

// Peer is one connection.
type Peer struct {
	ID  transport.PeerID
	Own any // what the plugin keeps for it

	state          peerState
	calls          int // posted, without a response
	pendingReplies int // requests polled, without a reply
	gone           atomic.Bool
	sessions       struct{ led, followed uint32 } // of library probes: the last in each role
	errors         control.PeerErrors
}

type peerState uint8

const (
	peerUp   peerState = iota
	peerCut            // broke the protocol or is gone; the shim will report its loss
	peerLost           // Poll has reported the loss, or LostPeers will
)

// Up reports whether the connection carries messages.
func (p *Peer) Up() bool { return p.state == peerUp }

// Config configures a Worker.
type Config struct {
	Name       control.Name // of the transport, in errors
	Peers      int
	Window     int // calls in flight on one connection
	MaxPayload int // bytes
	// nonce to which the worker cannot connect: its own, or 0 if it can connect to itself
	Own   uint64
	Waits bool // the worker is a [transport.Waiter]; see [Waiter]
}

// Init makes w the worker of a library and its queue.
func (w *Worker) Init(c Config, queue *Queue, library Library) (err error) {
	w.name, w.queue, w.library = c.Name, queue, library
	w.limit, w.window = c.MaxPayload, c.Window
	w.Peers = control.NewPeers[Peer](c.Peers, c.Peers, c.Own)
	w.lost = control.NewLostPeers(c.Peers)
	if c.Waits {
		w.parking, err = control.NewParking(library.Descriptor())
	}
	return err
}

// Check returns an error if Connect cannot use a number, a nonce and a window: the last is how many
// calls in flight the peer was opened for.
func (w *Worker) Check(id transport.PeerID, nonce uint64, window uint32) error {
	if err := w.Peers.Check(id, nonce); err != nil {
		return err
	}
	if int(window) != w.window {
		return fmt.Errorf("the peer was opened for %d calls in flight and this side for %d: open "+
			"all ranks with the same", window, w.window)
	}
	return nil
}

// NewPeer returns a connection for [Worker.Enter].
func (w *Worker) NewPeer(id transport.PeerID, own any) *Peer {
	return &Peer{ID: id, Own: own, errors: w.name.PeerErrors(id)}
}

// Enter enters a connection to the worker with this nonce.
func (w *Worker) Enter(p *Peer, nonce uint64) {
	w.Peers.Add(p.ID, nonce, p, w.limit, &p.errors)
}

// Refuse ends a connection with which Connect has failed. Poll does not report it.
func (w *Worker) Refuse(p *Peer) {
	w.end(p, peerLost)
	w.library.Cut(int(p.ID))
}

// Gone ends the connection to a peer whose process or worker is known to be gone, once some more
// polls have found what it sent before. Any thread may call it.
func (w *Worker) Gone(p *Peer) {
	p.gone.Store(true)
	w.gone.Add(1)
	if w.parking != nil {
		w.parking.Wake()
	}
}

// drainRounds is how often a closing worker makes progress. The reaper does the rest.
const drainRounds = 64

// CloseLibrary closes the worker: it sends what is flushed, and tells the peers. The reaper goes on
// with what takes longer. It returns false if it was called before. Payloads of the last Poll stay
// readable until Release.
func (w *Worker) CloseLibrary(reaper *control.Reaper) bool {
	if !w.Peers.Close() {
		return false
	}
	w.library.BeginClose()
	if w.library.Drain(drainRounds) > 0 {
		reaper.Add(w.library)
	}
	return true
}

// Release releases what CloseLibrary has left but the library's worker, which is destroyed later.
// It returns false if it was called before.
func (w *Worker) Release() (first bool, err error) {
	if w.released {
		return false, nil
	}
	w.released = true
	if w.parking != nil {
		err = w.parking.Close()
	}
	return true, err
}

// Released reports whether Release was called, after which the library's worker may be gone.
func (w *Worker) Released() bool { return w.released }

// Measure runs measure for a peer that is up; see [control.Name.Probe].
func (w *Worker) Measure(id transport.PeerID, measure func(p *Peer) (transport.Floor, error)) (
	transport.Floor, error) {
	p := w.Peers.Get(id)
	return w.name.Probe(id, w.Peers.Closed(), p != nil && p.Up(),
		func() (transport.Floor, error) { return measure(p) })
}

// ProbeLibrary measures the library: two loops in C send messages with the payloads of the probe
// from worker to worker, without the ring, the calls into C, and Go. floorName names the floor.
// limit is the size in bytes of the largest payload.
func (w *Worker) ProbeLibrary(ctx context.Context, p *Peer, probe transport.Probe, floorName string,
	limit int) (transport.Floor, error) {
	if probe.Forth < 0 || probe.Forth > limit || probe.Back < 0 || probe.Back > limit {
		return transport.Floor{},
			fmt.Errorf("%w: payloads of %d and %d bytes; a probe of the library has at most %d",
				transport.ErrUnsupported, probe.Forth, probe.Back, limit)
	}
	if !probe.Initiate {
		session, err := w.library.Follow(ctx, int(p.ID), probe.Back, p.sessions.followed)
		p.sessions.followed = max(p.sessions.followed, session)
		return transport.Floor{}, err
	}
	p.sessions.led++
	trips, err := w.library.Lead(ctx, int(p.ID), p.sessions.led, probe.Forth, probe.Duration)
	return transport.Floor{Name: floorName, RoundTrip: floor.Median(trips),
		Samples: len(trips) * TripsPerBatch}, err
}

// AppendStats appends the counters of the worker and those of the library. work is what the library
// is known to do for the messages besides one copy of each payload, which Post makes.
func (w *Worker) AppendStats(dst []transport.Stat, work control.Work,
	library ...transport.Stat) []transport.Stat {
	c := &w.counts
	work = work.Plus(control.Work{Copies: c.posted, CopiedBytes: c.bytes, Syscalls: c.syscalls})
	dst = append(work.Append(dst),
		transport.Stat{Name: "posted", Help: "messages posted", Value: c.posted},
		transport.Stat{Name: "polled", Help: "messages polled", Value: c.polled},
		transport.Stat{Name: "full", Means: transport.MeansShortage,
			Help: "posts that found no room", Value: c.full},
		transport.Stat{Name: "crossings", Help: "calls into C", Value: c.crossings},
		transport.Stat{Name: "crossings_empty", Help: "calls into C by polls that found nothing",
			Value: c.empty},
	)
	return append(append(dst, library...),
		transport.Stat{Name: "parked", Help: "waits that slept", Value: c.parked})
}

// Waiter adds the methods of [transport.Waiter] to a worker with Config.Waits.
type Waiter struct{ W *Worker }

var _ transport.Waiter = Waiter{}

// Wait implements [transport.Waiter].
func (r Waiter) Wait(timeout time.Duration) error {
	w := r.W
	if w.Peers.Closed() {
		return w.name.Error("wait", transport.ErrClosed)
	}
	w.counts.crossings++
	if w.lost.Len() > 0 || w.gone.Load() != w.handled || w.queue.Ready() > 0 || !w.library.Arm() {
		return nil
	}
	w.counts.parked++
	calls, err := w.parking.Sleep(timeout)
	w.counts.syscalls += calls
	return w.name.Error("wait", err)
}

// Wake implements [transport.Waiter].
func (r Waiter) Wake() { r.W.parking.Wake() }
