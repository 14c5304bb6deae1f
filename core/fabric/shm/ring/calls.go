package ring

import (
	"fmt"
	"math/bits"

	"transportbench/core/fabric/shm"
)

// CallGeometry is the size of a set of call slots. Both sides must use the
// same one.
//
// Call slots are for calls with one reply each. A reply takes the place of its
// call in the same cache line, so that a round trip moves one line back and
// forth: on the processors measured, half of what two lines cost, one for each
// direction. Each call names the slot of the next, so that the answerer looks at
// one line only and sees calls in the order of posting, whichever slots are
// free. Replies come in any order.
type CallGeometry struct {
	Slots  int // at least 1; calls in flight, and one more where that is over 1
	Buffer int // bytes of the longest payload that does not fit a slot; a multiple of 64, or 0
}

// The layout of call slots, in bytes from their start.
const (
	// Within a slot.
	stateOffset       = 0 // u32: odd for a call, even for a reply; grows by one with each
	sizeOffset        = 4 // u32: bytes of payload
	nextOffset        = 8 // u32: of a call: the slot of the one after it
	callPayloadOffset = 16

	// CallInlineSize is the longest payload that travels in its slot.
	CallInlineSize = SlotSize - callPayloadOffset

	// Each slot has two buffers for calls and two for replies, which take
	// turns: the reply to a call lets the caller post the next one while the
	// answerer still reads the payload, and the one after that only when the
	// answerer has polled again; likewise on the other side.
	callBuffers = 4
)

// Check reports a geometry that call slots cannot have.
func (g CallGeometry) Check() error {
	if g.Slots < 1 || g.Slots > 1<<20 {
		return fmt.Errorf("%d call slots: want 1 to %d", g.Slots, 1<<20)
	}
	if g.Buffer < 0 || g.Buffer > lengthMask || g.Buffer%arenaAlign != 0 {
		return fmt.Errorf("buffers of %d bytes: want a multiple of %d", g.Buffer, arenaAlign)
	}
	return nil
}

// Bytes is the memory that the slots take.
func (g CallGeometry) Bytes() int {
	return g.Slots * (SlotSize + callBuffers*g.Buffer)
}

// MaxPayload is the longest payload.
func (g CallGeometry) MaxPayload() int { return max(CallInlineSize, g.Buffer) }

// calls is what both sides know of the slots.
type calls struct {
	memory
	geometry CallGeometry
	// state of each slot as this side last wrote or saw it. It is private:
	// nothing that the other side writes is taken for it unchecked.
	state []uint32
	// copies has the inline payloads that were handed out, a slot's worth
	// each, since the other side may reuse the line before they are let go.
	copies []byte
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
		memory: m, geometry: g,
		state: make([]uint32, g.Slots), copies: make([]byte, g.Slots*CallInlineSize),
	}, nil
}

func slotAt(slot uint32) uintptr { return uintptr(slot) * SlotSize }

// buffer returns where the payload of a slot's state lies. States 1, 5, 9, ...
// and 3, 7, 11, ... are calls, 2, 6, 10, ... and 4, 8, 12, ... replies: each has
// one of the four.
func (c *calls) buffer(slot, state uint32) uintptr {
	return uintptr(c.geometry.Slots)*SlotSize +
		(uintptr(slot)*callBuffers+uintptr(state%callBuffers))*uintptr(c.geometry.Buffer)
}

// put writes a payload into a slot and makes it visible with the next state.
func (c *calls) put(slot uint32, payload []byte) {
	at, state := slotAt(slot), c.state[slot]+1
	if len(payload) <= CallInlineSize {
		copy(c.slice(at+callPayloadOffset, CallInlineSize), payload)
	} else {
		copy(c.slice(c.buffer(slot, state), len(payload)), payload)
	}
	*c.plain32(at + sizeOffset) = uint32(len(payload))
	c.state[slot] = state
	c.store32(at+stateOffset, state) // pairs with the load in arrived
}

// arrived says whether the other side has moved the slot on by one state.
func (c *calls) arrived(slot uint32) (bool, error) {
	switch c.load32(slotAt(slot)+stateOffset) - c.state[slot] { // pairs with the store in put
	case 0:
		return false, nil
	case 1:
		return true, nil
	default:
		return false, ErrCorrupt
	}
}

// get moves a slot on to the state that has arrived and returns its payload.
func (c *calls) get(slot uint32) ([]byte, error) {
	at := slotAt(slot)
	// This side writes into the same line next, a reply or another call.
	shm.PrefetchWrite(c.plain32(at))
	state := c.state[slot] + 1
	size := int(*c.plain32(at + sizeOffset))
	if size > c.geometry.MaxPayload() {
		return nil, ErrCorrupt
	}
	c.state[slot] = state
	if size > CallInlineSize {
		return c.slice(c.buffer(slot, state), size), nil
	}
	payload := (*[CallInlineSize]byte)(c.copies[slot*CallInlineSize:])
	*payload = *(*[CallInlineSize]byte)(c.slice(at+callPayloadOffset, CallInlineSize))
	return payload[:size:size], nil
}

