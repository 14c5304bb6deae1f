package erpc

import (
	"encoding/binary"
	"hash/crc32"
)

// headerSize is what stands before the data of each packet.
const headerSize = 16

// The fields of a header, little endian:
//
//	 0  check    32 bits
//	 4  request  32 bits
//	 8  session  16 bits, the receiver's number
//	10  kind      4 bits
//	    number   20 bits, of the packet in its exchange
//	    size     24 bits, of the whole message
//
// eRPC's (Kalia et al., NSDI 2019, section 4.3) has the same fields in as many bytes,
// with 44 bits of request, 14 of number, 8 of request type and 4 of magic, and no
// check. A number of 14 bits would end at 8 MiB each way in packets of 1024 bytes.
const (
	numberBits = 20
	sizeBits   = 24

	maxMessage = 1<<sizeBits - 1
	maxPackets = 1 << (numberBits - 1) // of one message
)

// kind says what a packet is.
type kind uint8

const (
	kindRequest  kind = iota + 1 // a piece of a request
	kindPull                     // request for response (RFR): the client asks for the next piece
	kindCredit                   // credit return (CR): the server has a piece that is not the last
	kindResponse                 // a piece of a response
	kindHello                    // handshake: asks for kindWelcome
	kindWelcome                  // handshake
	kindBye                      // the sender is closed
	kindPing                     // heartbeat: asks for kindPong
	kindPong                     // heartbeat
	kindEnd
)

// header is what a packet says of itself.
type header struct {
	request uint32
	session uint16
	kind    kind
	number  uint32
	size    uint32
}

// put writes all of the header but its check.
func (h *header) put(b *[headerSize]byte) {
	binary.LittleEndian.PutUint32(b[4:], h.request)
	binary.LittleEndian.PutUint64(b[8:], uint64(h.session)|uint64(h.kind)<<16|
		uint64(h.number)<<20|uint64(h.size)<<(20+numberBits))
}

// parse reads the header of a packet of at least headerSize bytes.
func parse(b []byte) header {
	word := binary.LittleEndian.Uint64(b[8:])
	return header{
		request: binary.LittleEndian.Uint32(b[4:]),
		session: uint16(word),
		kind:    kind(word >> 16 & 0xf),
		number:  uint32(word >> 20 & (1<<numberBits - 1)),
		size:    uint32(word >> (20 + numberBits)),
	}
}

var castagnoli, ieee = crc32.MakeTable(crc32.Castagnoli), crc32.MakeTable(crc32.IEEE)

// longBody is the length in bytes from which the check takes the body with the polynomial
// of IEEE 802.3 and not that of Castagnoli. Both find the same damage; the processor is
// quicker with the first from some length on, the more so where the data is not in its
// cache, since Go reads it in order and the other in three places at a time.
const longBody = 1 << 10

// checkOf is a CRC-32 that begins with the receiver's key, which it told in the handshake.
// So it shows damage, and a packet of somebody who does not know the key. head is without
// the check.
func checkOf(key uint32, head, body []byte) uint32 {
	check := crc32.Update(key, castagnoli, head)
	if len(body) < longBody {
		return crc32.Update(check, castagnoli, body)
	}
	return crc32.Update(check, ieee, body)
}

// sealPacket writes the check of the header and a body into a header.
func sealPacket(key uint32, head *[headerSize]byte, body []byte) {
	binary.LittleEndian.PutUint32(head[:], checkOf(key, head[4:], body))
}

// sound says whether a packet's check is right. covered is how much of the packet it
// covers.
func sound(key uint32, packet []byte, covered int) bool {
	return checkOf(key, packet[4:headerSize], packet[headerSize:covered]) == binary.LittleEndian.Uint32(packet)
}
