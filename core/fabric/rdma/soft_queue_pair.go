package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// softCompletionQueue has no entries of its own: Poll looks at the wires and send
// queues of its queue pairs, which is where the soft device makes progress.
type softCompletionQueue struct {
	device   *softDevice
	capacity int
	pairs    []*softQueuePair
	nextPair int // which pair the next Poll starts with
	signaled int // requests that will complete here
	polls    uint
	notifier *softNotifier // nil where nobody waits
	closed   bool

	_ [128]byte // what lies behind may be another thread's
}

// NewCompletionQueue implements [Device].
func (d *softDevice) NewCompletionQueue(capacity int) (CompletionQueue, error) {
	if capacity < 1 || capacity > d.Attributes().MaxCompletions {
		return nil, invalid("completion queue of %d entries", capacity)
	}
	c := &softCompletionQueue{device: d, capacity: capacity}
	return c, d.adopt(c, closeQueues)
}

func (c *softCompletionQueue) Close() error {
	if len(c.pairs) > 0 {
		return fmt.Errorf("%w: the completion queue has %d queue pairs", ErrInvalid, len(c.pairs))
	}
	c.closed = true
	c.device.disown(c)
	return nil
}

// softReceiveQueue is a queue of receives, shared or a queue pair's own.
type softReceiveQueue struct {
	device   *softDevice
	queue    []ReceiveRequest // a power of two
	head     uint64           // of the oldest
	tail     uint64
	capacity uint64
	closed   bool

	_ [128]byte // what lies behind may be another thread's
}

// NewSharedReceiveQueue implements [Device].
func (d *softDevice) NewSharedReceiveQueue(capacity int) (SharedReceiveQueue, error) {
	if capacity < 1 || capacity > d.Attributes().MaxShared {
		return nil, invalid("shared receive queue of %d entries", capacity)
	}
	r := newSoftReceiveQueue(d, capacity)
	return r, d.adopt(r, closeQueues)
}

func newSoftReceiveQueue(d *softDevice, capacity int) *softReceiveQueue {
	return &softReceiveQueue{device: d, queue: make([]ReceiveRequest, pow2.Ceil(capacity)), capacity: uint64(capacity)}
}

func (r *softReceiveQueue) Close() error {
	r.closed = true
	r.device.disown(r)
	return nil
}

// softQueuePair is a queue pair. soft_datapath.go has RC, soft_datagram.go UD.
type softQueuePair struct {
	device   *softDevice
	cq       *softCompletionQueue
	config   QueuePairConfig
	number   uint32
	receives *softReceiveQueue
	closed   bool
	failed   bool // in the error state: all that follows is flushed
	refusing bool // has refused a message

	// The own wire, on which messages arrive.
	segment       *shm.Segment
	wire          words
	slots         slots
	nonce         uint64
	claimed       bool   // RC: the wire is known to be claimed by the peer that this side connected to
	received      uint64 // messages taken
	reported      uint64 // of them, told in wireHead
	notReadySince int64  // when a message first found no receive; 0 is not now

	// The send queue: requests from scanned to posted have not completed, and
	// those from freed on have their place.
	entries                []softEntry
	reads                  []SendRequest // by the entry's index: READs that wait
	mask, depth            uint64
	posted, scanned, freed uint64

	// RC: the peer, whose wire is written.
	remote       *softRemote
	peerNonce    uint64
	peerNotifier notifierWords // the peer's
	peerSegment  *shm.Segment
	peerWire     words
	options      ConnectOptions
	retryFlags   uint8  // the receiver-not-ready retry count, as flags of slots
	sent         uint64 // messages put on the wire
	taken        uint64 // of them, known to be taken by the peer
	deferred     uint64 // messages up to here have effects that come with their taking
	signaled     int    // requests from scanned on that want a completion
	waiting      int    // of them, READs that are not done yet

	// UD.
	lanes        []softLane
	lanesClaimed int // lanes that senders claimed, as last seen
	nextLane     int // which one the next Poll starts with
	peers        []softPeer

	_ [128]byte // what lies behind may be another thread's
}

