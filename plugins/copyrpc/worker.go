package copyrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"transportbench/core/fabric/calltable"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// worker holds the queues and connections of one thread.
type worker struct {
	settings settings
	endpoint *endpoint
	nonce    uint64 // unique to this worker
	address  []byte
	cq       rdma.CompletionQueue
	srq      rdma.SharedReceiveQueue
	notifier rdma.Notifier // of cq and the manager's queue
	region   *rdma.Region
	manager  *manager
	dynamic  *dynamicQueue // cq as well; nil with queue-pairs: rc

	peers    control.Peers[peer, uint64]
	byCookie []*peer // in the order of connecting; the index is the queue pair's cookie

	dirty   []*peer // posted to since the last Flush
	blocked []*peer // flushed, but something waits for receives, the send queue or the connection
	ready   []*peer // have messages that did not fit into the events of a Poll
	held    []*peer // payloads of the last Poll are in use
	owing   []*peer // owe credit that is sent by itself if no batch carries it
	lost    control.LostPeers
	corrupt []*peer // cut off for breaking the protocol; the error is not returned yet

	nextReady int // index in ready at which the next Poll starts

	requests       [maxClosed]rdma.SendRequest
	completions    []rdma.Completion
	receives       []rdma.ReceiveRequest // all alike: of no bytes
	receivesPosted int                   // receives in the shared queue
	refillBelow    int                   // post more receives once receivesPosted is down to this
	seenTicks      uint32                // endpoint.ticks as of the last sweep
	maxSweeps      int                   // sweeps that a keepalive may take; see keepaliveSweeps
	polls          uint32
	refused        bool // the last Post found no room

	counts counts

	_ [128]byte // keeps memory of other threads out of the last cache lines
}

// counts are the counters of ReadStats.
type counts struct {
	batches, messages, padding, doorbells, inline, credits, reads uint64
	ringFull, noCredit, blocked, keepalives, parked               uint64
	copies, copiedBytes                                           uint64
	sizes                                                         transport.BatchSizes
}

// work returns what the worker and its soft device have done for the messages.
func (w *worker) work() control.Work {
	c := &w.counts
	sum := control.Work{Copies: c.copies, CopiedBytes: c.copiedBytes, Doorbells: c.doorbells}.Plus(
		rdma.WorkOf(w.notifier))
	for _, p := range w.byCookie {
		sum = sum.Plus(rdma.WorkOf(p.qp))
	}
	return sum
}

// state is the state of a connection.
type state uint8

const (
	connecting state = iota
	up
	dying // no more messages will come; those that have arrived are delivered first
	lost
)

// peer is one connection as this side sees it. Ring positions are explained in doc.go.
type peer struct {
	id           transport.PeerID
	nonce        uint64
	state        state
	connected    bool // the queue pair is connected to the peer's, perhaps not yet vice versa
	cookie       int  // index in worker.byCookie, and of its memory in the region
	qp           rdma.QueuePair
	writer       rdma.InlineWriter // qp, or nil
	maxLoneBatch uint32            // bytes of the longest batch that writeLone takes

	// The send ring, and the peer's receive ring that it is written to.
	sendRing     []byte
	mapped       []byte // the peer's receive ring if the device can map it, else nil
	localRing    uint64 // address of sendRing
	remoteRing   uint64 // address of the peer's receive ring
	remoteKey    uint32
	cursor       cursor
	openCount    uint32 // messages in the open batch
	room         uint64 // Post stores messages that end here or before in sendRing
	inPlace      bool   // the open batch is in mapped, not in sendRing
	inPlaceFrom  int    // bytes of a payload that moves the open batch to mapped
	closed       [maxClosed]batch
	closedCount  int    // batches in closed that wait for their request
	written      uint64 // everything before is written to the peer
	peerReleased uint64 // the peer has released everything before
	unsignaled   int    // requests since the last signaled one
	sent         uint32 // batches written
	returned     uint32 // of their receives, known to be posted again
	readPending  bool   // an RDMA READ of the peer's position is in flight
	lastCredit   uint64 // word of credit that was taken last

	// The receive ring.
	receiveRing  []byte
	arrived      uint64 // everything before has arrived
	parsed       uint64 // everything before is delivered
	released     uint64 // everything before is released
	messagesLeft uint32 // messages of the current batch that are not delivered
	consumed     uint32 // receives that the peer consumed
	toldReleased uint64 // released as of the last report to the peer
	toldConsumed uint32 // consumed as of the last report to the peer

	// Words for one-sided access.
	credit        doubleWord // written by the peer: units and receives that it returns
	position      doubleWord // read by the peer: the same of this side
	scratch       doubleWord // source of credit writes
	fetched       doubleWord // target of position reads
	localControl  uint64     // address of the words here
	remoteControl uint64     // address of the words at the peer

	loop *rdma.Loop // of the probe, on verbs; nil before the first
	// sweeps counts sweeps since a keepalive was posted or found no room; 0 once something
	// has completed.
	sweeps int

	calls    callTable
	requests calltable.Requests

	isDirty, isBlocked, isReady, isHeld, isOwing bool
	keepalivePending                             bool
	errors                                       control.PeerErrors

	_ [128]byte // keeps memory of other threads out of the last cache lines
}

