package copyrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// worker is one thread's queues and its connections. The files *_datapath.go have
// what the measured loop calls, connect.go how connections come about.
type worker struct {
	settings settings
	rank     *rank
	nonce    uint64 // tells this worker from every other
	address  []byte
	cq       rdma.CompletionQueue
	srq      rdma.SharedReceiveQueue
	notifier rdma.Notifier // of cq and the manager's
	region   *rdma.Region
	manager  *manager

	peers   []*peer          // by PeerID; nil where none is connected
	slots   []*peer          // by place in the region, which is the queue pair's cookie
	byNonce map[uint64]*peer // by the nonce of the peer's worker

	dirty  []*peer // posted to since the last Flush
	stuck  []*peer // flushed, and there was no room for the request, or no connection yet
	ready  []*peer // have batches that were not handed out
	held   []*peer // handed out payloads in the last Poll
	owing  []*peer // owe so much credit that it goes by itself if nothing carries it
	gone   []*peer // lost, and not told yet
	broken []*peer // cut off, and the error not returned yet
	turn   int     // where in ready the next Poll starts

	requests    [closedBatches]rdma.SendRequest
	completions []rdma.Completion
	receives    []rdma.ReceiveRequest // all alike, of no bytes
	posts       int                   // receives in the shared queue
	few         int                   // of them, as many as want more to be posted
	sweeping    uint32                // rank.ticks as last seen
	patience    int                   // sweeps that a keepalive may take
	polls       uint32
	refused     bool // Post last found no room

	closed bool
	counts counts

	_ [128]byte // what lies behind may be another thread's
}

// counts are what ReadStats tells.
type counts struct {
	batches, messages, fillers, doorbells, inline, credits, reads uint64
	ringFull, noCredit, held, keepalives, parked                  uint64
}

// Where a connection is.
type state uint8

const (
	connecting state = iota
	up
	dying // no more will come; what has arrived is handed out first
	lost
)

// peer is one connection, seen from here.
type peer struct {
	id    transport.PeerID
	nonce uint64
	state state
	// joined: the queue pair is connected to the peer's; it may be that the
	// peer's is not connected yet.
	joined bool
	slot   int
	qp     rdma.QueuePair

	// The send ring, and the ring at the peer that it is copied to.
	ring     []byte
	local    uint64 // address of ring
	remote   uint64 // address of the peer's ring
	key      uint32
	cursor   cursor
	count    uint32 // messages in the open batch
	closed   [closedBatches]batch
	batches  int    // of closed that wait for their request
	written  uint64 // everything before was written to the peer's ring
	freed    uint64 // the peer has let go of everything before
	unsigned int    // requests since the last one that asked for a completion
	sent     uint32 // batches written
	returned uint32 // of them, receives known to be posted again
	reading  bool   // an RDMA READ of the peer's position is on its way

	// The receive ring.
	inbox    []byte
	arrived  uint64 // everything before was written
	parsed   uint64 // everything before was handed out
	released uint64 // everything before was let go
	left     uint32 // messages of the batch at hand that were not handed out
	end      uint64 // of that batch
	taken    uint32 // receives that the peer consumed
	told     uint64 // of released, what the peer was told
	toldOf   uint32 // of taken, likewise

	// Words for one-sided access: what the peer writes and reads here, and what
	// this side writes and reads there.
	credit   twin   // written by the peer: units and receives it returns
	position twin   // read by the peer: the same of this side
	scratch  twin   // source of credit writes
	fetched  twin   // target of position reads
	control  uint64 // address of the words here
	there    uint64 // address of the words at the peer

	pings floor.PingPong // of the probe, on verbs
	tried int            // sweeps since a keepalive was posted, or found no room; 0 once something completed

	calls callTable
	owed  []bool // by call: a request that was polled and not answered

	isDirty, isStuck, isReady, isHeld, isOwing bool
	isTrying                                   bool // a keepalive is on its way
	errors                                     peerErrors

	_ [128]byte // what lies behind may be another thread's
}

// callTable is the calls of one connection: their tokens by the number that goes
// over the wire. A number stands for the promise of room for the response, and so
// is free again only when the response was let go.
type callTable struct {
	tokens   []transport.Token
	waiting  []bool // by number: no response yet
	free     []uint32
	answered []uint32 // polled, and free when they are let go
	inFlight int
	limit    int
}

func newCallTable(calls, limit int) callTable {
	t := callTable{tokens: apart[transport.Token](calls), waiting: apart[bool](calls),
		free: apart[uint32](calls), answered: apart[uint32](calls)[:0], limit: limit}
	for i := range t.free {
		t.free[i] = uint32(calls - 1 - i)
	}
	return t
}

// apart makes a slice whose cache lines have nothing else in them. Small ones that two
// threads write would else lie in one line, which goes to and fro between them.
func apart[T any](n int) []T {
	const margin = 128 // elements, and so bytes at least
	return make([]T, margin+n+margin)[margin : margin+n : margin+n]
}

