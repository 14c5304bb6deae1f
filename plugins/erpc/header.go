package erpc

import (
	"encoding/binary"
	"hash/crc32"
)

// headerSize is the size in bytes of the header of each packet.
const headerSize = 16

// The fields of a header, little endian:
//
//	 0  checksum 32 bits
//	 4  request  32 bits
//	 8  session  16 bits, the receiver's number for it
//	10  kind      4 bits
//	    number   20 bits, of the packet in its RPC
//	    size     24 bits, of the whole message
//
// eRPC's header (Kalia et al., NSDI 2019, section 4.3) has the same fields in as many bytes, with
// 44 bits of request, 14 of number, 8 of request type and 4 of magic, and no checksum. 14 bits of
// number would end at 8 MiB each way in packets of 1 KiB. The checksum finds damage, packets of
// previous incarnations and packets of strangers on media that check nothing: the loopback computes
// no UDP checksum. Request numbers begin at random and wrap, after 2^32 requests. A sender that
// cannot see the packets must guess the key and the request number together.
const (
	numberBits = 20
	sizeBits   = 24

	maxMessage = 1<<sizeBits - 1
	maxPackets = 1 << (numberBits - 1) // of one message
)

// kind is the kind of a packet.
type kind uint8

const (
	kindRequest kind = iota + 1 // a packet of a request
	// request for response: the client asks for the next response packet
	kindRFR
	// credit return (CR): answers a request packet that is not the last
	kindCredit
	kindResponse // a packet of a response
	kindHello    // handshake: asks for kindWelcome
	kindWelcome  // handshake
	kindBye      // the sender is closed
	kindPing     // heartbeat: asks for kindPong
	kindPong     // heartbeat
)

// noSession is the session number of packets of the handshake and the heartbeat.
const noSession = 1<<16 - 1

type header struct {
	request uint32
	session uint16
	kind    kind
	number  uint32
	size    uint32
}

// put writes all fields but the checksum.
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

// longBody is the length in bytes from which a body's checksum uses the polynomial of IEEE 802.3
// instead of Castagnoli's. Both find the same damage. The CRC32 instruction (Castagnoli) is faster
// for short bodies; Go's IEEE code reads in order and is faster for long ones outside the cache: 29
// GB/s against 6.7 on an AMD EPYC (Zen 4), which took 8 MiB responses from 0.46 to about 0.6 of the
// bare sockets' bandwidth.
const longBody = 1 << 10

// checksum is a CRC-32 that starts with the receiver's key, which the receiver sent in the
// handshake. It detects damage, and packets from senders who do not know the key. head excludes the
// checksum.
func checksum(key uint32, head, body []byte) uint32 {
	sum := crc32.Update(key, castagnoli, head)
	if len(body) < longBody {
		return crc32.Update(sum, castagnoli, body)
	}
	return crc32.Update(sum, ieee, body)
}

// putChecksum writes the checksum of head and body into head.
func putChecksum(key uint32, head *[headerSize]byte, body []byte) {
	binary.LittleEndian.PutUint32(head[:], checksum(key, head[4:], body))
}

// validChecksum reports whether the checksum of a packet is right for its header and for what it
// covers of the rest.
func validChecksum(key uint32, head, covered []byte) bool {
	return checksum(key, head[4:headerSize], covered) == binary.LittleEndian.Uint32(head)
}
