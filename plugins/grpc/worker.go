package grpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

var (
	_ transport.Worker     = (*worker)(nil)
	_ transport.Waiter     = (*worker)(nil)
	_ transport.PathReader = (*worker)(nil)
)

// worker is the gRPC server of one polling loop, and its connections. worker_datapath.go has what
// the measured loop calls.
type worker struct {
	settings    *settings
	nonce       uint64
	token       []byte
	certificate *tls.Certificate // nil without TLS
	address     []byte

	inbox inbox
	peers control.Peers[peer, uint64]
	lost  control.LostPeers
	held  []*message // with payloads that the last Poll returned
	dirty []*peer    // with messages for Flush to send

	door   *door
	server *gogrpc.Server
	probes *floor.StreamPort
	pings  pings
	ctx    context.Context // ends when the worker closes
	cancel context.CancelFunc
	group  sync.WaitGroup // of the worker's goroutines
	counts counts

	mu       sync.Mutex
	arrivals map[uint64]*arrival // by nonce
}

// arrival lets the streams and calls of a worker wait until Connect names the worker.
type arrival struct {
	ready chan struct{} // closed when peer is set
	peer  *peer
}

// peer is one connection.
type peer struct {
	worker  *worker
	id      transport.PeerID
	address *address
	errors  control.PeerErrors
	state   peerState
	dirty   bool // in worker.dirty
	calls   int  // without a response
	open    int  // requests of a stream without a reply

	out      *outbox   // of a stream
	callers  *callers  // of unary calls
	requests *requests // of unary calls

	ctx       context.Context // ends with the connection
	cancel    context.CancelCauseFunc
	client    *gogrpc.ClientConn       // nil if the peer dials
	dialled   atomic.Pointer[net.Conn] // what client uses
	accepted  atomic.Pointer[net.Conn]
	patience  *time.Timer
	up        atomic.Bool
	streaming atomic.Bool
	ended     atomic.Bool
	waiting   [kindReply]atomic.Int64 // messages of each kind in the inbox
}

type peerState uint8

const (
	peerUp peerState = iota
	peerLost
)

// random returns n random bytes.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func newWorker(s *settings) (w *worker, err error) {
	w = &worker{
		settings: s, nonce: control.NewNonce(), token: random(tokenSize),
		arrivals: map[uint64]*arrival{}, pings: newPings(),
		lost: control.NewLostPeers(s.peers), dirty: make([]*peer, 0, s.peers),
	}
	w.inbox.init()
	w.peers = control.NewPeers[peer](maxPeers, s.peers, w.nonce)
	a := address{Layout: s.layout(), Nonce: w.nonce, InFlight: s.inFlight, Token: w.token}
	if s.tls {
		if w.certificate, err = certify(); err != nil {
			return nil, err
		}
		a.Certificate = w.certificate.Certificate[0]
	}
	// A Unix socket whose name begins with @ has no file (unix(7), abstract).
	network, at := "unix", "@transportbench-grpc-"+hex.EncodeToString(random(8))
	if s.network == networkTCP {
		network, at = "tcp", net.JoinHostPort(s.address.String(), "0")
		w.probes, err = floor.ListenStream(s.address)
	} else {
		w.probes, err = floor.ListenUnixStream()
	}
	if err != nil {
		return nil, err
	}
	a.Probe = w.probes.Address()
	listener, err := net.Listen(network, at)
	if err != nil {
		err = errors.Join(err, w.probes.Close())
		return nil, transport.Unavailable("%w", &transport.OptionError{Option: "address",
			Problem: err.Error()})
	}
	a.At = listener.Addr().String()
	w.address = a.encode()
	w.door = &door{Listener: listener}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.server = gogrpc.NewServer(s.serverOptions(&acceptor{own: w.certificate, token: w.token,
		door: w.door})...)
	w.server.RegisterService(&serviceDesc, w)
	w.group.Go(func() { _ = w.server.Serve(w.door) }) // returns when the worker closes
	return w, nil
}

// prefaceTimeout bounds the time from accept until gRPC's own preface has arrived.
const prefaceTimeout = 10 * time.Second

