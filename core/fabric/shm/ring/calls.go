package ring

import (
	"fmt"
	"math/bits"

	"transportbench/core/fabric/pow2"
	"transportbench/core/transport"
)

// CallGeometry is the size of a set of call slots. Both sides must use the same one.
//
// Call slots are for calls with one reply each. A reply overwrites its call in the same slot, so a
// round trip moves its lines back and forth; on the processors measured that costs half as much as
// the lines of two slots, one per direction. Each call names the slot of the next call. So the
// answerer polls one line only and sees calls in the order of posting, whichever slots are free.
// Replies come in any order.
type CallGeometry struct {
	Slots  int  // at least 1; use one more than the calls in flight, unless that is 1
	Wide   bool // slots of two cache lines: if most payloads fit into those only
	Buffer int  // longest payload in bytes; a multiple of 64, or 0 if all fit into slots
}

// The layout of call slots, in bytes from their start.
const (
	// Within a slot.
	stateOffset = 0 // u32: odd for a call, even for a reply; grows by one with each
	sizeOffset  = 4 // u32: bytes of payload; loaded and stored with the state
	nextOffset  = 8 // u32, in a call: the slot of the next call; then payloadOffset

	// Each slot has two buffers for calls and two for replies, used alternately. Once
	// a call is answered the caller may post the next one while the answerer still
	// reads the first one's payload; it can post another one only after the answerer
	// has polled again. The same holds for replies.
	callBuffers = 4
)

// BufferFor returns the shortest Buffer that holds a payload.
func BufferFor(payload int) int { return (payload + arenaAlign - 1) &^ (arenaAlign - 1) }

// BufferWithin returns the largest [CallGeometry.Buffer] with which the buffers of that many slots
// fit into an arena of that many bytes.
func BufferWithin(arena, slots int) int {
	return arena / (callBuffers * slots) &^ (arenaAlign - 1)
}

// Check returns an error if call slots cannot have this geometry.
func (g CallGeometry) Check() error {
	if g.Slots < 1 || g.Slots > 1<<20 {
		return fmt.Errorf("%d call slots: want 1 to %d", g.Slots, 1<<20)
	}
	if g.Buffer < 0 || g.Buffer > lengthMask || g.Buffer%arenaAlign != 0 {
		return fmt.Errorf("buffers of %d bytes: want a multiple of %d", g.Buffer, arenaAlign)
	}
	return nil
}

// Bytes returns how much memory the slots and buffers take.
func (g CallGeometry) Bytes() int {
	return g.Slots * (g.SlotSize() + callBuffers*g.Buffer)
}

// SlotSize returns the bytes of a slot.
func (g CallGeometry) SlotSize() int {
	if g.Wide {
		return 2 * SlotSize
	}
	return SlotSize
}

// InlineSize returns the longest payload that fits into a slot, in bytes.
func (g CallGeometry) InlineSize() int { return g.SlotSize() - payloadOffset }

// MaxPayload returns the longest payload in bytes.
func (g CallGeometry) MaxPayload() int { return max(g.InlineSize(), g.Buffer) }

// calls is what both sides have in common.
type calls struct {
	memory
	geometry   CallGeometry
	slotShift  uint8 // log2 of the bytes of a slot
	inlineSize int
	maxPayload int
	// state has the state of each slot as this side last wrote or saw it. It is
	// private, so that the other side cannot change it.
	state []uint32
	// copies holds the inline payloads that were handed out, by slot, because the other
	// side may overwrite the slot while they are in use.
	copies [][2 * SlotSize]byte
	copied uint64 // inline payloads that the method get has copied to copies
	bytes  uint64 // of these payloads
}

func newCalls(b []byte, g CallGeometry) (calls, error) {
	if err := g.Check(); err != nil {
		return calls{}, err
	}
	m, err := newMemory(b, g.Bytes())
	if err != nil {
		return calls{}, err
	}
	return calls{
		memory: m, geometry: g, slotShift: uint8(bits.TrailingZeros(uint(g.SlotSize()))),
		inlineSize: g.InlineSize(), maxPayload: g.MaxPayload(),
		state: make([]uint32, g.Slots), copies: make([][2 * SlotSize]byte, g.Slots),
	}, nil
}

func (c *calls) slotAt(slot uint32) uintptr { return uintptr(slot) << (c.slotShift & 63) }

