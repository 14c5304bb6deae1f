package copyrpc

import "encoding/binary"

// The wire format. All numbers are little-endian.
//
// A batch starts at a multiple of 32 bytes of the ring and never straddles its
// end; a batch that would is begun at the ring's start instead, after a filler
// batch that covers the rest. Messages within a batch start at multiples of 8.
const (
	unit = 32 // bytes; what immediates and credits count in

	// A batch header.
	headerReturned = 0  // u32: units of the other direction's ring that the sender has let go, in all
	headerReceives = 4  // u32: receives that it has taken off the other direction, in all
	headerCount    = 8  // u32: messages, or fillerCount
	headerLength   = 12 // u32: bytes of the batch with its header
	headerSize     = 16

	fillerCount = ^uint32(0)

	// A message header.
	messageID     = 0 // u32: the caller's slot, and responseBit
	messageLength = 4 // u32: bytes of the payload
	messageHeader = 8
	messageAlign  = 8

	responseBit = 1 << 31

	// An immediate is the units to advance, or farewell.
	farewell = ^uint32(0)
)

// messageSpace is the room of a message within a batch.
func messageSpace(payload int) uint64 {
	return uint64(messageHeader+payload+messageAlign-1) &^ (messageAlign - 1)
}

// allowance is the room of a message that has a batch of its own.
func allowance(payload int) uint64 { return roundUp(headerSize + messageSpace(payload)) }

// roundUp rounds to whole units.
func roundUp(n uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }

func putMessage(b []byte, id uint32, payload []byte) {
	binary.LittleEndian.PutUint64(b, uint64(id)|uint64(len(payload))<<32)
	copy(b[messageHeader:], payload)
}

func putHeader(b []byte, returned, receives, count, length uint32) {
	_ = b[headerSize-1]
	binary.LittleEndian.PutUint64(b, uint64(returned)|uint64(receives)<<32)
	binary.LittleEndian.PutUint64(b[headerCount:], uint64(count)|uint64(length)<<32)
}