// callTable has the calls of one connection. A number stands for the promise of room for the
// response, so it becomes available only when the response is released.
type callTable struct {
	calltable.Calls
	answered    []uint32 // delivered; available once they are released
	inFlight    int
	maxInFlight int
}

func newCallTable(calls, maxInFlight int) callTable {
	return callTable{Calls: calltable.NewCalls(calls),
		answered: calltable.Padded[uint32](calls)[:0], maxInFlight: maxInFlight}
}

// answer ends a call and returns its token. It returns false if no call waits under the number,
// which may be any.
func (t *callTable) answer(number uint32) (transport.Token, bool) {
	if !t.Waiting(number) {
		return 0, false
	}
	t.inFlight--
	t.answered = append(t.answered, number)
	return t.End(number), true
}

// batch is a closed batch that waits for its request.
type batch struct {
	start   uint64
	length  uint32 // bytes to write
	span    uint32 // bytes to advance
	count   uint32 // messages, or paddingCount
	inPlace bool   // in peer.mapped
}

// maxClosed is the largest number of closed batches at once; see mayClose. They take less
// than a ring, so at most one of them is padding.
const maxClosed = 4

// Offsets of the words of a peer, which lie behind its rings in the region.
const (
	creditOffset   = 0
	scratchOffset  = 128
	fetchedOffset  = 144
	positionOffset = 256
	controlSize    = 4096 // probes write behind it
)

func newWorker(e *endpoint) (w *worker, err error) {
	s := e.settings
	w = &worker{settings: s, endpoint: e, nonce: control.NewNonce(),
		lost:     control.NewLostPeers(s.peers),
		byCookie: make([]*peer, 0, s.peers), completions: make([]rdma.Completion, 64),
		receives:    make([]rdma.ReceiveRequest, 64),
		refillBelow: s.receives() * 2 / 3, seenTicks: e.ticks.Load(),
		maxSweeps: s.keepaliveSweeps(e.device.Attributes().Provider)}
	w.peers = control.NewPeers[peer](maxPeers, s.peers, w.nonce)
	for _, list := range []*[]*peer{&w.dirty, &w.blocked, &w.ready, &w.held, &w.owing, &w.corrupt} {
		*list = calltable.Padded[*peer](s.peers)[:0]
	}
	if w.cq, err = e.device.NewCompletionQueue(s.completions()); err != nil {
		return nil, err
	}
	if w.srq, err = e.device.NewSharedReceiveQueue(s.receives()); err != nil {
		return nil, err
	}
	if w.region, err = e.device.Allocate(s.peers*s.memory(),
		rdma.RemoteRead|rdma.RemoteWrite); err != nil {
		return nil, fmt.Errorf("rings of %d peers, %s each: %w", s.peers,
			transport.FormatSize(int64(s.memory())), err)
	}
	datagrams, err := e.device.NewCompletionQueue(managerReceives + managerDepth)
	if err != nil {
		return nil, err
	}
	if w.notifier, err = e.device.NewNotifier(w.cq, datagrams); err != nil {
		return nil, err
	}
	if w.manager, err = newManager(w, datagrams); err != nil {
		return nil, err
	}
	if s.pairs == pairsDC {
		if w.dynamic, err = newDynamicQueue(w); err != nil {
			return nil, err
		}
		w.cq = w.dynamic
	}
	if w.address, err = json.Marshal(w.newAddress()); err != nil {
		return nil, err
	}
	return w, w.refill()
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	return name.PeerError("connect", id, w.connect(id, address))
}