// buffer returns the offset of the buffer for a slot in some state. Calls have the states
// 1, 3, 5, 7, ..., replies 2, 4, 6, 8, ...; state modulo 4 selects the buffer.
func (c *calls) buffer(slot, state uint32) uintptr {
	return c.slotAt(uint32(c.geometry.Slots)) +
		(uintptr(slot)*callBuffers+uintptr(state%callBuffers))*uintptr(c.geometry.Buffer)
}

// put writes a payload into a slot and makes it visible with the next state.
func (c *calls) put(slot uint32, payload []byte) {
	at, state := c.slotAt(slot), c.state[slot]+1
	switch {
	case len(payload) <= InlineSize:
		c.copyInline(at+payloadOffset, payload)
	case len(payload) <= c.inlineSize:
		c.copyWide(at+payloadOffset, payload)
	default:
		copy(c.slice(c.buffer(slot, state), len(payload)), payload)
	}
	c.state[slot] = state
	// Pairs with the loads in Drain.
	c.storeRelease64(at+stateOffset, uint64(state)|uint64(len(payload))<<(8*sizeOffset))
}

// get advances the slot at an offset to the state of a word that was loaded from there, and puts
// the payload into e. It returns false if the other side has not advanced the slot by one state.
func (c *calls) get(slot uint32, at uintptr, word uint64, e *transport.Event) bool {
	// No prefetch for the reply or call that this side writes to the same line next: until then the
	// other side looks at the line and takes it back. With the prefetch a round trip between near
	// processors took a third longer.
	state, size := c.state[slot]+1, int(word>>(8*sizeOffset))
	if uint32(word) != state || size > c.maxPayload {
		return false
	}
	c.state[slot] = state
	e.Size = size
	const move = 16 // a longer move that may overlap is a call of memmove
	from, to := c.inline(at, InlineSize), &c.copies[slot]
	*(*[move]byte)(to[:]) = *(*[move]byte)(from)
	*(*[move]byte)(to[move:]) = *(*[move]byte)(from[move:])
	*(*[move]byte)(to[2*move:]) = *(*[move]byte)(from[2*move:])
	// A payload in a buffer comes here for nothing, so that a short one needs one comparison.
	if size > InlineSize {
		if size > c.inlineSize {
			e.Payload = c.slice(c.buffer(slot, state), size)
			return true
		}
		second := c.slice(at+SlotSize, SlotSize)
		for i := 0; i < size-InlineSize; i += move {
			*(*[move]byte)(to[InlineSize+i:]) = *(*[move]byte)(second[i:])
		}
	}
	c.copied++
	c.bytes += uint64(size)
	e.Payload = to[:size:size]
	return true
}

// Copied returns how many payloads this side has copied out of slots, and their bytes.
func (c *calls) Copied() (payloads, bytes uint64) { return c.copied, c.bytes }

// Caller is the side that calls. It belongs to one thread.
type Caller struct {
	calls
	tokens   []uint64
	next     uint32   // slot of the next call, as the previous call named it
	free     []uint32 // a stack, so that lines in the cache are used first
	inFlight []uint32 // slots in the order of posting, circular
	first    uint64   // position of the oldest in inFlight
	last     uint64   // position after the newest in inFlight
	mask     uint64
	quick    int // looks at the oldest call alone before Drain looks at all
}

// NewCaller returns the calling side of call slots in b, which must be all zero, aligned
// to 64 bytes, and shared with one [Answerer]. b must stay mapped for as long as the slots
// are used.
func NewCaller(b []byte, g CallGeometry) (*Caller, error) {
	c, err := newCalls(b, g)
	if err != nil {
		return nil, err
	}
	size := pow2.Ceil(g.Slots + 1)
	caller := &Caller{
		calls: c, tokens: make([]uint64, g.Slots),
		free:     make([]uint32, 0, g.Slots),
		inFlight: make([]uint32, size), mask: uint64(size - 1),
	}
	for slot := g.Slots - 1; slot > 0; slot-- {
		caller.free = append(caller.free, uint32(slot))
	}
	return caller, nil
}