func (s *settings) serverOptions(a *acceptor) []gogrpc.ServerOption {
	list := []gogrpc.ServerOption{
		gogrpc.Creds(a), gogrpc.ForceServerCodecV2(s.codec),
		gogrpc.MaxRecvMsgSize(s.messageLimit()),
		gogrpc.WriteBufferSize(s.writeBuffer), gogrpc.ReadBufferSize(s.readBuffer),
		gogrpc.NumStreamWorkers(s.streamWorkers), gogrpc.ConnectionTimeout(prefaceTimeout),
		gogrpc.WaitForHandlers(true),
		gogrpc.KeepaliveParams(keepalive.ServerParameters{Time: s.keepalive,
			Timeout: s.keepaliveTimeout}),
		gogrpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second,
			PermitWithoutStream: true}),
	}
	if s.streamWindow > 0 {
		list = append(list, gogrpc.InitialWindowSize(s.streamWindow))
	}
	if s.connectionWindow > 0 {
		list = append(list, gogrpc.InitialConnWindowSize(s.connectionWindow))
	}
	if s.maxStreams > 0 {
		list = append(list, gogrpc.MaxConcurrentStreams(s.maxStreams))
	}
	return list
}

// dial returns a client of the worker with this address.
func (w *worker) dial(a *address, open func(ctx context.Context) (net.Conn, error)) (
	*gogrpc.ClientConn, error) {
	s := w.settings
	list := []gogrpc.DialOption{
		gogrpc.WithTransportCredentials(
			&dialler{own: w.certificate, preface: appendPreface(nil, a.Token, w.nonce),
				peer: a.Certificate}),
		gogrpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return open(ctx)
		}),
		gogrpc.WithDefaultCallOptions(gogrpc.ForceCodecV2(s.codec),
			gogrpc.MaxCallRecvMsgSize(s.messageLimit()),
			gogrpc.MaxCallSendMsgSize(s.messageLimit())),
		gogrpc.WithWriteBufferSize(s.writeBuffer), gogrpc.WithReadBufferSize(s.readBuffer),
		gogrpc.WithKeepaliveParams(keepalive.ClientParameters{Time: s.keepalive,
			Timeout: s.keepaliveTimeout, PermitWithoutStream: true}),
		gogrpc.WithConnectParams(gogrpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6,
				Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: prefaceTimeout,
		}),
		gogrpc.WithDisableRetry(), gogrpc.WithDisableServiceConfig(), gogrpc.WithNoProxy(),
		gogrpc.WithIdleTimeout(0),
	}
	if s.streamWindow > 0 {
		list = append(list, gogrpc.WithInitialWindowSize(s.streamWindow))
	}
	if s.connectionWindow > 0 {
		list = append(list, gogrpc.WithInitialConnWindowSize(s.connectionWindow))
	}
	return gogrpc.NewClient("passthrough:///transportbench", list...)
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
	if err := w.peers.Check(id, a.Nonce); err != nil {
		return err
	}
	s := w.settings
	if a.Layout != s.layout() || a.InFlight != s.inFlight {
		return fmt.Errorf("the peer was opened with %s and %d calls in flight, and this side "+
			"with %s and %d: open all ranks with the same",
			a.Layout, a.InFlight, s.layout(), s.inFlight)
	}
	p := &peer{worker: w, id: id, address: a, errors: name.PeerErrors(id)}
	p.ctx, p.cancel = context.WithCancelCause(w.ctx)
	if s.unary {
		p.callers, p.requests = newCallers(s.inFlight), newRequests(s.inFlight)
	} else {
		p.out = newOutbox(s.inFlight, !s.codec.protobuf)
	}
	if s.unary || w.nonce < a.Nonce {
		if p.client, err = w.dial(a, p.openSocket); err != nil {
			p.cancel(err)
			return err
		}
	}
	p.patience = time.AfterFunc(s.connectTimeout, func() {
		if !p.up.Load() {
			p.fail(fmt.Errorf("no connection within %v (connect-timeout)", s.connectTimeout))
		}
	})
	w.peers.Add(id, a.Nonce, p, s.payload, &p.errors)
	switch {
	case s.unary:
		w.group.Go(p.watch)
	case p.client != nil:
		w.group.Go(p.openStream)
	}
	arrival, err := w.arrival(a.Nonce, true)
	if err != nil {
		return err
	}
	arrival.peer = p
	close(arrival.ready)
	return nil
}

// arrival returns the arrival of the worker with this nonce. It bounds the arrivals that Connect
// has not named.
func (w *worker) arrival(nonce uint64, named bool) (*arrival, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.arrivals[nonce]
	if a == nil {
		if !named && len(w.arrivals) >= w.settings.peers+maxStrange {
			return nil, status.Error(codes.ResourceExhausted,
				"too many connections that are not expected")
		}
		a = &arrival{ready: make(chan struct{})}
		w.arrivals[nonce] = a
	}
	return a, nil
}

