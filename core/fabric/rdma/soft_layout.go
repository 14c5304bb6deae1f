package rdma

import "math/bits"

// The layout of what soft devices share, in bytes. Words that different sides
// write are two cache lines apart. Each is written by one side only, but for
// claims.
const (
	// A directory tells peers where a device's regions lie, and has its notifiers.
	directoryMagic     = 0x7462_7264_6d61_0002 // "tbrdma", layout 2
	directoryEntries   = 4096                  // its header's size, and where entries start
	entrySize          = 64
	maxRegions         = 1024
	directoryNotifiers = directoryEntries + maxRegions*entrySize
	maxNotifiers       = 256
	notifierSize       = 256
	directorySize      = directoryNotifiers + maxNotifiers*notifierSize

	magicOffset = 0 // u64, of directories and wires
	nonceOffset = 8 // u64, tells this one from every other

	// Within a directory's entry.
	entryKey     = 0  // u32: 0 where there is no region
	entryAccess  = 4  // u32
	entryAddress = 8  // u64: in the owner's process
	entryLength  = 16 // u64
	entryFD      = 24 // u32: of the segment, in the owner's process

	// Within a notifier.
	notifierSequence = 0   // u32: grows when it is rung; the word to sleep on
	notifierWaiting  = 128 // u32: 1 while its owner sleeps, or is about to

	// A wire is where a queue pair's messages arrive; it belongs to the
	// receiving side.
	wireMagic      = 0x7462_7769_7265_0002 // "tbwire", layout 2
	wireDepth      = 16                    // u32: slots of an RC wire, lanes of a UD wire
	wireQKey       = 20                    // u32
	wireNotifier   = 24                    // u32: which of its device's notifiers its owner sleeps on, from 1; 0 is none
	wireState      = 128                   // u64: stateOpen or stateClosed, and stateWaiting; written by the owner
	wireNak        = 136                   // u32: Status by which the owner refused a message
	wireHead       = 256                   // u64: messages taken; written by the owner
	wireClaim      = 384                   // u64: nonce of the sender's own wire; of a UD wire the lanes claimed
	wireProbe      = 512                   // u64: the line of Bounce
	wireSlots      = 4096
	wireHeaderSize = wireSlots

	stateOpen    = 1
	stateClosed  = 2
	stateWaiting = 1 << 32 // besides: the owner sleeps on its notifier, or is about to

	// Within a slot of an RC wire. A slot is six cache lines, of which a short
	// message needs the first. With a power of two the first lines of all slots
	// would meet in a quarter of the cache, and drive each other out of it.
	slotSize      = 6 * 64
	slotWord      = 0  // u64, see packSlot; stored last
	slotImmediate = 8  // u32
	slotKey       = 12 // u32: of the region that is written
	slotAddress   = 16 // u64: in it
	slotPayload   = 24 // inline bytes; or
	slotLength    = 24 // u32
	slotLocalKey  = 28 // u32: of the sender's region
	slotLocal     = 32 // u64: address in it
	slotInline    = slotSize - slotPayload
	slotFirst     = 64 - slotPayload // of them, those in the line of the first word

	slotLong = 0xffff // in place of the inline length
)

// Flags of a slot. The three bits above them are the sender's
// receiver-not-ready retry count.
const (
	slotAck     = 1 << 0 // the sender wants to know soon that it was taken
	slotWritten = 1 << 1 // a long payload is where it belongs; otherwise the receiver fetches it
	slotRetries = 2      // shift
)

// packSlot makes a slot's first word. The generation is that of the lap, so that
// the word changes with each use of the slot.
func packSlot(generation uint32, opcode Opcode, flags uint8, length uint16) uint64 {
	return uint64(generation) | uint64(opcode)<<32 | uint64(flags)<<40 | uint64(length)<<48
}

func unpackSlot(word uint64) (opcode Opcode, flags uint8, length uint16) {
	return Opcode(word >> 32), uint8(word >> 40), uint16(word >> 48)
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

func (s slots) generation(sequence uint64) uint32 { return uint32(sequence>>(s.lapShift&63)) + 1 }

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// A key of a region is its place in the directory and eight bits that make an
// old key of the same place wrong. None is 0.
const keyShift = 8

func keyIndex(key uint32) uint32 { return key >> keyShift & (maxRegions - 1) }

// covers says whether length bytes at address lie within a region, and where.
func covers(base, size, address uint64, length uint32) (offset uint64, ok bool) {
	offset = address - base
	return offset, address >= base && offset <= size && uint64(length) <= size-offset
}