func (w *worker) connect(id transport.PeerID, address []byte) error {
	remote, err := w.parseAddress(address)
	if err != nil {
		return err
	}
	if err := w.peers.Check(id, remote.Nonce); err != nil {
		return err
	}
	handle, err := w.manager.qp.AddPeer(remote.Endpoint)
	if err != nil {
		return err
	}
	p, err := w.newPeer(id, remote.Nonce)
	if err != nil {
		return err
	}
	w.peers.Add(id, remote.Nonce, p, w.settings.payload, &p.errors)
	return w.manager.open(p, handle)
}

// newPeer makes a connection's queue pair and gives it its part of the region.
func (w *worker) newPeer(id transport.PeerID, nonce uint64) (*peer, error) {
	s := &w.settings
	cookie := len(w.byCookie)
	at, size := cookie*s.memory(), int(s.ring)
	words := w.control(cookie)
	memory := w.region.Bytes
	p := &peer{id: id, nonce: nonce, cookie: cookie,
		sendRing: memory[at : at+size : at+size], localRing: w.region.Address + uint64(at),
		receiveRing: memory[at+size : at+2*size : at+2*size], localControl: w.region.Address +
			uint64(words),
		credit:   doubleWordAt(memory, words+creditOffset),
		position: doubleWordAt(memory, words+positionOffset),
		scratch:  doubleWordAt(memory, words+scratchOffset),
		fetched:  doubleWordAt(memory, words+fetchedOffset),
		calls:    newCallTable(s.calls, s.calls/2), requests: calltable.NewRequests(s.calls),
		errors: name.PeerErrors(id), inPlaceFrom: maxRing}
	var err error
	if w.dynamic != nil {
		p.qp = w.dynamic.newPeer()
	} else if p.qp, err = w.endpoint.device.NewQueuePair(rdma.QueuePairConfig{
		Type: rdma.ReliableConnected, Completions: w.cq, Shared: w.srq, SendDepth: s.sendDepth,
		MaxInline: s.inline, Cookie: uint32(cookie)}); err != nil {
		return nil, err
	}
	if writer, ok := p.qp.(rdma.InlineWriter); ok && s.lone {
		p.writer = writer
		p.maxLoneBatch = uint32(min(s.inline+headerSize, headerSize+messageHeader+maxLone))
	}
	w.byCookie = append(w.byCookie, p)
	return p, nil
}

// control returns the offset in the region of a peer's words for one-sided access.
func (w *worker) control(cookie int) int {
	return cookie*w.settings.memory() + 2*int(w.settings.ring)
}

// maxBlockedWait bounds Wait while posts wait for room: credit that is sent by itself is a plain
// WRITE, which does not wake the peer on verbs.
const maxBlockedWait = 100 * time.Microsecond

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.peers.Closed() {
		return name.Error("wait", transport.ErrClosed)
	}
	// The next Poll has events, or credit that a peer may wait for.
	if len(w.ready)+w.lost.Len()+len(w.corrupt)+len(w.held)+len(w.owing) > 0 ||
		w.endpoint.ticks.Load() != w.seenTicks {
		return nil
	}
	// Poll seldom handles datagrams once all connections are up, but they end the wait too.
	w.manager.progress()
	if w.lost.Len() > 0 {
		return nil
	}
	if w.manager.pending > 0 {
		timeout = min(timeout, resendAfter)
	}
	if len(w.blocked) > 0 || w.refused {
		timeout = min(timeout, maxBlockedWait)
	}
	w.counts.parked++
	return w.notifier.Wait(timeout)
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.notifier.Notify() }