// Caller is the side that calls. It belongs to one thread.
type Caller struct {
	calls
	tokens   []uint64
	next     uint32   // where the next call goes, as the last one said
	free     []uint32 // a stack, so that hot lines are used first
	inFlight []uint32 // slots in the order of posting, circular
	first    uint64   // of inFlight
	last     uint64   // after the last of inFlight
	mask     uint64
	patience int // looks at the oldest call alone that are left
	cursor   uint64
}

// NewCaller makes the calling side over memory that is all zero. The memory
// must be aligned to 64 bytes, stay mapped and be shared with one [Answerer].
func NewCaller(b []byte, g CallGeometry) (*Caller, error) {
	c, err := newCalls(b, g)
	if err != nil {
		return nil, err
	}
	size := 1 << bits.Len(uint(g.Slots))
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

// Call copies a call into a slot; it is visible at once. It does not allocate.
// Errors: ErrFull, ErrTooLong.
func (c *Caller) Call(token uint64, payload []byte) error {
	if len(payload) > c.geometry.MaxPayload() {
		return ErrTooLong
	}
	slot, next := c.next, c.next
	// With a single slot, the next call goes where this one is. With more, one
	// is always free to be named.
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
	*c.plain32(slotAt(slot) + nextOffset) = next
	c.put(slot, payload)
	return nil
}

// fullLook is how many times Pop looks at the oldest call alone, and finds no
// reply, before it looks at all of them: replies mostly come in order, and
// looking at a line takes it away from who is about to write it.
const fullLook = 16

// Pop puts the next reply into m; ok is false when there is none, or none that
// it looked at. Its token is the call's, and its payload is valid until the next
// call of Pop after one that found nothing. It does not allocate. Error:
// ErrCorrupt.
func (c *Caller) Pop(m *Message) (ok bool, err error) {
	for ; c.first+c.cursor != c.last; c.cursor++ {
		slot := c.inFlight[(c.first+c.cursor)&c.mask]
		ok, err := c.arrived(slot)
		if err != nil {
			return false, err
		}
		if !ok {
			if c.patience > 0 {
				c.patience--
				return false, nil
			}
			continue
		}
		if m.Payload, err = c.get(slot); err != nil {
			return false, err
		}
		m.Kind, m.Token = KindB, c.tokens[slot]
		c.take()
		if c.geometry.Slots > 1 {
			c.free = append(c.free, slot)
		}
		return true, nil
	}
	c.cursor = 0
	c.patience = fullLook
	return false, nil
}

// take removes the call at the cursor, which is mostly the oldest.
func (c *Caller) take() {
	for i := c.cursor; i > 0; i-- {
		c.inFlight[(c.first+i)&c.mask] = c.inFlight[(c.first+i-1)&c.mask]
	}
	c.first++
}

// Empty says whether no reply has arrived; corrupt slots are not empty.
func (c *Caller) Empty() bool {
	for i := c.first; i != c.last; i++ {
		slot := c.inFlight[i&c.mask]
		if c.load32(slotAt(slot)+stateOffset) != c.state[slot] {
			return false
		}
	}
	return true
}

// Answerer is the side that is called. It belongs to one thread.
type Answerer struct {
	calls
	next uint32 // where the next call arrives, as the last one said
}

// NewAnswerer makes the answering side; see [NewCaller] for the memory.
func NewAnswerer(b []byte, g CallGeometry) (*Answerer, error) {
	c, err := newCalls(b, g)
	return &Answerer{calls: c}, err
}

// Pop puts the next call into m; ok is false when there is none. Its token is for
// Reply, and its payload is valid until the next call of Pop after one that
// found nothing. It does not allocate. Error: ErrCorrupt.
func (a *Answerer) Pop(m *Message) (ok bool, err error) {
	slot := a.next
	if a.state[slot]&1 != 0 { // the single slot, and its call has no reply yet
		return false, nil
	}
	if ok, err = a.arrived(slot); !ok {
		return false, err
	}
	next := *a.plain32(slotAt(slot) + nextOffset)
	if next >= uint32(a.geometry.Slots) {
		return false, ErrCorrupt
	}
	if m.Payload, err = a.get(slot); err != nil {
		return false, err
	}
	a.next = next
	m.Kind, m.Token = KindA, uint64(slot)
	return true, nil
}

// Reply copies the reply to a call into its slot; it is visible at once. It
// does not allocate. Errors: ErrTooLong, and ErrNoCall for a token that no
// open call has.
func (a *Answerer) Reply(token uint64, payload []byte) error {
	if token >= uint64(a.geometry.Slots) || a.state[token]&1 == 0 {
		return ErrNoCall
	}
	if len(payload) > a.geometry.MaxPayload() {
		return ErrTooLong
	}
	a.put(uint32(token), payload)
	return nil
}

// Empty says whether no call has arrived; a corrupt slot is not empty.
func (a *Answerer) Empty() bool {
	return a.state[a.next]&1 != 0 || a.load32(slotAt(a.next)+stateOffset) == a.state[a.next]
}
