package ring

import "transportbench/core/transport"

// Producer is the writing side of a ring. It belongs to one thread.
type Producer interface {
	// Push copies a message into the ring. It does not allocate. It returns ErrFull, ErrTooLong or
	// ErrCorrupt.
	Push(kind Kind, token uint64, payload []byte) error
	// Publish makes everything pushed visible to the consumer. It is a release store: it does not
	// order later loads, which the processor may execute first. It does nothing for the algorithms
	// whose messages are visible once they are pushed.
	Publish()
}

// NewProducer returns the writing side of a ring in b, which must be all zero, aligned to
// 64 bytes, and shared with one consumer of the same algorithm and geometry. b must stay
// mapped for as long as the ring is used.
func NewProducer(b []byte, a Algorithm, g Geometry) (Producer, error) {
	p, err := newProducer(b, g)
	if err != nil {
		return nil, err
	}
	switch a {
	case FastForward:
		return &FastForwardProducer{producer: p}, nil
	case Onesided:
		return &OnesidedProducer{producer: p}, nil
	default:
		return &lamportProducer{producer: p}, nil
	}
}

// producer is what the producers of all algorithms have in common.
type producer struct {
	side
	pushed uint64 // position after the messages written

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

func newProducer(b []byte, g Geometry) (producer, error) {
	s, err := newSide(b, g)
	if err != nil {
		return producer{}, err
	}
	p := producer{side: s, arena: arena{size: uint64(g.Arena)}}
	if g.Arena > 0 {
		p.spills = make([]spill, p.lines)
	}
	return p, nil
}

// putInline writes a message with a payload of at most InlineSize bytes, except flag and meta.
func (p *producer) putInline(slot uintptr, token uint64, payload []byte) {
	*p.plain64(slot + tokenOffset) = token
	p.copyInline(slot+payloadOffset, payload)
}

// putWide writes a message with a longer payload that fits into a wide slot, except flag and meta.
func (p *producer) putWide(slot uintptr, token uint64, payload []byte) {
	p.copyWide(slot+payloadOffset, payload)
	*p.plain64(slot + tokenOffset) = token
}

// putSpilled writes a message with a longer payload, except flag and meta. It returns false if the
// arena has no room.
func (p *producer) putSpilled(slot uintptr, token uint64, payload []byte) bool {
	offset, end, ok := p.arena.reserve(len(payload))
	if !ok || p.nextSpill-p.firstSpill == p.lines {
		return false
	}
	p.arena.next = end
	p.spills[p.nextSpill&p.mask] = spill{position: p.pushed, end: end}
	p.nextSpill++
	copy(p.slice(p.arenaBase+uintptr(offset), len(payload)), payload)
	*p.plain64(slot + tokenOffset) = token
	*p.plain64(slot + payloadOffset) = offset
	return true
}

// freeSpills frees the arena up to the message before released.
func (p *producer) freeSpills() {
	for p.firstSpill != p.nextSpill {
		oldest := p.spills[p.firstSpill&p.mask]
		if oldest.position >= p.released {
			break
		}
		p.arena.tail = oldest.end
		p.firstSpill++
	}
}

// readHead updates released from the consumer's head, which is at most published.
func (p *producer) readHead(published uint64) error {
	head := p.load64(headOffset) // pairs with the consumer's store in Release
	if head-p.released > published-p.released || !p.aligned(head) {
		return ErrCorrupt
	}
	p.released = head
	p.freeSpills()
	return nil
}

// lamportProducer is the producer of [Lamport].
type lamportProducer struct {
	producer
	published uint64 // position after the messages made visible
}

// Push implements [Producer].
func (p *lamportProducer) Push(kind Kind, token uint64, payload []byte) error {
	if p.pushed-p.released >= p.lines {
		if err := p.readHead(p.published); err != nil {
			return err
		}
		if p.pushed-p.released >= p.lines {
			return ErrFull
		}
	}
	slot := p.slot(p.pushed)
	if len(payload) <= InlineSize {
		p.putInline(slot, token, payload)
	} else if err := p.putLongHead(p.published, slot, token, payload); err != nil {
		return err
	}
	*p.plain32(slot + metaOffset) = packMeta(kind, len(payload), len(payload) > p.inlineSize)
	p.pushed += p.step
	return nil
}

// Publish implements [Producer].
func (p *lamportProducer) Publish() {
	if p.published == p.pushed {
		return
	}
	p.storeRelease64(tailOffset, p.pushed) // pairs with the load in ready
	p.published = p.pushed
}

// Posted counts what PushBatch has pushed.
type Posted struct{ Messages, Payloads, Bytes uint64 }

// OnesidedProducer is the producer of [Onesided].
type OnesidedProducer struct {
	producer
	posted Posted
}

// NewOnesidedProducer is [NewProducer] for that algorithm.
func NewOnesidedProducer(b []byte, g Geometry) (*OnesidedProducer, error) {
	p, err := newProducer(b, g)
	return &OnesidedProducer{producer: p}, err
}

// Posted returns what PushBatch has pushed so far.
func (p *OnesidedProducer) Posted() Posted { return p.posted }

// Push implements [Producer].
func (p *OnesidedProducer) Push(kind Kind, token uint64, payload []byte) error {
	ops := [1]transport.Op{{Kind: transport.OpKind(kind), Token: transport.Token(token),
		Payload: payload}}
	_, err := p.PushBatch(ops[:])
	return err
}

// PushBatch pushes the first ops that are for the same peer. It returns how many it has pushed, and
// the error of the op that it could not push. The kinds of ops have the numbers of message kinds;
// for another kind it returns ErrKind.
func (p *OnesidedProducer) PushBatch(ops []transport.Op) (n int, err error) {
	position, full := p.pushed, p.released+p.lines
	payloads, bytes := 0, 0
	for ; n < len(ops) && ops[n].Peer == ops[0].Peer; n++ {
		op := &ops[n]
		if position == full {
			if err = p.readHead(position); err != nil {
				break
			}
			if full = p.released + p.lines; position == full {
				err = ErrFull
				break
			}
		}
		if !Kind(op.Kind).valid() {
			err = ErrKind
			break
		}
		slot, meta := p.slot(position), packMeta(Kind(op.Kind), len(op.Payload), false)
		if len(op.Payload) <= InlineSize {
			*p.plain64(slot + tokenOffset) = uint64(op.Token)
			p.copyInline(slot+payloadOffset, op.Payload)
		} else {
			p.pushed = position
			if err = p.putLongHead(position, slot, uint64(op.Token), op.Payload); err != nil {
				break
			}
			meta = packMeta(Kind(op.Kind), len(op.Payload), len(op.Payload) > p.inlineSize)
			full = p.released + p.lines
		}
		// Pairs with the loads in ready and Drain.
		p.storeRelease64(slot+flagOffset, uint64(p.generation(position))|uint64(meta)<<metaShift)
		position += p.step
		bytes += len(op.Payload)
		if len(op.Payload) > 0 {
			payloads++
		}
	}
	p.pushed = position
	p.posted.Messages += uint64(n)
	p.posted.Payloads += uint64(payloads)
	p.posted.Bytes += uint64(bytes)
	return n, err
}

// Publish implements [Producer].
func (p *OnesidedProducer) Publish() {}

// putLongHead writes a message with a payload of more than InlineSize bytes, except flag and meta,
// in a ring with a head.
func (p *producer) putLongHead(published uint64, slot uintptr, token uint64, payload []byte) error {
	if len(payload) <= p.inlineSize {
		p.putWide(slot, token, payload)
		return nil
	}
	if len(payload) > p.maxPayload {
		return ErrTooLong
	}
	if p.putSpilled(slot, token, payload) {
		return nil
	}
	if err := p.readHead(published); err != nil {
		return err
	}
	if !p.putSpilled(slot, token, payload) {
		return ErrFull
	}
	return nil
}

// FastForwardProducer is the producer of [FastForward].
type FastForwardProducer struct {
	producer
	posted Posted
}

// NewFastForwardProducer is [NewProducer] for that algorithm.
func NewFastForwardProducer(b []byte, g Geometry) (*FastForwardProducer, error) {
	p, err := newProducer(b, g)
	return &FastForwardProducer{producer: p}, err
}

// Posted is [OnesidedProducer.Posted].
func (p *FastForwardProducer) Posted() Posted { return p.posted }

// PushBatch is [OnesidedProducer.PushBatch].
func (p *FastForwardProducer) PushBatch(ops []transport.Op) (n int, err error) {
	position, step := p.pushed, p.step
	payloads, bytes := 0, 0
	for ; n < len(ops) && ops[n].Peer == ops[0].Peer; n++ {
		op, slot := &ops[n], p.slot(position)
		flag := p.load32(slot + flagOffset) // as in Push
		kind, length := Kind(op.Kind), len(op.Payload)
		if flag != 0 || !kind.valid() || length > InlineSize {
			p.pushed = position
			if !kind.valid() {
				err = ErrKind
			} else {
				err = p.Push(kind, uint64(op.Token), op.Payload)
			}
			if err != nil {
				break
			}
			position = p.pushed
		} else {
			*p.plain64(slot + tokenOffset) = uint64(op.Token)
			p.copyInline(slot+payloadOffset, op.Payload)
			position += step
			// Pairs with the load in ready, and in Drain.
			p.storeRelease64(slot+flagOffset, 1|uint64(packMeta(kind, length, false))<<metaShift)
		}
		bytes += length
		if length > 0 {
			payloads++
		}
	}
	p.pushed = position
	p.posted.Messages += uint64(n)
	p.posted.Payloads += uint64(payloads)
	p.posted.Bytes += uint64(bytes)
	return n, err
}

// Push implements [Producer].
func (p *FastForwardProducer) Push(kind Kind, token uint64, payload []byte) error {
	slot := p.slot(p.pushed)
	// Pairs with the consumer's store in Release, which comes after its reads of the slot.
	if flag := p.load32(slot + flagOffset); flag != 0 {
		if flag != 1 {
			return ErrCorrupt
		}
		return ErrFull
	}
	if len(payload) <= InlineSize {
		p.putInline(slot, token, payload)
	} else if err := p.putLong(slot, token, payload); err != nil {
		return err
	}
	p.pushed += p.step
	// Pairs with the loads in ready and Drain, which loads flag and meta as one word.
	meta := packMeta(kind, len(payload), len(payload) > p.inlineSize)
	p.storeRelease64(slot+flagOffset, 1|uint64(meta)<<metaShift)
	return nil
}

// putLong writes a message with a payload of more than InlineSize bytes, except flag and meta.
func (p *FastForwardProducer) putLong(slot uintptr, token uint64, payload []byte) error {
	if len(payload) <= p.inlineSize {
		p.putWide(slot, token, payload)
		return nil
	}
	if len(payload) > p.maxPayload {
		return ErrTooLong
	}
	if p.putSpilled(slot, token, payload) {
		return nil
	}
	// Pushing into a slot again proved that its previous message was released.
	if p.pushed-p.released > p.lines {
		p.released = p.pushed - p.lines
	}
	// The load pairs with the consumer's store in Release, as in Push.
	for p.released < p.pushed && p.load32(p.slot(p.released)+flagOffset) == 0 {
		p.released += p.step
	}
	p.freeSpills()
	if !p.putSpilled(slot, token, payload) {
		return ErrFull
	}
	return nil
}

// Publish implements [Producer].
func (p *FastForwardProducer) Publish() {}
