package soft

import (
	"math/bits"

	"transportbench/core/fabric/rdma"
)

// The layout of the memory that soft devices share, in bytes. Words that different sides
// write are two cache lines apart. Each word except wireClaim is written by one side only.
const (
	// The directory of a device has its regions and its notifiers.
	directoryMagic     = 0x7462_7264_6d61_0002 // "tbrdma", layout 2
	directoryEntries   = 4096                  // offset of the entries, one per region
	entrySize          = 64
	maxRegions         = 1024
	directoryNotifiers = directoryEntries + maxRegions*entrySize
	maxNotifiers       = 256
	notifierSize       = 256
	directorySize      = directoryNotifiers + maxNotifiers*notifierSize

	magicOffset = 0 // u64, of directories and wires
	nonceOffset = 8 // u64, unique to the directory or wire

	// An entry of a directory.
	entryKey     = 0  // u32: 0 if the entry is free
	entryAccess  = 4  // u32
	entryAddress = 8  // u64: in the owner's process
	entryLength  = 16 // u64
	entryFD      = 24 // u32: of the segment, in the owner's process

	// A notifier of a directory.
	notifierSequence = 0   // u32: grows with each Notify; the owner sleeps on it
	notifierWaiting  = 128 // u32: 1 while the owner sleeps or is about to

	// A wire is the memory in which messages to a queue pair arrive. The receiver owns it.
	wireMagic    = 0x7462_7769_7265_0004 // "tbwire", layout 4
	wireDepth    = 16                    // u32: slots of an RC wire, datagram rings of a UD wire
	wireQKey     = 20                    // u32
	wireNotifier = 24                    // u32: index plus 1 of the owner's notifier; 0 for none
	// u64: stateOpen or stateClosed, plus stateWaiting; written by the owner
	wireState = 128
	wireNak   = 136 // u32: Status with which the owner refused a message
	wireHead  = 256 // u64: messages that the owner has taken
	// u64: nonce of the sender's wire; for UD, the number of claimed datagram rings
	wireClaim   = 384
	wireRetries = 392 // u32: receiver-not-ready retry count of the sender
	// The shared line is in the wire of the side with the smaller nonce; see sharedLine.
	wireShared     = 512
	wireSlots      = 4096
	wireHeaderSize = wireSlots

	stateOpen    = 1
	stateClosed  = 2
	stateWaiting = 1 << 32 // a flag: the owner sleeps on its notifier or is about to

	// A slot of an RC wire. A slot has six cache lines; a short message needs the first only. The
	// first word of a message with slotNear has all that a short WRITE WITH IMMEDIATE needs, so the
	// line has room for more of its payload. If a slot had a power of two of lines, the first lines
	// of all slots would compete for a quarter of the cache sets. Each direction has its own slots.
	//
	// The first word of a slot, a u64, see packSlot, is stored last, with release, by WriteInline,
	// putMessage and requestAck. It is loaded by next.
	slotSize        = 6 * 64
	slotImmediate   = 8  // u32
	slotNearPayload = 8  // inline bytes, with slotNear
	slotKey         = 12 // u32: of the region that is written
	slotAddress     = 16 // u64: in it
	slotPayload     = 24 // inline bytes, or the next three
	slotLength      = 24 // u32
	slotLocalKey    = 28 // u32: of the sender's region
	slotLocal       = 32 // u64: address in it
	slotInline      = slotSize - slotPayload

	slotLong = 0xffff // instead of the inline length: the payload is not inline
)

// Flags of a slot, beside its opcode.
const (
	slotOpcode  = 1<<4 - 1
	slotAck     = 1 << 4 // the sender asks for an early update of wireHead
	slotWritten = 1 << 5 // the sender has written the long payload; else the receiver fetches it
	// The message writes to the region of the last WRITE, and the first word has the distance from
	// the address of that one.
	slotNear = 1 << 6
)

// The first word of a slot: u8 generation, u8 opcode and flags, u16 inline length; with slotNear
// also i16 immediate and i16 distance.
const (
	slotFlagsShift     = 8
	slotLengthShift    = 16
	slotImmediateShift = 32
	slotDistanceShift  = 48
)

// packSlot returns the first word of a slot without slotNear. The generation is the number of the
// lap, so the word changes with each use of the slot.
func packSlot(generation uint8, opcode rdma.Opcode, flags uint8, length uint16) uint64 {
	return uint64(generation) | uint64(uint8(opcode)|flags)<<slotFlagsShift |
		uint64(length)<<slotLengthShift
}

func unpackSlot(word uint64) (opcode rdma.Opcode, flags uint8, length uint16) {
	flags = uint8(word >> slotFlagsShift)
	return rdma.Opcode(flags & slotOpcode), flags, uint16(word >> slotLengthShift)
}

// writeTarget is where a WRITE begins. Both sides advance theirs for the same messages, those with
// a payload that the receiver copies: sentTo when the message is put, receivedTo when it is taken.
type writeTarget struct {
	key     uint32
	address uint64
}

// near returns the target at the distance in the first word of a slot.
func (t writeTarget) near(word uint64) writeTarget {
	return writeTarget{t.key, t.address + uint64(int64(word)>>slotDistanceShift)}
}

// sharedLine is a cache line for the short messages of both directions. The side that owns it may
// send its next message there instead of in a slot, which passes the line to the other side. So a
// call and its reply move one line to and fro instead of two.
//
// Each message there has the next generation of the line, and the number of the message tells the
// receiver when to take it. The slot with that number stays as it is. It must not get so old that
// its generation, which has 8 bits, looks new: one lap in sharedLaps uses the slots only.
type sharedLine struct {
	words
	owned      bool  // true before Connect
	generation uint8 // of the next message
}

const sharedLaps = 64

// The first word of the shared line: u8 generation, u16 lower bits of the number of the message, u8
// inline length, i16 immediate and i16 distance.
const (
	sharedNumberShift = 8
	sharedLengthShift = 24
)

// pack returns the first word of the shared line without immediate and distance.
func (l *sharedLine) pack(number uint64, length uint32) uint64 {
	return uint64(l.generation) | uint64(uint16(number))<<sharedNumberShift |
		uint64(length)<<sharedLengthShift
}

// arrived reports whether the message with that number is there. The word is the first one that its
// slot would have.
func (l *sharedLine) arrived(number uint64) (word uint64, ok bool) {
	word = l.load64(0)
	if uint8(word) != l.generation || uint16(word>>sharedNumberShift) != uint16(number) {
		return 0, false
	}
	length := uint16(uint8(word >> sharedLengthShift))
	return word>>slotImmediateShift<<slotImmediateShift |
		packSlot(0, rdma.WriteWithImmediate, slotNear, length), true
}

// pass changes the owner.
func (l *sharedLine) pass() {
	l.owned = !l.owned
	l.generation++
}

// slots is the index arithmetic of a wire.
type slots struct {
	mask     uint64
	lapShift uint8
}

func newSlots(depth int) slots {
	return slots{mask: uint64(depth - 1), lapShift: uint8(bits.TrailingZeros(uint(depth)))}
}

func (s slots) offset(sequence uint64) uintptr {
	return wireSlots + uintptr(sequence&s.mask)*slotSize
}

func (s slots) generation(sequence uint64) uint8 { return uint8(sequence>>(s.lapShift&63)) + 1 }

// A key of a region is its index in the directory and eight bits that invalidate older keys
// of the same index. No key is 0.
const keyShift = 8

func keyIndex(key uint32) uint32 { return key >> keyShift & (maxRegions - 1) }
