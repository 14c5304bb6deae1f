package ucxam

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

// missing is why nothing can be opened, in a build without UCX.
const missing = ucp.Missing

// Driver opens the transport over UCX.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: version,
		Summary:      "UCX active messages over shared memory, TCP or RDMA",
		Providers:    providers,
		Capabilities: capabilities,
		Limits:       transport.Limits{MaxPayload: maxPayload, InlineSize: smallPayload - ucp.HeaderSize - headerReserve, Peers: maxPeers},
		Options:      schema,
		Unavailable:  missing,
	}
}

// headerReserve is what UCX needs of 8 KiB for its own headers, at most.
const headerReserve = 128

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	if missing != "" {
		return nil, opFailed("open", transport.Unavailable("%s", missing))
	}
	s, err := resolve(cfg, ucp.Environ())
	if err != nil {
		return nil, opFailed("open", err)
	}
	r := &rank{settings: s, workers: make([]*worker, cfg.Workers)}
	if err := r.open(); err != nil {
		return nil, opFailed("open", err)
	}
	return r, nil
}

func opFailed(op string, err error) error { return transport.NewOpError(name, op, err) }

func opError(op string, id transport.PeerID, err error) error {
	return &transport.OpError{Transport: name, Op: op, Peer: id, Err: err}
}

// rank is the transport of one process.
type rank struct {
	settings *settings
	context  *ucp.Context
	lane     lane
	eager    int

	mu      sync.Mutex
	workers []*worker
	closed  bool
	reaper  reaper
}

// open opens UCX and rehearses a connection, so that the lane is known.
func (r *rank) open() error {
	s := r.settings
	var err error
	r.context, err = ucp.Open(s.checked, s.others, s.wakeUp, s.workers > 1)
	if err != nil {
		return s.explain(err)
	}
	if err = r.rehearse(); err != nil {
		r.context.Close()
	}
	return err
}

func (r *rank) rehearse() error {
	s := r.settings
	if err := s.checkResources(r.context.Info()); err != nil {
		return err
	}
	var err error
	if r.lane, err = s.rehearsedLane(r.context); err != nil {
		return err
	}
	r.eager = min(s.worker.Eager, s.worker.MaxPayload)
	return s.checkLane(r.lane)
}

// rehearsals are the lanes of this process's earlier rehearsals, by all that
// they depend on. Each costs two workers with all their memory.
var rehearsals sync.Map

func (s *settings) rehearsedLane(c *ucp.Context) (lane, error) {
	// The transport self reaches the worker that it is in, and no other.
	if names, all := asked(s.tls); !all && len(names) == 1 && names[0] == "self" {
		return lane{"self", "memory0"}, nil
	}
	key := fmt.Sprint(s.variables, s.wakeUp, s.worker.PeerErrors)
	if known, is := rehearsals.Load(key); is {
		return known.(lane), nil
	}
	info, err := c.Rehearse(s.worker.PeerErrors)
	if err != nil {
		return lane{}, s.explain(err)
	}
	l, err := laneOf(info)
	if err == nil {
		rehearsals.Store(key, l)
	}
	return l, err
}

// explain says which option an error of UCX's is about, as far as UCX tells.
func (s *settings) explain(err error) error {
	var setting *ucp.SettingError
	var status *ucp.Status
	switch {
	case errors.As(err, &setting):
		return &transport.OptionError{Option: optionOf(setting.Setting.Name), Problem: setting.Error()}
	case !errors.As(err, &status):
		return err
	case status.Code == ucp.StatusNoDevice:
		option := optionTLS
		if _, is := s.variables["NET_DEVICES"]; is {
			option = optionDevices
		}
		return refuse(option, "UCX has no usable device for UCX_TLS=%s on UCX_NET_DEVICES=%s: %v", s.tlsInForce(), s.inForce("NET_DEVICES"), err)
	case status.Code == ucp.StatusUnreachable && s.worker.PeerErrors:
		return refuse(optionTLS, "no transport among UCX_TLS=%s reaches another worker and tells of lost peers, as error-handling %s asks: %v",
			s.tlsInForce(), errorsPeer, err)
	case status.Code == ucp.StatusUnreachable:
		return refuse(optionTLS, "no transport among UCX_TLS=%s reaches another worker: %v", s.tlsInForce(), err)
	default:
		return transport.Unavailable("UCX %s with UCX_TLS=%s does not start; its own words are in the log: %w", ucp.Version(), s.tlsInForce(), err)
	}
}

