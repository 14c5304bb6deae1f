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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealPacket writes the check into a header: a CRC-32C that begins with the
// receiver's key, which it told in the handshake. So it shows damage, and a packet of
// somebody who does not know the key.
func sealPacket(key uint32, head *[headerSize]byte, body []byte) {
	check := crc32.Update(key, castagnoli, head[4:])
	if len(body) > 0 {
		check = crc32.Update(check, castagnoli, body)
	}
	binary.LittleEndian.PutUint32(head[:], check)
}

// sound says whether a packet's check is right. covered is how much of the packet it
// covers.
func sound(key uint32, packet []byte, covered int) bool {
	return crc32.Update(key, castagnoli, packet[4:covered]) == binary.LittleEndian.Uint32(packet)
}
