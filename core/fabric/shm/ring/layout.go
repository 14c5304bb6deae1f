package ring

import (
	"errors"
	"fmt"
	"math/bits"

	"transportbench/core/fabric/pow2"
	"transportbench/core/transport"
)

// Algorithm is how the two sides of a ring learn of each other's progress.
type Algorithm uint8

const (
	// Lamport shares two indices. The producer publishes its tail once per batch and
	// keeps a copy of the consumer's head, which it reloads only when the ring looks
	// full; the consumer does the same with the tail. It has the fewest coherence
	// events per batch, but a lone message moves two cache lines: index and slot.
	// Messages are visible after Publish. (L. Lamport, "Proving the Correctness of
	// Multiprocess Programs", 1977.)
	Lamport Algorithm = iota
	// FastForward shares no index: the flag of a slot is full or empty, and both sides
	// write it. Messages are visible as soon as they are pushed. (Giacomoni et al.,
	// "FastForward for Efficient Pipeline Parallelism", PPoPP 2008.)
	FastForward
	// Onesided has a generation number in each slot, which only the producer writes.
	// Messages are visible as soon as they are pushed. The consumer only reads slots; it
	// stores its head once per quarter of the ring, so that in steady state only slots
	// move between the cores.
	Onesided
)

var algorithmNames = [...]string{Lamport: "lamport", FastForward: "fastforward",
	Onesided: "onesided"}

func (a Algorithm) String() string { return algorithmNames[a] }

// Algorithms returns the names that [ParseAlgorithm] accepts.
func Algorithms() []string { return algorithmNames[:] }

// ParseAlgorithm returns the algorithm with that name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("%q is not a ring algorithm (%v)", name, algorithmNames)
}

// The layout of a ring, in bytes from its start. Words that different sides write are
// two cache lines apart, because processors prefetch adjacent lines in pairs.
const (
	// lineSize keeps words apart. Elsewhere a line is one cache line, of 64 bytes.
	lineSize = 128

	tailOffset  = 0 * lineSize // Lamport: lines published; written by the producer
	headOffset  = 1 * lineSize // Lamport, Onesided: lines released; written by the consumer
	slotsOffset = 2 * lineSize

	// SlotSize is one cache line, and that of a wide slot two.
	SlotSize = 64
	// InlineSize is the longest payload that fits into a slot, and WideInlineSize that of a wide
	// one.
	InlineSize     = SlotSize - payloadOffset
	WideInlineSize = 2*SlotSize - payloadOffset

	// Within a slot.
	flagOffset    = 0 // u32: the generation (Onesided), or full or empty (FastForward)
	metaOffset    = 4 // u32: length, spilledBit, kind; stored with the flag, except in Lamport
	tokenOffset   = 8 // u64
	payloadOffset = 16

	// Within the meta word.
	metaShift    = 8 * metaOffset // of meta in a u64 at flagOffset
	lengthMask   = 1<<29 - 1
	spilledBit   = 1 << 29 // the payload is in the arena; its offset is a u64 at payloadOffset
	kindShift    = 30
	arenaAlign   = 64
	minimumSlots = 4
)

// Kinds of message. They have the numbers of the kinds of ops and events, which PushBatch and Drain
// convert; a caller of Push and Pop may give them another meaning. Zero is not a kind.
const (
	KindA = Kind(transport.OpCall)
	KindB = Kind(transport.OpReply)
)

// These do not compile if ops and events are numbered differently.
var (
	_ = [1]struct{}{}[KindA-Kind(transport.EventRequest)]
	_ = [1]struct{}{}[KindB-Kind(transport.EventResponse)]
)

// Kind tells two kinds of message apart.
type Kind uint8

// valid reports whether k is KindA or KindB, with one comparison: less than KindA wraps around.
func (k Kind) valid() bool { return k-KindA <= KindB-KindA }

// Errors of a ring.
var (
	// ErrFull means that the consumer must release messages first. Nothing was pushed.
	ErrFull = errors.New("ring is full")
	// ErrTooLong means that the payload is longer than Geometry.MaxPayload. Nothing was
	// pushed.
	ErrTooLong = errors.New("payload is too long for the ring")
	// ErrKind means that the message is of another kind than the two. Nothing was pushed.
	ErrKind = errors.New("no kind of message")
	// ErrCorrupt means that the shared memory holds something that no correct peer
	// writes. The ring must not be used any more.
	ErrCorrupt = errors.New("ring is corrupt")
	// ErrNoCall means that no open call has this token.
	ErrNoCall = errors.New("no call waits for this reply")
)