// identityOf returns the identity of the sender of a stream or call.
func identityOf(ctx context.Context) (*identity, error) {
	if from, ok := grpcpeer.FromContext(ctx); ok {
		if id, ok := from.AuthInfo.(*identity); ok {
			return id, nil
		}
	}
	return nil, status.Error(codes.Unauthenticated, errStranger.Error())
}

// admit returns the peer that a stream or call comes from. It waits until Connect names it.
func (w *worker) admit(ctx context.Context) (*peer, error) {
	id, err := identityOf(ctx)
	if err != nil {
		return nil, err
	}
	if p := id.peer.Load(); p != nil {
		return p, nil
	}
	a, err := w.arrival(id.nonce, false)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.ctx.Done():
		return nil, status.Error(codes.Unavailable, transport.ErrClosed.Error())
	}
	p := a.peer
	if w.settings.tls && !bytes.Equal(id.certificate, p.address.Certificate) {
		return nil, status.Error(codes.Unauthenticated,
			"the certificate is not the one in the address")
	}
	// A peer calls over one connection. A second one with its preface is a replay.
	if !p.accepted.CompareAndSwap(nil, &id.raw) && p.accepted.Load() != &id.raw {
		_ = id.raw.Close()
		w.door.strangers.Add(1)
		return nil, status.Error(codes.AlreadyExists, "the peer is connected already")
	}
	if p.ended.Load() { // disconnect may have run before the store and missed the socket
		p.disconnect()
		return nil, status.Error(codes.Unavailable, "the connection has ended")
	}
	id.peer.Store(p)
	return p, nil
}

// openSocket dials the peer for its client.
func (p *peer) openSocket(ctx context.Context) (net.Conn, error) {
	if p.ended.Load() {
		return nil, net.ErrClosed
	}
	conn, err := dialSocket(ctx, p.worker.settings.network, p.address.At)
	if refused(err) {
		p.fail(err)
	}
	if err != nil {
		return nil, err
	}
	p.dialled.Store(&conn)
	if p.ended.Load() {
		p.disconnect()
	}
	return conn, nil
}

// fail ends a connection. The worker reports the loss after the messages that have arrived.
func (p *peer) fail(err error) {
	if !p.ended.CompareAndSwap(false, true) {
		return
	}
	p.cancel(err)
	p.disconnect()
	p.worker.inbox.push(newMessage(p, kindLost))
}

// disconnect closes the sockets of a connection. gRPC's Close would wait until its GOAWAY is
// written.
func (p *peer) disconnect() {
	for _, c := range []*atomic.Pointer[net.Conn]{&p.dialled, &p.accepted} {
		if conn := c.Load(); conn != nil {
			_ = (*conn).Close()
		}
	}
}

// cause returns why a connection has ended, or nil.
func (p *peer) cause() error { return context.Cause(p.ctx) }

// Silence implements [transport.PathReader].
func (w *worker) Silence(id transport.PeerID) error {
	p := w.peers.Get(id)
	switch {
	case p == nil:
		return nil
	case p.ended.Load():
		return fmt.Errorf("the connection with %s: %w", p.address.At, p.cause())
	case !p.up.Load():
		return fmt.Errorf("no connection with %s yet (connect-timeout is %v)", p.address.At,
			w.settings.connectTimeout)
	}
	return nil
}

// Close implements [transport.Worker].
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	w.cancel()
	var errs []error
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		p.ended.Store(true)
		p.patience.Stop()
		p.disconnect()
		if p.client != nil {
			errs = append(errs, p.client.Close())
		}
	}
	w.server.Stop()
	w.inbox.timer.Stop()
	w.group.Wait()
	errs = append(errs, w.probes.Close())
	return errors.Join(errs...)
}

// counts are the worker's counters.
type counts struct {
	posted, bytes, polled, full, wakes, parked uint64
	// that the codec made on receipt, and their bytes
	copies, copied uint64
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &w.counts
	work := control.Work{Copies: c.posted + c.copies, CopiedBytes: c.bytes + c.copied,
		Doorbells: c.wakes}
	if w.settings.codec.protobuf { // Marshal copies the slot
		work.Copies += c.posted
		work.CopiedBytes += c.bytes
	}
	return append(work.Append(dst),
		transport.Stat{Name: "posted", Help: "messages posted", Value: c.posted},
		transport.Stat{Name: "polled", Help: "messages polled", Value: c.polled},
		transport.Stat{Name: "full", Means: transport.MeansShortage,
			Help: "posts that found no room", Value: c.full},
		transport.Stat{Name: "parked",
			Help:  "waits in which the loop gave its processor to other goroutines",
			Value: c.parked},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help:  "connections that were refused because they had not the worker's token",
			Value: w.door.strangers.Load()},
	)
}