// softEntry is a request in a send queue.
type softEntry struct {
	id          uint64
	need        uint64 // messages that the peer must have taken
	length      uint32
	opcode      Opcode
	status      Status
	signaled    bool // wants a completion
	readPending bool // a READ that is not done yet
}

// NewQueuePair implements [Device].
func (d *softDevice) NewQueuePair(c QueuePairConfig) (QueuePair, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	cq, ok := c.Completions.(*softCompletionQueue)
	if !ok || cq.device != d {
		return nil, invalid("completion queue of another device")
	}
	switch {
	case c.SendDepth > softMaxDepth || c.ReceiveDepth > softMaxDepth:
		return nil, invalid("queue of %d requests: the soft device has %d at most", max(c.SendDepth, c.ReceiveDepth), softMaxDepth)
	case c.MaxInline > slotInline:
		return nil, invalid("inline size of %d bytes: the soft device grants %d at most", c.MaxInline, slotInline)
	}
	depth := pow2.Ceil(c.SendDepth)
	q := &softQueuePair{device: d, cq: cq, config: c, nonce: rand.Uint64() | 1,
		entries: make([]softEntry, depth), reads: make([]SendRequest, depth), mask: uint64(depth - 1), depth: uint64(c.SendDepth)}
	if c.Shared == nil {
		q.receives = newSoftReceiveQueue(d, c.ReceiveDepth)
	} else if q.receives, ok = c.Shared.(*softReceiveQueue); !ok || q.receives.device != d {
		return nil, invalid("shared receive queue of another device")
	}
	if err := q.makeWire(depth); err != nil {
		return nil, err
	}
	if err := d.adopt(q, closeQueuePairs); err != nil {
		return nil, errors.Join(err, q.segment.Close())
	}
	d.mu.Lock()
	q.number = d.nextNumber & (1<<24 - 1)
	d.nextNumber++
	d.mu.Unlock()
	cq.pairs = append(cq.pairs, q)
	return q, nil
}

// makeWire creates the segment on which messages arrive.
func (q *softQueuePair) makeWire(depth int) (err error) {
	size := wireHeaderSize + depth*slotSize
	if q.config.Type == UnreliableDatagram {
		if q.config.Peers == 0 {
			q.config.Peers = 64
		}
		depth = q.config.Peers
		size = wireHeaderSize + depth*laneSize
	}
	if q.segment, err = shm.Create("transportbench-wire", size, shm.Memfd); err != nil {
		return err
	}
	if q.wire, err = newWords(q.segment.Bytes(), size); err != nil {
		return err
	}
	*q.wire.plain64(nonceOffset) = q.nonce
	*q.wire.plain32(wireDepth) = uint32(depth)
	*q.wire.plain32(wireQKey) = q.config.QKey
	if q.cq.notifier != nil {
		*q.wire.plain32(wireNotifier) = uint32(q.cq.notifier.index + 1)
	}
	q.wire.store64(wireState, stateOpen)
	q.wire.store64(magicOffset, wireMagic)
	if q.config.Type == ReliableConnected {
		q.slots = newSlots(depth)
		return nil
	}
	q.claimed = true
	q.lanes = make([]softLane, depth)
	for i := range q.lanes {
		q.lanes[i].consumer, err = ring.NewConsumer(laneMemory(q.segment.Bytes(), i), laneAlgorithm, laneGeometry)
		if err != nil {
			return errors.Join(err, q.segment.Close())
		}
	}
	return nil
}

func (q *softQueuePair) MaxInline() int { return q.config.MaxInline }

func (q *softQueuePair) Endpoint() Endpoint {
	return Endpoint{Provider: Soft, Type: q.config.Type, Number: q.number, QKey: q.config.QKey, MTU: softMTU,
		Soft: &SoftEndpoint{Boot: q.device.boot, Device: q.device.nonce, Directory: q.device.directory.Ref(),
			Wire: q.segment.Ref(), Nonce: q.nonce}}
}