// Close implements [transport.Worker]. The memory stays registered until the transport
// closes, so that delivered payloads stay readable.
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	_, _ = w.collect(nil, 0) // finds peers that are lost already and need no farewell
	farewells := 0
	for _, p := range w.byCookie {
		switch p.state {
		case up:
			r := rdma.SendRequest{ID: farewellID, Opcode: rdma.WriteWithImmediate,
				Flags: rdma.Signaled, Immediate: farewell}
			if n, _ := p.qp.PostSend([]rdma.SendRequest{r}); n == 1 {
				farewells++
			}
		case connecting:
			_ = w.manager.send(p, kindBye) // best effort: keepalives find the loss otherwise
		}
	}
	if !w.endpoint.device.Attributes().DeliversAfterClose {
		w.awaitFarewells(farewells)
	}
	var errs []error
	for _, p := range w.byCookie {
		errs = append(errs, p.qp.Close())
	}
	return errors.Join(append(errs, w.manager.qp.Close())...)
}

// farewellTime bounds how long Close waits for its farewells to complete.
const farewellTime = 50 * time.Millisecond

// awaitFarewells polls until n farewells have completed, for at most farewellTime.
func (w *worker) awaitFarewells(n int) {
	for deadline := time.Now().Add(farewellTime); n > 0 && time.Now().Before(deadline); {
		found, err := w.cq.Poll(w.completions)
		if err != nil {
			return
		}
		for i := range w.completions[:found] {
			if w.completions[i].ID == farewellID {
				n--
			}
		}
	}
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &w.counts
	return append(c.sizes.Append(w.work().Append(dst)),
		transport.Stat{Name: transport.StatBatches, Help: "batches written to peers",
			Value: c.batches},
		transport.Stat{Name: transport.StatBatchedMessages,
			Help: "messages in batches; divided by batches, the mean per batch", Value: c.messages},
		transport.Stat{Name: "inline_batches",
			Help: "batches sent inline; divided by batches, the inline share", Value: c.inline},
		transport.Stat{Name: transport.StatCreditOnly, Means: transport.MeansShortage,
			Help: "writes that returned credit and nothing else", Value: c.credits},
		transport.Stat{Name: "fillers", Help: "padding batches, which cover the end of a ring",
			Value: c.padding},
		transport.Stat{Name: "ring_full", Means: transport.MeansShortage,
			Help:  "posts that found no room in the peer's ring",
			Value: c.ringFull},
		transport.Stat{Name: "insufficient_credit", Means: transport.MeansShortage,
			Help: "calls that could not promise room for their response", Value: c.noCredit},
		transport.Stat{Name: "held_batches", Means: transport.MeansShortage,
			Help:  "flushes that waited for the peer's receives or the send queue",
			Value: c.blocked},
		transport.Stat{Name: "position_reads",
			Help: "RDMA READs of a peer's position (credit: read)", Value: c.reads},
		transport.Stat{Name: "keepalives", Help: "empty writes on idle connections",
			Value: c.keepalives},
		transport.Stat{Name: "parked", Help: "waits that gave the core away", Value: c.parked},
		transport.Stat{Name: "receiver_not_ready", Means: transport.MeansShortage,
			Help:  "messages of the device that found no receive, if the device counts them",
			Value: w.endpoint.device.ReceiverNotReady()},
	)
}

// Silence implements [transport.PathReader]. The device finds a silent peer, and its completion
// says so.
func (w *worker) Silence(transport.PeerID) error { return nil }

// ReadPaths implements [transport.PathReader].
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	p := w.endpoint.device.Attributes().Path()
	p.Overhead = headerSize + messageHeader
	if mtu := w.endpoint.settings.connect.MTU; mtu > 0 {
		p.Facts["path_mtu"] = fmt.Sprint(mtu)
	}
	return append(dst, p)
}
