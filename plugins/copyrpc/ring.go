package copyrpc

import "encoding/binary"

// The wire format. All numbers are little-endian.
//
// A batch starts at a multiple of 32 bytes of the ring and never straddles its end. A
// batch that would straddle it starts at the beginning of the ring instead, after a
// padding batch that covers the rest. Messages in a batch start at multiples of 8 bytes.
const (
	unit = 32 // bytes; immediates and credits count in units

	// A batch header. A batch ends with its last message.
	headerReturned = 0 // u32: units that the sender has released of the opposite ring, in all
	headerReceives = 4 // u16: receives that it has consumed of the opposite direction, in all
	headerCount    = 6 // u16: messages, or paddingCount
	headerSize     = 8

	maxMessages  = 1<<16 - 2 // of a batch
	paddingCount = 1<<16 - 1

	// A message header: u32 call number and responseBit, u32 bytes of the payload.
	messageHeader = 8
	messageAlign  = 8

	responseBit = 1 << 31

	// A batch of one short message may be sent from its message header on, without the batch
	// header. So 48 bytes fit into one cache line over the soft device. The message header then has
	// this layout; its first 9 bits are the bytes of the payload.
	loneID       = 9  // 14 bits
	loneResponse = 23 // 1 bit
	loneReceives = 24 // 15 bits, as headerReceives
	loneReturned = 39 // 25 bits, as headerReturned

	maxLone         = 1<<9 - 1 // bytes of the payload
	maxLoneCalls    = 1 << 14
	maxLoneReceives = 1<<14 - 1 // that can return at once
	maxLoneReturned = 1<<24 - 1 // units that can return at once
	maxLoneUnits    = (headerSize + messageHeader + maxLone + unit - 1) / unit

	// An immediate is the number of units to advance, one of these, or that of a probe
	// (rdma.IsProbe).
	farewell     = ^uint32(0)
	creditNotice = ^uint32(0) - 1  // credit has arrived by itself
	loneMessage  = ^uint32(0x7fff) // plus units: a lone message
)

// messageSpace returns the bytes that a message takes in a batch.
func messageSpace(payload int) uint64 {
	return uint64(messageHeader+payload+messageAlign-1) &^ (messageAlign - 1)
}

// allowance returns the bytes that a message takes in a batch of its own.
func allowance(payload int) uint64 { return roundUp(headerSize + messageSpace(payload)) }

// roundUp rounds up to whole units.
func roundUp(n uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }

func putMessage(b []byte, id uint32, payload []byte) {
	binary.LittleEndian.PutUint64(b, uint64(id)|uint64(len(payload))<<32)
	copy(b[messageHeader:], payload)
}

func putHeader(b []byte, returned, receives, count uint32) {
	binary.LittleEndian.PutUint64(b, uint64(returned)|uint64(uint16(receives))<<(8*headerReceives)|
		uint64(count)<<(8*headerCount))
}

// packLone returns the header of a lone message. message is its header in a batch.
func packLone(message uint64, returned, receives uint32) uint64 {
	return message>>32 | (message&(maxLoneCalls-1))<<loneID | (message>>31&1)<<loneResponse |
		uint64(receives&(2*maxLoneReceives+1))<<loneReceives | uint64(returned)<<loneReturned
}

// unpackLone returns what packLone has packed, except credit.
func unpackLone(word uint64) (id uint32, length uint64) {
	return uint32(word>>loneID)&(maxLoneCalls-1) | uint32(word>>loneResponse)<<31,
		word & maxLone
}

// loneCredit returns the credit of a lone message. It extends its 25- and 15-bit counts to the
// 32-bit counts nearest to the known ones; at most maxLoneReturned and maxLoneReceives can
// return at once (settings.lone).
func loneCredit(word uint64, units, receives uint32) (newUnits, newReceives uint32) {
	const u, r = 32 - (64 - loneReturned), 32 - (loneReturned - loneReceives)
	return units + uint32(int32((uint32(word>>loneReturned)-units)<<u)>>u),
		receives + uint32(int32((uint32(word>>loneReceives)-receives)<<r)>>r)
}

// cursor is the position of a producer in its ring.
//
// A reply always finds room. Let C be the size of the ring, A the allowance of the largest
// message, and R <= C/2 the room of all responses that may be promised. A call is posted
// only if it ends at most C-R-A after the position that the peer is known to have
// released. A caller has at most R/A calls without a released response, and the header of
// the batch that carries a call reports how far the caller has released. So when a request
// is polled, the replies that are due and those that the caller holds take at most R.
// Calls and what came before them take C-R-A. One padding batch takes less than A because
// it is shorter than the message that did not fit.
type cursor struct {
	start uint64 // of the open batch, a multiple of unit
	next  uint64 // of the next message; start if no batch is open
}

// placement is where a message goes.
type placement struct {
	cursor         // after the message
	message uint64 // position of the message
	padding uint64 // bytes of padding before the batch; 0 for none
	closes  bool   // the open batch has to be closed first
}

// message returns the position of a message in the open batch.
func (c cursor) message() uint64 {
	if c.next == c.start {
		return c.next + headerSize
	}
	return c.next
}

// put returns the placement of a message: in the open batch if it ends before the end of
// the ring, else at the start of the ring.
func (c cursor) put(space, size uint64) (p placement) {
	if at := c.message(); (c.start^(at+space-1))&^(size-1) == 0 {
		return placement{cursor: cursor{start: c.start, next: at + space}, message: at}
	}
	p.closes = c.next != c.start
	p.start = roundUp(c.next)
	p.padding = -p.start & (size - 1)
	p.start += p.padding
	p.message = p.start + headerSize
	p.next = p.message + space
	return p
}

// end returns the position at which the open batch ends.
func (c cursor) end() uint64 { return roundUp(c.next) }
