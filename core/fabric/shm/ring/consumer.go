package ring

import "math/bits"

// Consumer is the reading side of a ring. It belongs to one thread.
type Consumer struct {
	memory
	algorithm Algorithm
	mask      uint64
	lapShift  uint8
	slots     uint64

	popped   uint64 // messages handed out
	released uint64 // messages given back
	tail     uint64 // Lamport: messages known to be published
	told     uint64 // Onesided: released messages that the producer can know of

	maxPayload   int
	arenaBase    uintptr
	arenaSize    uint64
	arenaPopped  int // bytes of spilled payloads handed out since the last tell
	arenaQuarter int
}

// Message is one message. Pop fills one that the caller has: returned by value,
// it would be put together in registers, stored field by field and copied with
// wide loads, which stall on the narrow stores. Its payload lies in the ring and is valid until
// Release; the other side could write to it, so a reader that decides twice on
// the same byte copies it first.
type Message struct {
	Kind    Kind
	Token   uint64
	Payload []byte
}

// NewConsumer makes the reading side; see [NewProducer] for the memory.
func NewConsumer(b []byte, a Algorithm, g Geometry) (*Consumer, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	m, err := newMemory(b, g.Bytes())
	if err != nil {
		return nil, err
	}
	return &Consumer{
		memory: m, algorithm: a, mask: uint64(g.Slots - 1), slots: uint64(g.Slots),
		lapShift:   uint8(bits.TrailingZeros(uint(g.Slots))),
		maxPayload: g.MaxPayload(),
		arenaBase:  uintptr(slotsOffset + g.Slots*SlotSize), arenaSize: uint64(g.Arena),
		arenaQuarter: g.Arena / 4,
	}, nil
}

func (c *Consumer) slot(position uint64) uintptr {
	return slotsOffset + uintptr(position&c.mask)*SlotSize
}

// ready says whether the next message is there.
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
		// A full ring shows slots that were handed out and not given back.
		return flag == 1 && c.popped-c.released < c.slots, nil
	default:
		flag := c.load32(slot + flagOffset) // pairs with the producer's store in Push
		generation := uint32(c.popped>>c.lapShift) + 1
		if flag == generation {
			return true, nil
		}
		if flag != generation-1 {
			return false, ErrCorrupt
		}
		return false, nil
	}
}

// Pop puts the next message into m; ok is false when there is none. It does not
// allocate. Error: ErrCorrupt.
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
	c.popped++
	return true, nil
}

// Empty says whether the producer has published nothing more. It reads the
// shared memory like Pop; a corrupt ring is not empty.
func (c *Consumer) Empty() bool {
	ready, err := c.ready(c.slot(c.popped))
	return !ready && err == nil
}

// Release gives every message handed out back to the producer; their payloads
// are no longer valid.
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
		// The producer stands before the oldest of them, so one ordered store,
		// the last, is enough; it pairs with the load in Push.
		for position := first + 1; position != c.popped; position++ {
			*c.plain32(c.slot(position) + flagOffset) = 0
		}
		c.store32(c.slot(first)+flagOffset, 0)
	case Onesided:
		if c.popped-c.told >= c.slots/4 || c.arenaPopped >= c.arenaQuarter && c.arenaPopped > 0 {
			c.store64(headOffset, c.popped) // pairs with the load in reclaim
			c.told = c.popped
			c.arenaPopped = 0
		}
	}
}
