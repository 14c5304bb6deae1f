package erpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// worker is one thread's port and its sessions. The files *_datapath.go have what the
// measured loop calls, handshake.go how sessions come about.
type worker struct {
	settings *settings
	port     datagram.Port
	waiter   datagram.Waiter // nil where the port cannot wait
	heart    *heart
	clock    func() int64 // nanoseconds, from any beginning
	unit     int          // bytes of data in a packet
	credits  int          // of a session
	nonce    uint64       // tells this worker from every other
	key      uint32       // for packets of the handshake
	address  []byte

	peers    []*session          // by PeerID; nil where none is connected
	sessions []*session          // by the number in packets; nil where it is free
	byNonce  map[uint64]*session // by the nonce of the peer's worker
	gone     []*session          // lost, and not told yet
	told     []*session          // lost and told: their places are free soon
	broken   []*session          // cut off, and the error not returned yet

	packets  []datagram.Packet // of the last Receive
	next     int               // of packets that comes next
	received int               // packets
	pending  bool              // sent to since the last flush of the port
	head     [headerSize]byte
	wheel    *wheel
	polled   int64  // when the last Poll was
	scanAt   int64  // when timers are looked at next
	first    *slot  // of those that wait for answers
	deaths   uint32 // heart.deaths as last seen
	missing  int    // sessions without a connection

	closed bool
	counts counts
}

// state is where a session is.
type state uint8

const (
	connecting state = iota
	up
	lost
)

// session is one connection, seen from here.
type session struct {
	id     transport.PeerID
	state  state
	number uint16 // in packets that come
	key    uint32 // of packets that come
	nonce  uint64 // of the peer's worker
	greet  uint32 // key of handshake packets that go there
	remote datagram.Remote
	source datagram.Source
	watch  *watch

	// Known from the handshake.
	there    uint16 // number in packets that go
	thereKey uint32 // key of packets that go

	helloAt    int64 // when the next handshake packet goes
	helloAfter int64
	patience   int64 // when a handshake without an answer is given up

	// The client's side.
	credits  int
	total    int // credits when none is used
	inWheel  int // packets of both sides
	slots    []slot
	free     []int32 // slots that have no call
	want     fifo    // slots that have something to send
	backlog  fifo    // calls that wait for a slot
	calls    []call
	spare    []int32 // calls that are not in use
	timely   timely
	sendAt   int64 // when the rate lets the next packet go
	requests []byte
	answers  []byte // reassembly, by slot

	// The server's side.
	served    []serverSlot
	arriving  []byte // reassembly, by slot
	responses []byte // by slot

	memory []byte
	stride int // bytes from one buffer to the next
	errors sessionErrors
}

// call is one that was posted.
type call struct {
	token transport.Token
	size  int
}

// slot is where a client has a call on its way.
type slot struct {
	session  *session
	index    int
	call     int32
	request  uint32 // number of the last one
	exchange exchange
	sent     int   // packets, of those that are numbered through
	received int   // answers
	before   int   // packets below this one were sent before
	held     int   // packets in the wheel
	progress int64 // when it last got somewhere
	timeouts int   // in a row
	stamps   []int64

	wants      bool // in session.want
	active     bool // in the list of those that wait for answers
	next, prev *slot
}

// serverSlot is where a server has a request of the peer.
type serverSlot struct {
	request  uint32
	stage    stage
	exchange exchange
	received int
}

// stage is how far a request is.
type stage uint8

const (
	stageIdle stage = iota // there was none yet
	stageArriving
	stageServing // the caller has it
	stageReplied
)

// sessionErrors are made beforehand, since data paths must not allocate.
type sessionErrors struct {
	down, tooLarge, unsupported, noCall, corrupt error
}

// fifo is a ring of numbers, with a power of two of places.
type fifo struct {
	items      []int32
	head, tail uint32
}

func newFifo(n int) fifo { return fifo{items: make([]int32, powerOfTwo(n))} }

func (f *fifo) empty() bool { return f.head == f.tail }

func (f *fifo) push(i int32) {
	f.items[f.tail&uint32(len(f.items)-1)] = i
	f.tail++
}

func (f *fifo) pop() int32 {
	i := f.items[f.head&uint32(len(f.items)-1)]
	f.head++
	return i
}

// monotonic is a clock in nanoseconds from now on.
func monotonic() func() int64 {
	begin := time.Now()
	return func() int64 { return int64(time.Since(begin)) }
}

func newWorker(s *settings, port datagram.Port, h *heart, credits int, clock func() int64) (*worker, error) {
	w := &worker{settings: s, port: port, heart: h, clock: clock, unit: port.MTU() - headerSize, credits: credits,
		nonce: rand.Uint64() | 1, byNonce: map[uint64]*session{}, packets: make([]datagram.Packet, s.batch)}
	w.key = greeting(w.nonce)
	w.waiter, _ = datagram.AsWaiter(port)
	horizon := int64(float64(credits*port.MTU()) / s.congestion.least * 1e9)
	w.wheel = newWheel(s.place, horizon, wheelEntries(s.peers, credits))
	var err error
	w.address, err = encodeAddress(w)
	return w, err
}

func (w *worker) Address() []byte { return w.address }