// batch is one that is complete and waits for its request.
type batch struct {
	start  uint64
	length uint32 // bytes to write
	span   uint32 // bytes to advance
	count  uint32
}

// closedBatches is how many there can be at once; see sealable. What waits is less
// than a ring, so that there is one filler at most.
const closedBatches = 4

// peerErrors are made beforehand, since data paths must not allocate.
type peerErrors struct {
	down, tooLarge, unsupported, noCall, corrupt error
}

// The words of a peer in the region, behind its rings.
const (
	creditOffset   = 0
	scratchOffset  = 128
	fetchedOffset  = 144
	positionOffset = 256
	probeOffset    = 384 // written by the peer
	pingOffset     = 512
	controlSize    = 4096
)

// region is the room of one peer.
func (s *settings) region() int { return 2*int(s.ring) + controlSize }

func newWorker(r *rank) (w *worker, err error) {
	s := r.settings
	w = &worker{settings: s, rank: r, nonce: rand.Uint64() | 1, byNonce: map[uint64]*peer{},
		slots: make([]*peer, 0, s.peers), completions: make([]rdma.Completion, 64), receives: make([]rdma.ReceiveRequest, 64),
		few: s.receives() * 2 / 3, sweeping: r.ticks.Load(), patience: s.patience(r.provider())}
	for _, list := range []*[]*peer{&w.dirty, &w.stuck, &w.ready, &w.held, &w.owing, &w.gone, &w.broken} {
		*list = apart[*peer](s.peers)[:0]
	}
	if w.cq, err = r.device.NewCompletionQueue(s.completions()); err != nil {
		return nil, err
	}
	if w.srq, err = r.device.NewSharedReceiveQueue(s.receives()); err != nil {
		return nil, err
	}
	if w.region, err = r.device.Allocate(s.peers*s.region(), rdma.RemoteRead|rdma.RemoteWrite); err != nil {
		return nil, fmt.Errorf("rings of %d peers, %s each: %w", s.peers, transport.FormatSize(int64(s.region())), err)
	}
	datagrams, err := r.device.NewCompletionQueue(managerReceives + managerDepth)
	if err != nil {
		return nil, err
	}
	if w.notifier, err = r.device.NewNotifier(w.cq, datagrams); err != nil {
		return nil, err
	}
	if w.manager, err = newManager(w, datagrams); err != nil {
		return nil, err
	}
	if w.address, err = json.Marshal(w.announce()); err != nil {
		return nil, err
	}
	return w, w.refill()
}

func (w *worker) Address() []byte { return w.address }

// newPeer makes a connection's queue pair and gives it its place in the region.
func (w *worker) newPeer(id transport.PeerID, nonce uint64) (*peer, error) {
	s := &w.settings
	slot := len(w.slots)
	if slot == s.peers {
		return nil, fmt.Errorf("%w: the transport was opened for %d peers", transport.ErrUnsupported, s.peers)
	}
	at, size := slot*s.region(), int(s.ring)
	control := at + 2*size
	memory := w.region.Bytes
	p := &peer{id: id, nonce: nonce, slot: slot,
		ring: memory[at : at+size : at+size], local: w.region.Address + uint64(at),
		inbox: memory[at+size : at+2*size : at+2*size], control: w.region.Address + uint64(control),
		credit: twinAt(memory, control+creditOffset), position: twinAt(memory, control+positionOffset),
		scratch: twinAt(memory, control+scratchOffset), fetched: twinAt(memory, control+fetchedOffset),
		calls: newCallTable(s.calls, s.calls/2), owed: apart[bool](s.calls),
		errors: peerErrors{
			down:        opError("post", id, transport.ErrPeerDown),
			tooLarge:    opError("post", id, transport.ErrTooLarge),
			unsupported: opError("post", id, transport.ErrUnsupported),
			noCall:      opError("post", id, fmt.Errorf("reply: %w: no request waits for it", transport.ErrUnsupported)),
			corrupt:     opError("poll", id, transport.ErrCorrupt),
		}}
	var err error
	p.qp, err = w.rank.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected, Completions: w.cq, Shared: w.srq,
		SendDepth: s.depth, MaxInline: s.inline, Cookie: uint32(slot)})
	if err != nil {
		return nil, err
	}
	w.slots = append(w.slots, p)
	return p, nil
}

