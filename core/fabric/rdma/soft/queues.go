package soft

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/internal/objects"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
)

// completionQueue stores no entries. Its Poll checks the wires and send queues of its
// queue pairs, which is when the soft device makes progress.
type completionQueue struct {
	device   *softDevice
	capacity int
	pairs    []*queuePair
	nextPair int // index of the pair with which the next Poll starts
	signaled int // outstanding signaled requests
	polls    uint
	notifier *softNotifier // nil without a notifier
	closed   bool

	_ [128]byte // keeps memory of other threads out of the last cache lines
}

// NewCompletionQueue implements [Device].
func (d *softDevice) NewCompletionQueue(capacity int) (rdma.CompletionQueue, error) {
	if err := d.Attributes().CheckCapacity("completion queue", capacity,
		d.Attributes().MaxCompletions); err != nil {
		return nil, err
	}
	c := &completionQueue{device: d, capacity: capacity}
	return c, d.Adopt(c, objects.Queues)
}

func (c *completionQueue) Close() error {
	if len(c.pairs) > 0 {
		return rdma.Invalid("Close of a completion queue with %d open queue pairs", len(c.pairs))
	}
	c.closed = true
	c.device.Disown(c)
	return nil
}

// receiveQueue is a receive queue, shared or of one queue pair.
type receiveQueue struct {
	device   *softDevice
	queue    []rdma.ReceiveRequest // its length is a power of two
	head     uint64                // of the oldest
	tail     uint64
	capacity uint64
	closed   bool

	_ [128]byte // keeps memory of other threads out of the last cache lines
}

// NewSharedReceiveQueue implements [Device].
func (d *softDevice) NewSharedReceiveQueue(capacity int) (rdma.SharedReceiveQueue, error) {
	if err := d.Attributes().CheckCapacity("shared receive queue", capacity,
		d.Attributes().MaxShared); err != nil {
		return nil, err
	}
	r := newReceiveQueue(d, capacity)
	return r, d.Adopt(r, objects.Queues)
}

func newReceiveQueue(d *softDevice, capacity int) *receiveQueue {
	return &receiveQueue{device: d, queue: make([]rdma.ReceiveRequest, pow2.Ceil(capacity)),
		capacity: uint64(capacity)}
}

func (r *receiveQueue) Close() error {
	r.closed = true
	r.device.Disown(r)
	return nil
}

// queuePair is a queue pair. Sending is in send_datapath.go, receiving in
// receive_datapath.go, UD in datagram.go.
type queuePair struct {
	device   *softDevice
	cq       *completionQueue
	config   rdma.QueuePairConfig
	number   uint32
	receives *receiveQueue
	closed   bool
	failed   bool // in the error state: everything that follows is flushed
	refusing bool // has refused a message and takes no more

	// The own wire, on which messages arrive.
	segment    *shm.Segment
	wire       words
	slots      slots
	nonce      uint64
	claimed    bool        // RC: the peer of Connect is known to have claimed the wire
	received   uint64      // messages taken
	reported   uint64      // the part of received that wireHead reports
	receivedTo writeTarget // of the last WRITE with a payload in its slot
	// Offset of the last line of a slot that the last message needed, 0 or 64. At 0, touch loads
	// from the line that is loaded anyway.
	lastLine uintptr
	// Unix ns at which the next message first found no receive; 0 if it did not
	notReadySince int64

	// The send queue. Requests from scanned to posted have not completed; those from retired
	// on occupy their entries.
	entries                  []sendEntry
	reads                    []rdma.SendRequest // by index of the entry: pending READs
	mask, depth              uint64
	posted, scanned, retired uint64

	// RC: the peer and its wire.
	peer      peerLink
	peerNonce uint64
	options   rdma.ConnectOptions
	sent      uint64      // messages put on the peer's wire
	taken     uint64      // the part of sent that the peer is known to have taken
	deferred  uint64      // messages before this one take effect only when the peer takes them
	sentTo    writeTarget // of the last WRITE with a payload in its slot
	shared    sharedLine
	signaled  int // signaled requests from scanned on
	waiting   int // pending READs from scanned on

	copies, copiedBytes, syscalls uint64 // see WorkOf

	// UD.
	rings        []*ring.FastForwardConsumer
	ringsClaimed int // rings that senders have claimed, as of the last Poll
	nextRing     int // ring with which the next Poll starts
	peers        []datagramPeer

	_ [128]byte // keeps memory of other threads out of the last cache lines
}

// sendEntry is an entry of a send queue.
type sendEntry struct {
	id          uint64
	need        uint64 // messages that the peer must have taken before this completes
	length      uint32
	opcode      rdma.Opcode
	status      rdma.Status
	signaled    bool
	readPending bool // a READ that waits for earlier messages to be taken
}

