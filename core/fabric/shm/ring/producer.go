package ring

import "math/bits"

// Producer is the writing side of a ring. It belongs to one thread.
type Producer struct {
	memory
	algorithm Algorithm
	mask      uint64
	lapShift  uint8
	slots     uint64

	pushed    uint64 // messages written
	published uint64 // messages made visible
	released  uint64 // messages known to be released; may lag behind

	maxPayload int
	arenaBase  uintptr
	arena      arena
	spills     []spill // of messages not known to be released, oldest first, circular
	firstSpill uint64
	nextSpill  uint64
}

// spill is a message whose payload is in the arena.
type spill struct {
	position uint64 // of its slot
	end      uint64 // of its stretch
}

// NewProducer makes the writing side over memory that is all zero or was used
// by nobody else. The memory must be aligned to 64 bytes, stay mapped and be
// shared with one consumer of the same algorithm and geometry.
func NewProducer(b []byte, a Algorithm, g Geometry) (*Producer, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	m, err := newMemory(b, g.Bytes())
	if err != nil {
		return nil, err
	}
	p := &Producer{
		memory: m, algorithm: a, mask: uint64(g.Slots - 1), slots: uint64(g.Slots),
		lapShift:   uint8(bits.TrailingZeros(uint(g.Slots))),
		maxPayload: g.MaxPayload(),
		arenaBase:  uintptr(slotsOffset + g.Slots*SlotSize),
		arena:      arena{size: uint64(g.Arena)},
	}
	if g.Arena > 0 {
		p.spills = make([]spill, g.Slots)
	}
	return p, nil
}

func (p *Producer) slot(position uint64) uintptr {
	return slotsOffset + uintptr(position&p.mask)*SlotSize
}

// Push copies a message into the ring; with Lamport it is visible to the
// consumer after Publish, with the others at once. It does not allocate.
// Errors: ErrFull, ErrTooLong, ErrCorrupt.
func (p *Producer) Push(kind Kind, token uint64, payload []byte) error {
	position := p.pushed
	slot := p.slot(position)
	switch {
	case p.algorithm == FastForward:
		// Pairs with the consumer's store in Release: what it read of the
		// slot was read before.
		if flag := p.load32(slot + flagOffset); flag != 0 {
			if flag != 1 {
				return ErrCorrupt
			}
			return ErrFull
		}
	case position-p.released >= p.slots:
		if err := p.reclaim(); err != nil {
			return err
		}
		if position-p.released >= p.slots {
			return ErrFull
		}
	}
	if len(payload) <= InlineSize {
		*p.plain32(slot + metaOffset) = packMeta(kind, len(payload), false)
		*p.plain64(slot + tokenOffset) = token
		copy(p.slice(slot+payloadOffset, InlineSize), payload)
	} else if err := p.spill(slot, kind, token, payload); err != nil {
		return err
	}
	p.pushed = position + 1
	switch p.algorithm {
	case FastForward:
		p.store32(slot+flagOffset, 1) // pairs with the load in ready
		p.published = p.pushed
	case Onesided:
		p.store32(slot+flagOffset, p.generation(position)) // pairs with the load in ready
		p.published = p.pushed
	}
	return nil
}

func (p *Producer) generation(position uint64) uint32 { return uint32(position>>p.lapShift) + 1 }

// spill is Push for a payload that does not fit a slot.
func (p *Producer) spill(slot uintptr, kind Kind, token uint64, payload []byte) error {
	if len(payload) > p.maxPayload {
		return ErrTooLong
	}
	offset, end, ok := p.arena.reserve(len(payload))
	if !ok || p.nextSpill-p.firstSpill == p.slots {
		if err := p.reclaim(); err != nil {
			return err
		}
		if offset, end, ok = p.arena.reserve(len(payload)); !ok {
			return ErrFull
		}
	}
	p.arena.next = end
	p.spills[p.nextSpill&p.mask] = spill{position: p.pushed, end: end}
	p.nextSpill++
	copy(p.slice(p.arenaBase+uintptr(offset), len(payload)), payload)
	*p.plain32(slot + metaOffset) = packMeta(kind, len(payload), true)
	*p.plain64(slot + tokenOffset) = token
	*p.plain64(slot + payloadOffset) = offset
	return nil
}

// Publish makes everything pushed visible to the consumer. It orders what came
// before it and nothing that follows: a later load may be satisfied first.
func (p *Producer) Publish() {
	if p.published == p.pushed {
		return
	}
	p.store64(tailOffset, p.pushed) // pairs with the load in ready
	p.published = p.pushed
}

// reclaim learns how far the consumer has released and takes the arena's
// stretches back.
func (p *Producer) reclaim() error {
	if p.algorithm == FastForward {
		// A slot that was pushed into again proves its last lap released.
		if p.pushed-p.released > p.slots {
			p.released = p.pushed - p.slots
		}
		for p.released < p.pushed && p.load32(p.slot(p.released)+flagOffset) == 0 {
			p.released++
		}
	} else {
		head := p.load64(headOffset) // pairs with the consumer's store in Release
		if head-p.released > p.published-p.released {
			return ErrCorrupt
		}
		p.released = head
	}
	for p.firstSpill != p.nextSpill {
		oldest := p.spills[p.firstSpill&p.mask]
		if oldest.position >= p.released {
			break
		}
		p.arena.freed = oldest.end
		p.firstSpill++
	}
	return nil
}