// Call copies a call into a slot; the answerer sees it at once. Call does not allocate. It
// returns ErrFull or ErrTooLong.
func (c *Caller) Call(token uint64, payload []byte) error {
	if len(payload) > c.maxPayload {
		return ErrTooLong
	}
	slot, next := c.next, c.next
	// A single slot is used again for the next call. With more, each call names a free
	// one.
	if last := len(c.free) - 1; last >= 0 {
		next = c.free[last]
		c.free = c.free[:last]
	} else if c.geometry.Slots > 1 || c.first != c.last {
		return ErrFull
	}
	c.next = next
	c.tokens[slot] = token
	c.inFlight[c.last&c.mask] = slot
	c.last++
	*c.plain32(c.slotAt(slot) + nextOffset) = next
	c.put(slot, payload)
	return nil
}

// quickLooks is how many times Drain looks at the oldest call alone, without finding a
// reply, before it looks at all calls. Replies mostly come in order, and each look takes
// the line away from the core that is about to write it.
const quickLooks = 16

// Drain puts replies into events of this peer until it finds none or the events are full. It
// returns the number of events. The token is the call's. Payloads are valid until the next
// Drain. Drain does not allocate. It returns ErrCorrupt.
func (c *Caller) Drain(peer transport.PeerID, events []transport.Event) (n int, err error) {
	for i := c.first; i != c.last; i++ {
		if n == len(events) {
			return n, nil
		}
		slot := c.inFlight[i&c.mask]
		at := c.slotAt(slot)
		word := c.load64(at + stateOffset) // pairs with the store in put
		if uint32(word) == c.state[slot] {
			if c.quick > 0 {
				c.quick--
				return n, nil
			}
			continue
		}
		// Field by field: a literal would be built on the stack with narrow stores, and the wide
		// loads that copy it would stall on them.
		e := &events[n]
		e.Kind = transport.EventResponse
		e.Peer = peer
		e.Token = transport.Token(c.tokens[slot])
		if !c.get(slot, at, word, e) {
			return n, ErrCorrupt
		}
		n++
		for j := i; j != c.first; j-- { // mostly it was the oldest
			c.inFlight[j&c.mask] = c.inFlight[(j-1)&c.mask]
		}
		c.first++
		if c.geometry.Slots > 1 {
			c.free = append(c.free, slot)
		}
	}
	c.quick = quickLooks
	return n, nil
}

// Empty reports whether no reply has arrived. Corrupt slots are not empty.
func (c *Caller) Empty() bool {
	for i := c.first; i != c.last; i++ {
		slot := c.inFlight[i&c.mask]
		if c.load32(c.slotAt(slot)+stateOffset) != c.state[slot] {
			return false
		}
	}
	return true
}

// Answerer is the side that answers. It belongs to one thread.
type Answerer struct {
	calls
	next uint32 // slot of the next call, as the previous call named it
}

// NewAnswerer returns the answering side; see [NewCaller] for the memory.
func NewAnswerer(b []byte, g CallGeometry) (*Answerer, error) {
	c, err := newCalls(b, g)
	return &Answerer{calls: c}, err
}

// Drain is [Caller.Drain] for calls. The token is for Reply.
func (a *Answerer) Drain(peer transport.PeerID, events []transport.Event) (n int, err error) {
	for ; n < len(events); n++ {
		slot := a.next
		state, at := a.state[slot], a.slotAt(slot)
		word := a.load64(at + stateOffset) // pairs with the store in put
		// An odd state: there is a single slot, and its call is not answered yet.
		if uint32(word) == state || state&1 != 0 {
			break
		}
		next := *a.plain32(at + nextOffset)
		e := &events[n] // field by field, as in Caller.Drain
		e.Kind = transport.EventRequest
		e.Peer = peer
		e.Token = transport.Token(slot)
		if !a.get(slot, at, word, e) || next >= uint32(len(a.state)) {
			return n, ErrCorrupt
		}
		a.next = next
	}
	return n, nil
}

// Reply copies the reply to a call into its slot; the caller sees it at once. Reply does
// not allocate. It returns ErrTooLong, or ErrNoCall if no open call has the token.
func (a *Answerer) Reply(token uint64, payload []byte) error {
	if token >= uint64(a.geometry.Slots) || a.state[token]&1 == 0 {
		return ErrNoCall
	}
	if len(payload) > a.maxPayload {
		return ErrTooLong
	}
	a.put(uint32(token), payload)
	return nil
}

// Empty reports whether no call has arrived. A corrupt slot is not empty.
func (a *Answerer) Empty() bool {
	return a.state[a.next]&1 != 0 || a.load32(a.slotAt(a.next)+stateOffset) == a.state[a.next]
}
