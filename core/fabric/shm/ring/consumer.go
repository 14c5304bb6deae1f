package ring

import (
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// Consumer is the reading side of a ring. It belongs to one thread. Payloads lie in the ring and
// are valid until Release; the other side can still write to them, so copy a byte if you read it
// more than once.
type Consumer interface {
	// Pop puts the next message into m; ok is false if there is none. It does not allocate. It
	// returns ErrCorrupt.
	Pop(m *Message) (ok bool, err error)
	// Drain calls Release, and then pops messages into events of this peer until none is left or
	// the events are full. It returns the number of events. An event's kind has the number of the
	// message's.
	Drain(peer transport.PeerID, events []transport.Event) (n int, err error)
	// Empty reports whether no message is left to pop. A corrupt ring is not empty.
	Empty() bool
	// Release returns the slots of all popped messages to the producer.
	Release()
}

// Message is one message.
//
// Pop fills a Message that the caller provides. A returned value would be stored field by
// field and then copied with wide loads, which stall on the narrow stores.
type Message struct {
	Kind    Kind
	Token   uint64
	Payload []byte
}

// NewConsumer returns the reading side of a ring; see [NewProducer] for the memory.
func NewConsumer(b []byte, a Algorithm, g Geometry) (Consumer, error) {
	c, err := newConsumer(b, g)
	if err != nil {
		return nil, err
	}
	switch a {
	case FastForward:
		return &FastForwardConsumer{c}, nil
	case Onesided:
		return &onesidedConsumer{c}, nil
	default:
		return &lamportConsumer{consumer: c}, nil
	}
}

// consumer is what the consumers of all algorithms have in common.
type consumer struct {
	side
	popped uint64 // position after the messages handed out

	due          uint64 // Onesided: the value of popped from which on Release reports it
	arenaSize    uint64
	arenaPopped  int // Onesided: bytes of spilled payloads handed out since the last report
	arenaQuarter int
}

func newConsumer(b []byte, g Geometry) (consumer, error) {
	s, err := newSide(b, g)
	return consumer{side: s, due: s.lines / 4, arenaSize: uint64(g.Arena),
		arenaQuarter: g.Arena / 4}, err
}

// take returns the next message, which has arrived. ok is false if it is corrupt.
func (c *consumer) take() (kind Kind, token uint64, payload []byte, ok bool) {
	slot := c.slot(c.popped)
	kind, length, spilled := unpackMeta(*c.plain32(slot + metaOffset))
	if !kind.valid() {
		return 0, 0, nil, false
	}
	if !spilled && length <= InlineSize {
		payload = c.inline(slot, length)
	} else {
		var err error
		if payload, err = c.long(slot, length, spilled); err != nil {
			return 0, 0, nil, false
		}
	}
	c.popped += c.step
	return kind, *c.plain64(slot + tokenOffset), payload, true
}

// long returns the payload of a message that does not fit into a line: it is in a wide slot, or in
// the arena. It returns ErrCorrupt for one that should be there and is not.
func (c *consumer) long(slot uintptr, length int, spilled bool) ([]byte, error) {
	if !spilled && length <= c.inlineSize {
		return c.slice(slot+payloadOffset, length), nil
	}
	offset := *c.plain64(slot + payloadOffset)
	if !spilled || length > c.maxPayload || offset > c.arenaSize ||
		uint64(length) > c.arenaSize-offset {
		return nil, ErrCorrupt
	}
	if c.arenaPopped += length + arenaAlign; c.arenaPopped >= c.arenaQuarter {
		c.due = 0
	}
	return c.slice(c.arenaBase+uintptr(offset), length), nil
}

// pop is Pop for a message that has arrived.
func (c *consumer) pop(m *Message) (ok bool, err error) {
	if m.Kind, m.Token, m.Payload, ok = c.take(); !ok {
		return false, ErrCorrupt
	}
	return true, nil
}

// drain is one step of Drain for a message that has arrived. It assigns field by field because a
// literal would be built on the stack with narrow stores, and the wide loads that copy it would
// stall on them.
func (c *consumer) drain(peer transport.PeerID, e *transport.Event) error {
	kind, token, payload, ok := c.take()
	if !ok {
		return ErrCorrupt
	}
	e.Kind = transport.EventKind(kind)
	e.Peer = peer
	e.Token = transport.Token(token)
	e.Payload = payload
	e.Size = len(payload)
	return nil
}

// lamportConsumer is the consumer of [Lamport].
type lamportConsumer struct {
	consumer
	tail uint64 // position after the messages known to be published
}

// ready reports whether the next message has arrived.
func (c *lamportConsumer) ready() (bool, error) {
	if c.popped != c.tail {
		return true, nil
	}
	tail := c.load64(tailOffset) // pairs with the producer's store in Publish
	if tail-c.popped > c.lines || !c.aligned(tail) {
		return false, ErrCorrupt
	}
	c.tail = tail
	return tail != c.popped, nil
}

// Pop implements [Consumer].
func (c *lamportConsumer) Pop(m *Message) (ok bool, err error) {
	if ok, err = c.ready(); !ok {
		return false, err
	}
	return c.pop(m)
}

// Drain implements [Consumer].
func (c *lamportConsumer) Drain(peer transport.PeerID, events []transport.Event) (n int,
	err error) {
	c.Release()
	for ; n < len(events); n++ {
		if ok, err := c.ready(); !ok {
			return n, err
		}
		if err := c.drain(peer, &events[n]); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Empty implements [Consumer].
func (c *lamportConsumer) Empty() bool {
	ready, err := c.ready()
	return !ready && err == nil
}

// Release implements [Consumer].
func (c *lamportConsumer) Release() {
	if c.released != c.popped {
		c.released = c.popped
		c.storeRelease64(headOffset, c.popped) // pairs with the load in readHead
	}
}

// onesidedConsumer is the consumer of [Onesided].
type onesidedConsumer struct{ consumer }

// ready reports whether the next message has arrived.
func (c *onesidedConsumer) ready() (bool, error) {
	flag := c.load32(c.slot(c.popped) + flagOffset) // pairs with the producer's store in PushBatch
	generation := c.generation(c.popped)
	if flag == generation {
		return true, nil
	}
	if flag != generation-1 {
		return false, ErrCorrupt
	}
	return false, nil
}

// Pop implements [Consumer].
func (c *onesidedConsumer) Pop(m *Message) (ok bool, err error) {
	if ok, err = c.ready(); !ok {
		return false, err
	}
	return c.pop(m)
}

// Drain implements [Consumer]. It repeats Pop inline, because plugins/shm uses it for single calls
// with long payloads. One load shows whether a message has arrived, its length and its kind.
func (c *onesidedConsumer) Drain(peer transport.PeerID, events []transport.Event) (n int,
	err error) {
	c.Release()
	position := c.popped
	for ; n < len(events); n++ {
		slot, generation := c.slot(position), c.generation(position)
		word := c.load64(slot + flagOffset) // pairs with the producer's store in PushBatch
		if flag := uint32(word); flag != generation {
			if flag != generation-1 {
				err = ErrCorrupt
			}
			break
		}
		kind, length, spilled := unpackMeta(uint32(word >> metaShift))
		var payload []byte
		if !spilled && length <= InlineSize {
			payload = c.inline(slot, length)
		} else if payload, err = c.long(slot, length, spilled); err != nil {
			break
		}
		if !kind.valid() {
			err = ErrCorrupt
			break
		}
		e := &events[n]
		e.Kind = transport.EventKind(kind)
		e.Peer = peer
		e.Token = transport.Token(*c.plain64(slot + tokenOffset))
		e.Payload = payload
		e.Size = length
		position += c.step
	}
	c.popped = position
	return n, err
}

// Empty implements [Consumer].
func (c *onesidedConsumer) Empty() bool {
	ready, err := c.ready()
	return !ready && err == nil
}

// Release implements [Consumer]. It reports a quarter of the slots, or of the arena, at a time.
func (c *onesidedConsumer) Release() {
	if c.popped < c.due {
		return
	}
	c.storeRelease64(headOffset, c.popped) // pairs with the load in readHead
	c.due = c.popped + c.lines/4
	c.arenaPopped = 0
}

// FastForwardConsumer is the consumer of [FastForward].
type FastForwardConsumer struct{ consumer }

// NewFastForwardConsumer is [NewConsumer] for that algorithm.
func NewFastForwardConsumer(b []byte, g Geometry) (*FastForwardConsumer, error) {
	c, err := newConsumer(b, g)
	return &FastForwardConsumer{c}, err
}

// ready reports whether the next message has arrived.
func (c *FastForwardConsumer) ready() (bool, error) {
	flag := c.load32(c.slot(c.popped) + flagOffset) // pairs with the producer's store in Push
	if flag > 1 {
		return false, ErrCorrupt
	}
	// If all slots are handed out and not released, the flag belongs to the previous lap.
	return flag == 1 && c.popped-c.released < c.lines, nil
}

// prefetch requests ownership of the next message's line: Release writes to it and would wait for
// it then. Requesting lines of later slots, here or in Push, costs more than it gains, because it
// takes them from the side that still uses them.
func (c *FastForwardConsumer) prefetch() { shm.PrefetchWrite(c.plain32(c.slot(c.popped))) }

// Pop implements [Consumer].
func (c *FastForwardConsumer) Pop(m *Message) (ok bool, err error) {
	if ok, err = c.ready(); !ok {
		return false, err
	}
	c.prefetch()
	return c.pop(m)
}

// Drain implements [Consumer].
func (c *FastForwardConsumer) Drain(peer transport.PeerID, events []transport.Event) (n int,
	err error) {
	c.Release()
	position, full, step, inline := c.popped, c.released+c.lines, c.step, c.inlineSize
	for ; n < len(events); n++ {
		slot := c.slot(position)
		word := c.load64(slot + flagOffset) // pairs with the producer's store in Push and PushBatch
		kind, length, spilled := unpackMeta(uint32(word >> metaShift))
		if uint32(word) != 1 || spilled || length > inline || !kind.valid() ||
			position == full {
			c.popped = position
			if ok, err := c.ready(); !ok {
				return n, err
			}
			if err := c.drain(peer, &events[n]); err != nil {
				return n, err
			}
			position = c.popped
			continue
		}
		shm.PrefetchWrite(c.plain32(slot)) // as in Pop
		e := &events[n]
		e.Kind = transport.EventKind(kind)
		e.Peer = peer
		e.Token = transport.Token(*c.plain64(slot + tokenOffset))
		e.Payload = c.slice(slot+payloadOffset, length)
		e.Size = length
		position += step
	}
	c.popped = position
	return n, nil
}

// Empty implements [Consumer].
func (c *FastForwardConsumer) Empty() bool {
	ready, err := c.ready()
	return !ready && err == nil
}

// Release implements [Consumer].
func (c *FastForwardConsumer) Release() {
	first, end, step := c.released, c.popped, c.step
	if first == end {
		return
	}
	c.released = end
	// Push, PushBatch and putLong look at slots in order, so none looks at a later one before the
	// producer has seen the first free. So only that store, the last one, must be ordered; it pairs
	// with their loads.
	for position := first + step; position != end; position += step {
		*c.plain32(c.slot(position) + flagOffset) = 0
	}
	c.storeRelease32(c.slot(first)+flagOffset, 0)
}