// NewQueuePair implements [Device].
func (d *softDevice) NewQueuePair(c rdma.QueuePairConfig) (rdma.QueuePair, error) {
	if err := c.Check(d.Attributes()); err != nil {
		return nil, err
	}
	cq, ok := c.Completions.(*completionQueue)
	if !ok || cq.device != d {
		return nil, rdma.Invalid("completion queue of another device")
	}
	if c.MaxInline > slotInline {
		return nil, rdma.Invalid("inline size of %d bytes: the soft device grants %d at most",
			c.MaxInline, slotInline)
	}
	depth := pow2.Ceil(c.SendDepth)
	q := &queuePair{device: d, cq: cq, config: c, nonce: rand.Uint64() | 1,
		entries: make([]sendEntry, depth), reads: make([]rdma.SendRequest, depth),
		mask: uint64(depth - 1), depth: uint64(c.SendDepth)}
	if c.Shared == nil {
		q.receives = newReceiveQueue(d, c.ReceiveDepth)
	} else if q.receives, ok = c.Shared.(*receiveQueue); !ok || q.receives.device != d {
		return nil, rdma.Invalid("shared receive queue of another device")
	}
	if err := q.makeWire(depth); err != nil {
		return nil, err
	}
	if err := d.Adopt(q, objects.QueuePairs); err != nil {
		return nil, errors.Join(err, q.segment.Close())
	}
	d.Mu.Lock()
	q.number = d.nextNumber & (1<<24 - 1)
	d.nextNumber++
	d.Mu.Unlock()
	cq.pairs = append(cq.pairs, q)
	q.shared = sharedLine{owned: true, generation: 1}
	return q, nil
}

// makeWire creates the segment on which messages arrive.
func (q *queuePair) makeWire(depth int) (err error) {
	size := wireHeaderSize + depth*slotSize
	if q.config.Type == rdma.UnreliableDatagram {
		if q.config.Peers == 0 {
			q.config.Peers = 64
		}
		depth = q.config.Peers
		size = wireHeaderSize + depth*datagramRingSize
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
	if q.config.Type == rdma.ReliableConnected {
		q.slots = newSlots(depth)
		return nil
	}
	q.claimed = true
	q.rings = make([]*ring.FastForwardConsumer, depth)
	for i := range q.rings {
		q.rings[i], err = ring.NewFastForwardConsumer(datagramRingMemory(q.segment.Bytes(), i),
			datagramRingGeometry)
		if err != nil {
			return errors.Join(err, q.segment.Close())
		}
	}
	return nil
}

func (q *queuePair) MaxInline() int { return q.config.MaxInline }

func (q *queuePair) Endpoint() rdma.Endpoint {
	return rdma.Endpoint{Provider: rdma.Soft, Type: q.config.Type, Number: q.number,
		QKey: q.config.QKey,
		MTU:  mtu,
		Soft: &rdma.SoftEndpoint{Boot: q.device.boot, Device: q.device.nonce,
			Directory: q.device.directory.Ref(),
			Wire:      q.segment.Ref(), Nonce: q.nonce}}
}

// reach opens the device and wire of a remote queue pair.
func (q *queuePair) reach(remote rdma.Endpoint) (l peerLink, err error) {
	if q.closed {
		return l, rdma.ErrClosed
	}
	if err = q.Endpoint().CheckRemote(remote); err != nil {
		return l, err
	}
	if remote.Soft == nil {
		return l, fmt.Errorf("%w: its endpoint has no soft part", rdma.ErrPeer)
	}
	return q.device.openLink(remote.Soft)
}

// Connect implements [QueuePair].
func (q *queuePair) Connect(remote rdma.Endpoint, options rdma.ConnectOptions) error {
	if q.config.Type != rdma.ReliableConnected {
		return rdma.Invalid("Connect of a %v queue pair", q.config.Type)
	}
	if q.peer.remote != nil {
		return rdma.Invalid("Connect of a queue pair that is connected")
	}
	options, err := options.Complete(q.Endpoint(), remote)
	if err != nil {
		return err
	}
	l, err := q.reach(remote)
	if err != nil {
		return err
	}
	depth := l.wire.load32(wireDepth)
	if len(l.segment.Bytes()) != wireHeaderSize+int(depth)*slotSize ||
		int(depth) != len(q.entries) {
		err = fmt.Errorf(
			"%w: its send queue has %d requests, this one %d; the soft device needs the same depth",
			rdma.ErrPeer, depth, len(q.entries))
	} else if !l.wire.swap64(wireClaim, 0, q.nonce) {
		err = fmt.Errorf("%w: another queue pair is connected to it", rdma.ErrPeer)
	}
	if err != nil {
		return errors.Join(err, q.device.closeLink(&l))
	}
	q.peer, q.options = l, options
	l.wire.store32(wireRetries, uint32(options.ReceiverNotReadyRetries))
	q.peerNonce = remote.Soft.Nonce
	// A queue pair that is connected to itself never owns the line.
	if q.shared.words = q.wire.at(wireShared); q.nonce >= q.peerNonce {
		q.shared.words, q.shared.owned = l.wire.at(wireShared), false
	}
	return nil
}

// Close implements [QueuePair]. Messages on the peer's wire stay there.
func (q *queuePair) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	if q.claimed && q.rings == nil {
		q.reportTaken()
	}
	q.wire.store64(wireState, stateClosed)
	if q.peer.remote != nil {
		q.syscalls += q.peer.notify()
	}
	q.cq.signaled -= q.signaled
	q.cq.pairs = slices.DeleteFunc(q.cq.pairs, func(p *queuePair) bool { return p == q })
	q.cq.nextPair = 0
	q.device.Disown(q)
	errs := []error{q.segment.Close()}
	if q.peer.remote != nil {
		errs = append(errs, q.device.closeLink(&q.peer))
	}
	for i := range q.peers {
		errs = append(errs, q.device.closeLink(&q.peers[i].peerLink))
	}
	return errors.Join(errs...)
}
