package ring

// Producer is the writing side of a ring. It belongs to one thread.
type Producer struct {
	side
	pushed    uint64 // messages written
	published uint64 // messages made visible

	arena      arena
	spills     []spill // of messages not known to be released, oldest first, circular
	firstSpill uint64
	nextSpill  uint64
}

// spill is a message whose payload is in the arena.
type spill struct {
	position uint64 // of its slot
	end      uint64 // position in the arena after its payload
}

// NewProducer returns the writing side of a ring in b, which must be all zero, aligned to
// 64 bytes, and shared with one consumer of the same algorithm and geometry. b must stay
// mapped for as long as the ring is used.
func NewProducer(b []byte, a Algorithm, g Geometry) (*Producer, error) {
	s, err := newSide(b, a, g)
	if err != nil {
		return nil, err
	}
	p := &Producer{side: s, arena: arena{size: uint64(g.Arena)}}
	if g.Arena > 0 {
		p.spills = make([]spill, g.Slots)
	}
	return p, nil
}

// Push copies a message into the ring. With Lamport it is visible to the consumer after
// Publish, with the other algorithms at once. Push does not allocate. It returns ErrFull,
// ErrTooLong or ErrCorrupt.
func (p *Producer) Push(kind Kind, token uint64, payload []byte) error {
	position := p.pushed
	slot := p.slot(position)
	switch {
	case p.algorithm == FastForward:
		// Pairs with the consumer's store in Release, which comes after its reads
		// of the slot.
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

// spill is Push for a payload that does not fit into a slot.
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

// Publish makes everything pushed visible to the consumer. It is a release store: it
// does not order later loads, which the processor may execute first.
func (p *Producer) Publish() {
	if p.published == p.pushed {
		return
	}
	p.store64(tailOffset, p.pushed) // pairs with the load in ready
	p.published = p.pushed
}

// reclaim updates released from the shared memory and frees the arena up to there.
func (p *Producer) reclaim() error {
	if p.algorithm == FastForward {
		// Pushing into a slot again proved that its previous message was released.
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
