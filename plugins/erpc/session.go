package erpc

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/queue"
	"transportbench/core/transport"
)

// session is this worker's end of a connection.
type session struct {
	id           transport.PeerID
	state        sessionState
	localNumber  uint16 // index in worker.sessions; packets carry firstNumber plus this
	localKey     uint32 // of the checksum of arriving packets
	localFirst   uint32 // number of this side's first request
	nonce        uint64 // of the peer's worker
	handshakeKey uint32 // of the checksum of handshake packets to the peer
	remote       datagram.Remote
	source       datagram.Source
	watch        *watch

	// Known from the handshake.
	remoteNumber uint16 // in packets to the peer: its firstNumber plus its localNumber
	remoteKey    uint32 // of the checksum of packets to the peer

	helloAt         int64 // when to send the next hello
	helloInterval   int64
	connectDeadline int64

	// The client's side.
	credits           int
	maxCredits        int // credits when none is in use
	inWheel           int // packets of both sides
	slots             []clientSlot
	freeSlots         []int32
	sendQueue         queue.Queue[*clientSlot] // slots that have packets to send
	backlog           queue.Queue[int32]       // calls that wait for a slot
	calls             []call
	freeCalls         []int32
	timely            timely
	sendAt            int64  // when the rate allows the next packet
	requests          []byte // posted requests, by call
	incomingResponses []byte // being reassembled, by slot

	// The server's side.
	serverSlots      []serverSlot
	incomingRequests []byte // being reassembled, by slot
	responses        []byte // posted responses, by slot

	memory []byte // all buffers
	stride int    // bytes from one buffer to the next
	errors control.PeerErrors
	loss   error // why, in state lost
}

type sessionState uint8

const (
	connecting sessionState = iota
	established
	lost
)

// isLost reports whether the peer is lost, or will be with the next scan.
func (p *session) isLost() bool { return p.state == lost || p.watch != nil && p.watch.dead.Load() }

// call is a posted call.
type call struct {
	token transport.Token
	size  int
}

// clientSlot is a slot of the client's window. It has at most one call in flight.
type clientSlot struct {
	session      *session
	index        int
	call         int32  // -1 if there is none
	request      uint32 // number of the last request; each adds the window's size
	rpc          rpc
	sent         int    // packets, by the numbers of rpc
	received     int    // answers
	cursor       []byte // where the next packet of a long response belongs, up to its end
	resendBelow  int    // packets with lower numbers were sent before
	inWheel      int    // packets held in the wheel
	lastProgress int64  // when an answer arrived or a packet left last
	timeouts     int    // consecutive
	sentAt       []int64

	queued     bool // in session.sendQueue
	awaiting   bool // in the list worker.awaiting
	next, prev *clientSlot
}

// serverSlot is the server's view of a slot of the peer's window.
type serverSlot struct {
	request  uint32 // number of the last request
	state    requestState
	rpc      rpc
	received int // packets
}

type requestState uint8

const (
	noRequest requestState = iota
	requestArriving
	requestExecuting // the worker's owner has it
	requestReplied
)

// slotOf returns the index of the slot that a request number belongs to.
func (p *session) slotOf(request uint32) int { return int(request) & (len(p.slots) - 1) }

// newSession makes a session with its buffers. Their pages take memory only when they are used.
func (w *worker) newSession(id transport.PeerID) (*session, error) {
	s := w.settings
	secret := control.NewNonce()
	p := &session{
		id: id, localNumber: w.freeNumber(), localKey: uint32(secret),
		credits: w.credits, maxCredits: w.credits, timely: timely{rate: s.congestion.linkRate},
		slots: make([]clientSlot, s.window), freeSlots: stackOf(s.window),
		sendQueue: queue.New[*clientSlot](s.window),
		calls:     make([]call, s.inFlight), freeCalls: stackOf(s.inFlight),
		backlog:     queue.New[int32](s.inFlight),
		serverSlots: make([]serverSlot, s.window), stride: (s.payload + 63) &^ 63,
		errors: name.PeerErrors(id),
	}
	timestamps := s.timestamps(w.credits, w.maxData)
	for i := range p.slots {
		p.slots[i] = clientSlot{session: p, index: i, call: -1, sentAt: make([]int64, timestamps)}
	}
	p.beginAt(uint32(secret>>32) &^ uint32(s.window-1))
	reassembly := 0
	if packetsOf(s.payload, w.maxData) > 1 {
		reassembly = s.window * p.stride
	}
	requests, responses := s.inFlight*p.stride, s.window*p.stride
	size := requests + responses + 2*reassembly
	var err error
	p.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil,
			fmt.Errorf("reserving %s of buffers for a session: %w; use fewer calls in flight or "+
				"a smaller payload",
				transport.FormatSize(int64(size)), err)
	}
	rest := p.memory
	take := func(n int) (b []byte) {
		b, rest = rest[:n:n], rest[n:]
		return b
	}
	p.requests, p.responses = take(requests), take(responses)
	p.incomingResponses, p.incomingRequests = take(reassembly), take(reassembly)
	return p, nil
}

// beginAt sets the number of this side's first request, a multiple of the window.
func (p *session) beginAt(first uint32) {
	p.localFirst = first
	for i := range p.slots {
		p.slots[i].request = first + uint32(i-len(p.slots))
	}
}

// freeNumber returns the lowest session number that is free.
func (w *worker) freeNumber() uint16 {
	i := slices.Index(w.sessions, nil)
	if i < 0 {
		i = len(w.sessions)
	}
	return uint16(i)
}

// buffer returns size bytes of the i-th buffer in a row of them.
func (p *session) buffer(row []byte, i, size int) []byte {
	at := i * p.stride
	return row[at : at+size : at+p.stride]
}

// stackOf returns a stack of the numbers below n, 0 on top.
func stackOf(n int) []int32 {
	stack := make([]int32, n)
	for i := range stack {
		stack[i] = int32(n - 1 - i)
	}
	return stack
}

// reclaim frees the buffers, numbers and remotes of lost sessions whose loss Poll has reported, so
// that a server outlives any number of clients that restart. It waits for a session's packets in
// the wheel, which name the session by its number. What remains of a session reports that the peer
// is down.
func (w *worker) reclaim() {
	w.reported = slices.DeleteFunc(w.reported, func(p *session) bool {
		if p.inWheel > 0 {
			return false
		}
		w.unwatch(p)
		w.port.Release(p.remote)
		_ = unix.Munmap(p.memory) // fails only for memory that is not mapped
		w.peers.Forget(p.nonce)
		w.sessions[p.localNumber] = nil
		*p = session{id: p.id, state: lost, loss: p.loss, errors: p.errors}
		return true
	})
}

// unwatch ends the heartbeat's watch over a peer.
func (w *worker) unwatch(p *session) {
	if p.watch != nil {
		w.heartbeat.unwatch(p.watch)
		p.watch = nil
	}
}