// refuse is the error of an option for which UCX cannot run here.
func refuse(option, format string, args ...any) error {
	return fmt.Errorf("%w: %w", transport.ErrUnavailable,
		&transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)})
}

func (s *settings) inForce(variable string) string {
	if value, is := s.variables[variable]; is {
		return value
	}
	return knownVariables()[variable]
}

// Properties implements [transport.Transport]. The lane is the rehearsed one;
// Connect refuses any other.
func (r *rank) Properties() transport.Properties {
	s := r.settings
	notes := map[string]string{"lane": r.lane.String()}
	for name, value := range s.variables {
		notes[prefix+name] = value
	}
	return transport.Properties{
		Provider:     r.lane.transport,
		Capabilities: s.capabilities(),
		Limits:       transport.Limits{MaxPayload: s.worker.MaxPayload, InlineSize: r.eager, Peers: maxPeers},
		Libraries:    map[string]string{"ucx": ucp.Version()},
		Notes:        maps.Clone(notes),
	}
}

// NewWorker implements [transport.Transport].
func (r *rank) NewWorker(index int) (transport.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, opFailed("new worker", transport.ErrClosed)
	}
	if index < 0 || index >= len(r.workers) || r.workers[index] != nil {
		return nil, opFailed("new worker", fmt.Errorf("index %d is taken or outside 0 to %d", index, len(r.workers)-1))
	}
	w, err := newWorker(r)
	if err != nil {
		return nil, opFailed("new worker", r.settings.explain(err))
	}
	r.workers[index] = w
	if !r.settings.wakeUp {
		return w, nil
	}
	parking, err := newParkingWorker(w)
	if err != nil {
		return nil, opFailed("new worker", err)
	}
	return parking, nil
}

// Close implements [transport.Transport].
func (r *rank) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var errs []error
	for _, w := range r.workers {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	r.reaper.stop()
	for _, w := range r.workers {
		if w != nil {
			errs = append(errs, w.destroy())
		}
	}
	r.context.Close()
	return errors.Join(errs...)
}

// worker is one thread's UCX worker and its connections. ucxam_datapath.go has
// what the measured loop calls.
type worker struct {
	rank    *rank
	ucp     *ucp.Worker
	nonce   uint64
	address []byte
	limit   int // bytes of payload
	window  int // calls in flight on one connection

	peers   []*peer // by PeerID; nil where none is connected
	byNonce map[uint64]bool
	gone    []*peer // lost, and not told yet: those that broke the protocol

	park      *parking // nil without wake-up
	closed    bool
	destroyed bool
	counts    counts
}

// counts are what the shim does not count.
type counts struct{ posted, polled, full, crossings, empty, parked uint64 }

// peer is one connection.
type peer struct {
	id     transport.PeerID
	lane   lane
	state  peerState
	calls  int                            // posted and without a response
	owed   int                            // requests polled and without a reply
	probes struct{ led, followed uint32 } // sessions, the last one each way
	errors peerErrors
}

// peerErrors are made with the peer, since data paths do not allocate.
type peerErrors struct{ down, tooLarge, unsupported, noCall, corrupt error }

type peerState uint8

const (
	peerUp   peerState = iota
	peerCut            // broke the protocol; its loss is yet to be told
	peerGone           // told as lost
)

