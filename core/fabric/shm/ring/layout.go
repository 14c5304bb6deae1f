package ring

import (
	"errors"
	"fmt"
	"math/bits"
)

// Algorithm is how the two sides of a ring see each other's progress.
type Algorithm uint8

const (
	// Lamport shares two indices. The producer publishes its tail once a
	// batch and keeps a copy of the consumer's head, which it reads again
	// only when the ring looks full; likewise on the other side. Fewest
	// coherence events in batches; a lone message moves two cache lines, the
	// index and the slot. Nothing is visible before the publish. (L. Lamport, "Proving the Correctness of
	// Multiprocess Programs", 1977.)
	Lamport Algorithm = iota
	// FastForward shares no index: the flag of a slot says full or empty and
	// both sides write it. A message is visible as soon as it is pushed.
	// (Giacomoni et al., "FastForward for Efficient Pipeline Parallelism",
	// PPoPP 2008.)
	FastForward
	// Onesided puts a generation number into each slot, which the producer
	// alone writes. A message is visible as soon as it is pushed. The consumer
	// only reads; it tells how far it is once a quarter of the ring, so that in
	// the steady state no line but the slots moves.
	Onesided
)

var algorithmNames = [...]string{Lamport: "lamport", FastForward: "fastforward", Onesided: "onesided"}

func (a Algorithm) String() string { return algorithmNames[a] }

// Algorithms lists the names that [ParseAlgorithm] knows.
func Algorithms() []string { return algorithmNames[:] }

// ParseAlgorithm returns the algorithm of a name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("%q is not a ring algorithm", name)
}

// The layout of a ring, in bytes from its start. Lines that different sides
// write are two cache lines apart, since adjacent lines are fetched in pairs.
const (
	lineSize = 128

	tailOffset  = 0 * lineSize // Lamport: messages published; written by the producer
	headOffset  = 1 * lineSize // Lamport, Onesided: messages released; written by the consumer
	slotsOffset = 2 * lineSize

	// SlotSize is one cache line.
	SlotSize = 64
	// InlineSize is the longest payload that travels in its slot.
	InlineSize = SlotSize - payloadOffset

	// Within a slot.
	flagOffset    = 0 // u32: Onesided generation, FastForward full or empty
	metaOffset    = 4 // u32: length, where the payload is, kind
	tokenOffset   = 8 // u64
	payloadOffset = 16

	// Within the meta word.
	lengthMask   = 1<<29 - 1
	spilledBit   = 1 << 29 // the payload is in the arena; its offset is a u64 at payloadOffset
	kindShift    = 30
	arenaAlign   = 64
	minimumSlots = 4
)

// Kinds of message. What they mean is the caller's affair; zero is not one.
const (
	KindA Kind = 1
	KindB Kind = 2
)

// Kind tells two kinds of message apart.
type Kind uint8

// Errors of a ring.
var (
	// ErrFull: the consumer has to release first. Nothing was pushed.
	ErrFull = errors.New("ring is full")
	// ErrTooLong: the payload is over Geometry.MaxPayload. Nothing was pushed.
	ErrTooLong = errors.New("payload is too long for the ring")
	// ErrCorrupt: the other side left something in the shared memory that no
	// correct side does. The ring must not be used any more.
	ErrCorrupt = errors.New("ring is corrupt")
	// ErrNoCall: the token is of no call that waits for its reply.
	ErrNoCall = errors.New("no call waits for this reply")
)

// Geometry is the size of a ring. Both sides must use the same one.
type Geometry struct {
	Slots int // messages; a power of two, at least 4
	Arena int // bytes for payloads over InlineSize; 0, or a power of two of at least 4*64
}

// Check reports a geometry that no ring can have.
func (g Geometry) Check() error {
	if g.Slots < minimumSlots || bits.OnesCount(uint(g.Slots)) != 1 {
		return fmt.Errorf("%d slots: want a power of two, at least %d", g.Slots, minimumSlots)
	}
	if g.Arena != 0 && (g.Arena < 4*arenaAlign || g.Arena/4 > lengthMask || bits.OnesCount(uint(g.Arena)) != 1) {
		return fmt.Errorf("arena of %d bytes: want 0 or a power of two, at least %d", g.Arena, 4*arenaAlign)
	}
	return nil
}

// Bytes is the memory that a ring takes.
func (g Geometry) Bytes() int { return slotsOffset + g.Slots*SlotSize + g.Arena }

// MaxPayload is the longest payload. A quarter of the arena always finds room
// once the consumer is idle: at most a quarter is released but not yet told,
// and at most another is lost to the wrap.
func (g Geometry) MaxPayload() int { return max(InlineSize, g.Arena/4) }

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

// arena hands out stretches of a circular area, in order, and takes them back
// in order. Positions are virtual: they only grow.
type arena struct {
	size  uint64
	next  uint64 // where the next stretch starts
	freed uint64 // everything before is free
}

// reserve returns the offset of n free bytes that do not straddle the end and
// the position after them; take commits to it.
func (a *arena) reserve(n int) (offset, end uint64, ok bool) {
	need := (uint64(n) + arenaAlign - 1) &^ (arenaAlign - 1)
	start := a.next
	if left := a.size - start&(a.size-1); left < need {
		start += left
	}
	end = start + need
	return start & (a.size - 1), end, end-a.freed <= a.size
}