func opError(op string, id transport.PeerID, err error) error {
	return &transport.OpError{Transport: name, Op: op, Peer: id, Err: err}
}

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	if w.closed {
		return opError("connect", id, transport.ErrClosed)
	}
	if int(id) < len(w.peers) && w.peers[id] != nil {
		return opError("connect", id, errors.New("already connected"))
	}
	if int(id) >= maxPeers {
		return opError("connect", id, fmt.Errorf("%w: peers are numbered below %d", transport.ErrUnsupported, maxPeers))
	}
	there, err := w.decode(address)
	if err != nil {
		return opError("connect", id, err)
	}
	if _, twice := w.byNonce[there.Nonce]; twice || there.Nonce == w.nonce {
		return opError("connect", id, errors.New("the address is connected already, or the worker's own"))
	}
	handle, err := w.manager.qp.AddPeer(there.Endpoint)
	if err != nil {
		return opError("connect", id, err)
	}
	p, err := w.newPeer(id, there.Nonce)
	if err != nil {
		return opError("connect", id, err)
	}
	for len(w.peers) <= int(id) {
		w.peers = append(w.peers, nil)
	}
	w.peers[id] = p
	w.byNonce[there.Nonce] = p
	if err := w.manager.open(p, handle); err != nil {
		return opError("connect", id, err)
	}
	return nil
}

// slowestWire is the rate in bytes per second at which a full ring at least goes out.
const slowestWire = 16 << 20

// patience is how many sweeps a keepalive is waited for. Devices promise that a request
// ends when its retries are used up, in four times their timeouts at most (InfiniBand
// Architecture Specification, volume 1, 9.7.6.1.3), and do not always keep it: on Soft-RoCE
// of Linux 6.1 a send that fails, as with the interface down, stops the retries of what was
// sent before, and nothing completes any more. The software device completes when the peer
// polls, which may be never, and knows by itself when that is dead.
func (s *settings) patience(p rdma.Provider) int {
	if p != rdma.Verbs {
		return math.MaxInt
	}
	retries := 4 * time.Duration(s.connect.Retries+1) * (4096 * time.Nanosecond << s.connect.Timeout)
	before := time.Duration(s.ring) * time.Second / slowestWire // what it may have to wait for
	return int((retries+before)/s.keepalive) + 2
}

// abandon ends a connection that the device does not end. With its queue pair closed the
// peer finds out too.
func (w *worker) abandon(p *peer) {
	_ = p.qp.Close()
	w.lose(p)
}

// lingerLimit is how long Close waits for the farewells to be on their way, where the
// device drops what a queue pair that closes has not sent.
const lingerLimit = 50 * time.Millisecond

// Close implements [transport.Worker]. The memory stays registered until the
// transport closes, so that payloads handed out stay readable.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	_, _ = w.collect(nil, 0) // who is gone already needs no farewell
	waiting := 0
	for _, p := range w.slots {
		switch p.state {
		case up:
			r := rdma.SendRequest{ID: farewellID, Opcode: rdma.WriteWithImmediate, Flags: rdma.Signaled, Immediate: farewell}
			if n, _ := p.qp.PostSend([]rdma.SendRequest{r}); n == 1 {
				waiting++
			}
		case connecting:
			_ = w.manager.say(p, kindBye) // a courtesy
		}
	}
	if !w.rank.device.Attributes().DeliversAfterClose {
		w.linger(waiting)
	}
	w.closed = true
	var errs []error
	for _, p := range w.slots {
		errs = append(errs, p.qp.Close())
	}
	return errors.Join(append(errs, w.manager.qp.Close())...)
}

// linger waits for that many farewells, for a bounded time.
func (w *worker) linger(waiting int) {
	for deadline := time.Now().Add(lingerLimit); waiting > 0 && time.Now().Before(deadline); {
		n, err := w.cq.Poll(w.completions)
		if err != nil {
			return
		}
		for i := range w.completions[:n] {
			if w.completions[i].ID == farewellID {
				waiting--
			}
		}
	}
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &w.counts
	return append(dst,
		transport.Stat{Name: "batches", Help: "batches written to peers", Value: c.batches},
		transport.Stat{Name: "messages", Help: "messages in them; over batches, the messages of one", Value: c.messages},
		transport.Stat{Name: "doorbells", Help: "postings to a send queue, each of one or more requests", Value: c.doorbells},
		transport.Stat{Name: "inline_batches", Help: "batches that went inline; over batches, the inline share", Value: c.inline},
		transport.Stat{Name: "credit_only", Help: "writes that returned credit and nothing else", Value: c.credits},
		transport.Stat{Name: "fillers", Help: "batches that covered the end of a ring", Value: c.fillers},
		transport.Stat{Name: "ring_full", Help: "posts that found no room in the peer's ring", Value: c.ringFull},
		transport.Stat{Name: "insufficient_credit", Help: "calls that could not promise room for their response", Value: c.noCredit},
		transport.Stat{Name: "held_batches", Help: "flushes that waited for the peer's receives or the send queue", Value: c.held},
		transport.Stat{Name: "position_reads", Help: "RDMA READs of a peer's position (credit: read)", Value: c.reads},
		transport.Stat{Name: "keepalives", Help: "empty writes on idle connections", Value: c.keepalives},
		transport.Stat{Name: "parked", Help: "waits that gave the core away", Value: c.parked},
		transport.Stat{Name: "receiver_not_ready", Help: "messages of the device that found no receive, as far as it tells", Value: w.rank.device.ReceiverNotReady()},
	)
}
