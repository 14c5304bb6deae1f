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
	wireMagic    = 0x7462_7769_7265_0002 // "tbwire", layout 2
	wireDepth    = 16                    // u32: slots of an RC wire, datagram rings of a UD wire
	wireQKey     = 20                    // u32
	wireNotifier = 24                    // u32: index plus 1 of the owner's notifier; 0 for none
	// u64: stateOpen or stateClosed, plus stateWaiting; written by the owner
	wireState = 128
	wireNak   = 136 // u32: Status with which the owner refused a message
	wireHead  = 256 // u64: messages that the owner has taken
	// u64: nonce of the sender's wire; for UD, the number of claimed datagram rings
	wireClaim      = 384
	wireSlots      = 4096
	wireHeaderSize = wireSlots

	stateOpen    = 1
	stateClosed  = 2
	stateWaiting = 1 << 32 // a flag: the owner sleeps on its notifier or is about to

	// A slot of an RC wire. A slot has six cache lines; a short message needs the first
	// only. If it had a power of two of lines, the first lines of all slots would compete for
	// a quarter of the cache sets. Each direction has its own slots. One line that passes
	// between the sides was tried: calls of 32 bytes took 10 to 17% less time between far
	// cores, but messages of two lines 5 to 15% more.
	slotSize      = 6 * 64
	slotWord      = 0  // u64, see packSlot; stored last
	slotImmediate = 8  // u32
	slotKey       = 12 // u32: of the region that is written
	slotAddress   = 16 // u64: in it
	slotPayload   = 24 // inline bytes, or the next three
	slotLength    = 24 // u32
	slotLocalKey  = 28 // u32: of the sender's region
	slotLocal     = 32 // u64: address in it
	slotInline    = slotSize - slotPayload

	slotLong = 0xffff // instead of the inline length: the payload is not inline
)

// Flags of a slot. The three bits above them are the sender's
// receiver-not-ready retry count.
const (
	slotAck     = 1 << 0 // the sender asks for an early update of wireHead
	slotWritten = 1 << 1 // the sender has written the long payload; else the receiver fetches it
	slotRetries = 2      // shift
)

// packSlot returns the first word of a slot. The generation is the number of the lap, so
// the word changes with each use of the slot.
func packSlot(generation uint32, opcode rdma.Opcode, flags uint8, length uint16) uint64 {
	return uint64(generation) | uint64(opcode)<<32 | uint64(flags)<<40 | uint64(length)<<48
}

func unpackSlot(word uint64) (opcode rdma.Opcode, flags uint8, length uint16) {
	return rdma.Opcode(word >> 32), uint8(word >> 40), uint16(word >> 48)
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

// A key of a region is its index in the directory and eight bits that invalidate older keys
// of the same index. No key is 0.
const keyShift = 8

func keyIndex(key uint32) uint32 { return key >> keyShift & (maxRegions - 1) }
