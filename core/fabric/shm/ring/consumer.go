package ring

import "transportbench/core/fabric/shm"

// Consumer is the reading side of a ring. It belongs to one thread.
type Consumer struct {
	side
	popped   uint64 // messages handed out
	tail     uint64 // Lamport: messages known to be published
	reported uint64 // Onesided: value of head in shared memory

	arenaSize    uint64
	arenaPopped  int // bytes of spilled payloads handed out since the last report
	arenaQuarter int
}

// Message is one message. Its payload lies in the ring and is valid until Release. The other side
// can still write to it, so copy a byte if you read it more than once.
//
// Pop fills a Message that the caller provides. A returned value would be stored field by
// field and then copied with wide loads, which stall on the narrow stores.
type Message struct {
	Kind    Kind
	Token   uint64
	Payload []byte
}

// NewConsumer returns the reading side of a ring; see [NewProducer] for the memory.
func NewConsumer(b []byte, a Algorithm, g Geometry) (*Consumer, error) {
	s, err := newSide(b, a, g)
	if err != nil {
		return nil, err
	}
	return &Consumer{side: s, arenaSize: uint64(g.Arena), arenaQuarter: g.Arena / 4}, nil
}

// ready reports whether the next message has arrived in its slot.
func (c *Consumer) ready(slot uintptr) (bool, error) {
	switch c.algorithm {
	case Lamport:
		if c.popped != c.tail {
			return true, nil
		}
		tail := c.load64(tailOffset) // pairs with the producer's store in Publish
		if tail-c.popped > c.slots {
			return false, ErrCorrupt
		}
		c.tail = tail
		return tail != c.popped, nil
	case FastForward:
		flag := c.load32(slot + flagOffset) // pairs with the producer's store in Push
		if flag > 1 {
			return false, ErrCorrupt
		}
		// If all slots are handed out and not released, the flag belongs to the
		// previous lap.
		return flag == 1 && c.popped-c.released < c.slots, nil
	default:
		flag := c.load32(slot + flagOffset) // pairs with the producer's store in Push
		generation := c.generation(c.popped)
		if flag == generation {
			return true, nil
		}
		if flag != generation-1 {
			return false, ErrCorrupt
		}
		return false, nil
	}
}

// Pop puts the next message into m; ok is false if there is none. It does not allocate.
// It returns ErrCorrupt.
func (c *Consumer) Pop(m *Message) (ok bool, err error) {
	slot := c.slot(c.popped)
	if ok, err = c.ready(slot); !ok || err != nil {
		return false, err
	}
	kind, length, spilled := unpackMeta(*c.plain32(slot + metaOffset))
	if kind != KindA && kind != KindB {
		return false, ErrCorrupt
	}
	m.Kind = kind
	m.Token = *c.plain64(slot + tokenOffset)
	if !spilled {
		if length > InlineSize {
			return false, ErrCorrupt
		}
		m.Payload = c.slice(slot+payloadOffset, length)
	} else {
		offset := *c.plain64(slot + payloadOffset)
		if length > c.maxPayload || offset > c.arenaSize || uint64(length) > c.arenaSize-offset {
			return false, ErrCorrupt
		}
		m.Payload = c.slice(c.arenaBase+uintptr(offset), length)
		c.arenaPopped += length + arenaAlign
	}
	if c.algorithm == FastForward {
		// Release will write to the line, and would wait for its ownership then. To request lines
		// of later slots here or in Push costs more than it gains: it takes them away from the side
		// that still uses them.
		shm.PrefetchWrite(c.plain32(slot))
	}
	c.popped++
	return true, nil
}

// Empty reports whether no message is left to pop. A corrupt ring is not empty.
func (c *Consumer) Empty() bool {
	ready, err := c.ready(c.slot(c.popped))
	return !ready && err == nil
}

// Release returns the slots of all popped messages to the producer. Their payloads are
// no longer valid.
func (c *Consumer) Release() {
	first := c.released
	if first == c.popped {
		return
	}
	c.released = c.popped
	switch c.algorithm {
	case Lamport:
		c.store64(headOffset, c.popped) // pairs with the load in reclaim
	case FastForward:
		// The producer waits for the oldest of these slots. So only that store, the
		// last one, must be ordered; it pairs with the load in Push.
		for position := first + 1; position != c.popped; position++ {
			*c.plain32(c.slot(position) + flagOffset) = 0
		}
		c.store32(c.slot(first)+flagOffset, 0)
	case Onesided:
		if c.popped-c.reported >= c.slots/4 || c.arenaPopped >= c.arenaQuarter &&
			c.arenaPopped > 0 {
			c.store64(headOffset, c.popped) // pairs with the load in reclaim
			c.reported = c.popped
			c.arenaPopped = 0
		}
	}
}