func newWorker(r *rank) (*worker, error) {
	w := &worker{
		rank: r, nonce: rand.Uint64() & ucp.NonceMask,
		limit: r.settings.worker.MaxPayload, window: r.settings.worker.Window,
		peers:   make([]*peer, r.settings.worker.Peers),
		gone:    make([]*peer, 0, r.settings.worker.Peers),
		byNonce: map[uint64]bool{},
	}
	var err error
	if w.ucp, err = r.context.NewWorker(r.settings.worker, w.nonce); err != nil {
		return nil, err
	}
	w.address = address{nonce: w.nonce, window: uint32(w.window), layout: r.settings.layout(), ucp: w.ucp.Address()}.encode()
	return w, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, encoded []byte) error {
	if w.closed {
		return opError("connect", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) {
		return opError("connect", id, fmt.Errorf("%w: the transport was opened for %d peers, numbered from 0", transport.ErrUnsupported, len(w.peers)))
	}
	if w.peers[id] != nil {
		return opError("connect", id, errors.New("already connected"))
	}
	a, err := decodeAddress(encoded)
	if err != nil {
		return opError("connect", id, err)
	}
	if w.byNonce[a.nonce] {
		return opError("connect", id, errors.New("the address is connected already"))
	}
	if int(a.window) != w.window {
		return opError("connect", id, fmt.Errorf("the peer was opened for %d calls in flight, this side for %d", a.window, w.window))
	}
	if a.layout != w.rank.settings.layout() {
		return opError("connect", id, errors.New("the peer has other values of UCX's variables for shared memory (UCX_POSIX_*, UCX_SYSV_*); set the same on all ranks"))
	}
	info, err := w.ucp.Connect(int(id), a.nonce, a.ucp)
	if err != nil {
		return opError("connect", id, w.rank.settings.explain(err))
	}
	w.byNonce[a.nonce] = true
	p := newPeer(id)
	w.peers[id] = p
	if p.lane, err = laneOf(info); err == nil && p.lane.transport != w.rank.lane.transport {
		err = transport.Unavailable("the transport was opened for %s, and UCX chose %s for this peer; set the options %q or %q to one that reaches all peers",
			w.rank.lane, p.lane, optionTLS, optionLane)
	}
	if err != nil {
		p.state = peerGone // which there is nothing to tell of
		w.ucp.Cut(int(id))
		return opError("connect", id, err)
	}
	return nil
}

func newPeer(id transport.PeerID) *peer {
	return &peer{id: id, errors: peerErrors{
		down:        opError("post", id, transport.ErrPeerDown),
		tooLarge:    opError("post", id, transport.ErrTooLarge),
		unsupported: opError("post", id, transport.ErrUnsupported),
		noCall:      opError("post", id, fmt.Errorf("reply: %w: no request of the peer is open", transport.ErrUnsupported)),
		corrupt:     opError("poll", id, transport.ErrCorrupt),
	}}
}

// drainRounds is how often a closing worker progresses by itself. What is not
// done then is left to the rank's reaper.
const drainRounds = 64

// Close implements [transport.Worker]. What was posted and not flushed is given
// up; what was flushed is still sent, before a farewell. Payloads handed out
// stay readable until the transport closes.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.ucp.Farewell()
	if w.ucp.Drain(drainRounds) > 0 {
		w.rank.reaper.add(w.ucp)
	}
	return nil
}

// destroy gives up what Close has left, payloads included.
func (w *worker) destroy() error {
	if w.destroyed {
		return nil
	}
	w.destroyed = true
	w.ucp.Destroy()
	if w.park != nil {
		return w.park.close()
	}
	return nil
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	var c ucp.Counts
	if !w.destroyed {
		c = w.ucp.Counts()
	}
	return append(dst,
		transport.Stat{Name: "posted", Help: "messages posted", Value: w.counts.posted},
		transport.Stat{Name: "polled", Help: "messages polled", Value: w.counts.polled},
		transport.Stat{Name: "full", Help: "posts that found no room", Value: w.counts.full},
		transport.Stat{Name: "crossings", Help: "calls into C", Value: w.counts.crossings},
		transport.Stat{Name: "crossings_empty", Help: "of them, polls that brought nothing", Value: w.counts.empty},
		transport.Stat{Name: "sends_pending", Help: "messages that UCX did not send at once", Value: c.Pended},
		transport.Stat{Name: "rendezvous", Help: "messages that were announced and fetched", Value: c.Rendezvous},
		transport.Stat{Name: "copied", Help: "payloads copied out of UCX's memory", Value: c.Copied},
		transport.Stat{Name: "kept", Help: "payloads read where UCX has them", Value: c.Kept},
		transport.Stat{Name: "strangers", Help: "messages dropped that no peer can have sent", Value: c.Strangers},
		transport.Stat{Name: "parked", Help: "waits that gave the core away", Value: w.counts.parked},
	)
}