// newSession gives a session its memory, of which pages are taken only when they are
// used.
func (w *worker) newSession(id transport.PeerID) (*session, error) {
	s := w.settings
	p := &session{
		id: id, number: uint16(w.place()), key: rand.Uint32(),
		credits: w.credits, total: w.credits, slots: make([]slot, s.window), free: downFrom(s.window), want: newFifo(s.window),
		calls: make([]call, s.inFlight), spare: downFrom(s.inFlight), backlog: newFifo(s.inFlight),
		timely: timely{rate: s.congestion.link}, served: make([]serverSlot, s.window), stride: (s.payload + 63) &^ 63,
		errors: sessionErrors{
			down:        opError("post", id, transport.ErrPeerDown),
			tooLarge:    opError("post", id, transport.ErrTooLarge),
			unsupported: opError("post", id, transport.ErrUnsupported),
			noCall:      opError("post", id, fmt.Errorf("reply: %w: no request waits for it", transport.ErrUnsupported)),
			corrupt:     opError("poll", id, transport.ErrCorrupt),
		}}
	stamps := s.timestamps(w.credits, w.unit)
	for i := range p.slots {
		p.slots[i] = slot{session: p, index: i, call: -1, request: uint32(i - s.window), stamps: make([]int64, stamps)}
		p.served[i].request = uint32(i - s.window)
	}
	whole := 0 // reassembly buffers: none where every message is one packet
	if packetsOf(s.payload, w.unit) > 1 {
		whole = s.window * p.stride
	}
	requests, responses := s.inFlight*p.stride, s.window*p.stride
	var err error
	p.memory, err = unix.Mmap(-1, 0, requests+responses+2*whole, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("buffers of a session, %s: %w; fewer calls in flight or a smaller payload want less",
			transport.FormatSize(int64(requests+responses+2*whole)), err)
	}
	rest := p.memory
	take := func(n int) (b []byte) {
		b, rest = rest[:n:n], rest[n:]
		return b
	}
	p.requests, p.responses, p.answers, p.arriving = take(requests), take(responses), take(whole), take(whole)
	return p, nil
}

// buffer is the i-th of equal ones.
func (p *session) buffer(of []byte, i, size int) []byte {
	at := i * p.stride
	return of[at : at+size : at+p.stride]
}

// downFrom is a stack of the numbers below n, 0 on top.
func downFrom(n int) []int32 {
	stack := make([]int32, n)
	for i := range stack {
		stack[i] = int32(n - 1 - i)
	}
	return stack
}

func opError(op string, id transport.PeerID, err error) error {
	return &transport.OpError{Transport: name, Op: op, Peer: id, Err: err}
}

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	if w.closed {
		return opError("connect", id, transport.ErrClosed)
	}
	if err := w.connect(id, address); err != nil {
		return opError("connect", id, err)
	}
	return nil
}

func (w *worker) connect(id transport.PeerID, address []byte) error {
	switch {
	case int(id) < len(w.peers) && w.peers[id] != nil:
		return errors.New("already connected")
	case int(id) >= maxPeers:
		return fmt.Errorf("%w: peers are numbered below %d", transport.ErrUnsupported, maxPeers)
	}
	there, err := decodeAddress(address)
	if err != nil {
		return err
	}
	if _, twice := w.byNonce[there.Nonce]; twice || there.Nonce == w.nonce {
		return errors.New("the address is connected already, or the worker's own")
	}
	remote, err := w.port.Open(there.Port)
	if err != nil {
		return err
	}
	p, err := w.newSession(id)
	if err != nil {
		w.port.Release(remote)
		return err
	}
	p.nonce, p.greet, p.remote, p.source = there.Nonce, greeting(there.Nonce), remote, w.port.Source(remote)
	if w.heart != nil {
		if p.watch, err = w.heart.watch(there.Heart, there.Nonce, w.nonce, w.Wake); err != nil {
			w.port.Release(remote)
			return errors.Join(err, unix.Munmap(p.memory))
		}
	}
	for len(w.peers) <= int(id) {
		w.peers = append(w.peers, nil)
	}
	w.peers[id] = p
	if int(p.number) == len(w.sessions) {
		w.sessions = append(w.sessions, nil)
	}
	w.sessions[p.number] = p
	w.byNonce[there.Nonce] = p
	w.missing++
	now := w.clock()
	p.patience = now + w.settings.patience
	w.hello(p, now)
	return w.port.Flush()
}

// farewells is how often a closing worker says so: they may get lost, but not all.
const farewells = 3

// Close implements [transport.Worker]. The port and the memory stay until the
// transport closes, so that payloads handed out stay readable.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	for range farewells {
		for _, p := range w.sessions {
			if p != nil {
				w.bye(p)
			}
		}
		_ = w.port.Flush()
	}
	for _, p := range w.sessions {
		if p != nil {
			w.unwatch(p)
		}
	}
	return nil
}

// release gives up what Close leaves.
func (w *worker) release() error {
	errs := []error{w.port.Close()}
	for _, p := range w.sessions {
		if p != nil {
			errs = append(errs, unix.Munmap(p.memory))
		}
	}
	w.sessions = nil
	return errors.Join(errs...)
}