// reach opens the remote's device and wire.
func (q *softQueuePair) reach(remote Endpoint) (r *softRemote, segment *shm.Segment, wire words, err error) {
	switch {
	case q.closed:
		return nil, nil, words{}, ErrClosed
	case remote.Provider != Soft || remote.Soft == nil:
		return nil, nil, words{}, fmt.Errorf("%w: its provider is %q, and this one's is %q", ErrPeer, remote.Provider, Soft)
	case remote.Type != q.config.Type:
		return nil, nil, words{}, fmt.Errorf("%w: its queue pair is %v, and this one %v", ErrPeer, remote.Type, q.config.Type)
	}
	if r, err = q.device.openRemote(remote.Soft); err != nil {
		return nil, nil, words{}, err
	}
	if segment, wire, err = openWire(remote.Soft); err != nil {
		return nil, nil, words{}, errors.Join(err, q.device.releaseRemote(r))
	}
	return r, segment, wire, nil
}

// Connect implements [QueuePair].
func (q *softQueuePair) Connect(remote Endpoint, options ConnectOptions) error {
	if q.config.Type != ReliableConnected {
		return invalid("Connect of a %v queue pair", q.config.Type)
	}
	if q.remote != nil {
		return invalid("Connect of a queue pair that is connected")
	}
	options, err := options.complete(q.Endpoint(), remote)
	if err != nil {
		return err
	}
	r, segment, wire, err := q.reach(remote)
	if err != nil {
		return err
	}
	depth := wire.load32(wireDepth)
	if len(segment.Bytes()) != wireHeaderSize+int(depth)*slotSize || int(depth) != len(q.entries) {
		err = fmt.Errorf("%w: its send queue has %d requests and this one's %d; the soft device wants the same", ErrPeer, depth, len(q.entries))
	} else if !wire.swap64(wireClaim, 0, q.nonce) {
		err = fmt.Errorf("%w: another queue pair is connected to it", ErrPeer)
	}
	if err != nil {
		return errors.Join(err, segment.Close(), q.device.releaseRemote(r))
	}
	q.remote, q.peerSegment, q.peerWire, q.options = r, segment, wire, options
	q.peerNotifier = r.notifier(wire)
	q.retryFlags = uint8(options.ReceiverNotReadyRetries) << slotRetries
	q.peerNonce = remote.Soft.Nonce
	return nil
}

// Close implements [QueuePair]. Messages that are on the peer's wire stay there.
func (q *softQueuePair) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	if q.claimed && q.lanes == nil {
		q.reportTaken()
	}
	q.wire.store64(wireState, stateClosed)
	if q.remote != nil {
		q.peerNotifier.notifyIfWaiting(q.peerWire)
	}
	q.cq.signaled -= q.signaled
	q.cq.pairs = slices.DeleteFunc(q.cq.pairs, func(p *softQueuePair) bool { return p == q })
	q.cq.nextPair = 0
	q.device.disown(q)
	errs := []error{q.segment.Close()}
	if q.remote != nil {
		errs = append(errs, q.peerSegment.Close(), q.device.releaseRemote(q.remote))
	}
	for _, p := range q.peers {
		errs = append(errs, p.segment.Close(), q.device.releaseRemote(p.remote))
	}
	return errors.Join(errs...)
}

// Bounce implements [Bouncer] in a word of the responder's wire.
func (q *softQueuePair) Bounce(ctx context.Context, initiate bool, d time.Duration) (transport.Floor, error) {
	if q.peerSegment == nil {
		return transport.Floor{}, errors.New("bounce of a queue pair that is not connected")
	}
	segment := q.segment
	if initiate {
		segment = q.peerSegment
	}
	return floor.Bounce(ctx, shm.Word64(segment.Bytes(), wireProbe), initiate, d)
}