// Geometry is the size of a ring. Both sides must use the same one.
type Geometry struct {
	Slots int  // messages; a power of two, at least 4
	Wide  bool // slots of two cache lines: for rings of which most payloads fit into those only
	Arena int  // bytes for payloads that do not fit: 0, or a power of two of at least 256
}

// Check returns an error if no ring can have this geometry.
func (g Geometry) Check() error {
	if g.Slots < minimumSlots || !pow2.Is(g.Slots) {
		return fmt.Errorf("%d slots: want a power of two, at least %d", g.Slots, minimumSlots)
	}
	if g.Arena != 0 && (g.Arena < 4*arenaAlign || g.Arena/4 > lengthMask || !pow2.Is(g.Arena)) {
		return fmt.Errorf("arena of %d bytes: want 0 or a power of two, at least %d", g.Arena,
			4*arenaAlign)
	}
	return nil
}

// Bytes returns how much memory a ring takes.
func (g Geometry) Bytes() int { return slotsOffset + g.Slots*g.SlotSize() + g.Arena }

// SlotSize returns the bytes of a slot.
func (g Geometry) SlotSize() int {
	if g.Wide {
		return 2 * SlotSize
	}
	return SlotSize
}

// lines returns the cache lines of all slots.
func (g Geometry) lines() int { return g.Slots * g.SlotSize() / SlotSize }

// InlineSize returns the longest payload that fits into a slot, in bytes.
func (g Geometry) InlineSize() int { return g.SlotSize() - payloadOffset }

// SlotOffset returns where the slot of a message begins, in bytes from the start of the ring. Here
// a position counts messages, from 0; inside the package it counts lines (see side).
func (g Geometry) SlotOffset(position uint64) int {
	return slotsOffset + int(position&uint64(g.Slots-1))*g.SlotSize()
}

// MaxPayload returns the longest payload in bytes. A quarter of the arena fits as soon as the
// consumer is idle: less than a quarter is released but not yet reported, less than a quarter is
// left unused at the end when an allocation wraps, and the payload takes at most a third quarter.
func (g Geometry) MaxPayload() int { return max(g.InlineSize(), g.Arena/4) }

// side is what the producer and the consumer of a ring have in common.
type side struct {
	memory
	lapShift uint8
	// A position counts lines: a message in a wide slot takes two of them, and step is 2.
	step       uint64
	inlineSize int
	mask       uint64
	lines      uint64 // of all slots
	released   uint64 // position that the consumer has released, as far as this side knows
	maxPayload int
	arenaBase  uintptr
}

func newSide(b []byte, g Geometry) (side, error) {
	if err := g.Check(); err != nil {
		return side{}, err
	}
	m, err := newMemory(b, g.Bytes())
	if err != nil {
		return side{}, err
	}
	lines := g.lines()
	return side{
		memory: m, mask: uint64(lines - 1), lines: uint64(lines),
		lapShift: uint8(bits.TrailingZeros(uint(lines))),
		step:     uint64(g.SlotSize() / SlotSize), inlineSize: g.InlineSize(),
		maxPayload: g.MaxPayload(),
		arenaBase:  uintptr(slotsOffset + g.Slots*g.SlotSize()),
	}, nil
}

// aligned reports whether a message can begin at a position, which may come from the peer.
func (s *side) aligned(position uint64) bool { return position&(s.step-1) == 0 }

// slot returns the offset of the slot for a position.
func (s *side) slot(position uint64) uintptr {
	return slotsOffset + uintptr(position&s.mask)*SlotSize
}

// generation returns the flag of a position's slot once the message is there (Onesided).
func (s *side) generation(position uint64) uint32 { return uint32(position>>(s.lapShift&63)) + 1 }

func packMeta(kind Kind, length int, spilled bool) uint32 {
	meta := uint32(kind)<<kindShift | uint32(length)
	if spilled {
		meta |= spilledBit
	}
	return meta
}

func unpackMeta(meta uint32) (kind Kind, length int, spilled bool) {
	return Kind(meta >> kindShift), int(meta & lengthMask), meta&spilledBit != 0
}

// arena allocates from a circular area and frees in the order of allocation. Positions
// only grow; their offset in the area is the position modulo size.
type arena struct {
	size uint64
	next uint64 // where the next allocation starts
	tail uint64 // everything before is free
}

// reserve returns the offset of n free bytes that do not straddle the end of the area,
// and the position after them. The caller allocates them by storing end in next.
func (a *arena) reserve(n int) (offset, end uint64, ok bool) {
	need := (uint64(n) + arenaAlign - 1) &^ (arenaAlign - 1)
	start := a.next
	if left := a.size - start&(a.size-1); left < need {
		start += left
	}
	end = start + need
	return start & (a.size - 1), end, end-a.tail <= a.size
}
