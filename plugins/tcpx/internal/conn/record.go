package conn

import "encoding/binary"

// Kinds of control records.
const (
	// recordCredit: the sender of the record has posted receive index, of size bytes,
	// under tag. The peer may send that much for it.
	recordCredit = iota + 1
	// recordChunk: size bytes of request index follow on a lane, from offset on. The
	// request has total bytes and this tag.
	recordChunk
	// recordCall and recordReply: a message of size bytes is next in the stream. If total is size
	// and not 0, the message is inline: it follows the record, and is not in the stream.
	recordCall
	recordReply
	// recordRefusal: the sender of the record ends the connection for the reason in index.
	recordRefusal
	// recordFarewell: the sender of the record closes the connection.
	recordFarewell
)

// Reasons of a refusal.
const (
	refusalTag = iota + 1
	refusalTruncated
)

// record is one control record. On the wire it has recordSize bytes, little-endian:
//
//	kind u8 | lane u8 | index u16 | size u32 | offset u32 | total u32 | tag u64
//
// The fields by kind, which are 0 if the table is empty there:
//
//	kind         lane     index          size       offset          total      tag
//	credit                of receive     allowed                               of receive
//	chunk        carries  of request     of chunk   in the request  of request of request
//	call, reply                          of message call's number   see above  counts messages
//	refusal               the reason
//	farewell
type record struct {
	kind   uint8
	lane   uint8
	index  uint16
	size   uint32
	offset uint32
	total  uint32
	tag    uint64
}

const (
	// RecordSize is the bytes of a record.
	RecordSize = 24
	// RecordTag is the offset of the tag in a record.
	RecordTag = 16

	recordSize = RecordSize
)

// IsChunk reports whether an encoded record announces a chunk.
func IsChunk(b []byte) bool { return b[0] == recordChunk }

// inline reports whether the message of a record follows it on the control socket.
func (r *record) inline() bool {
	return r.total > 0 && (r.kind == recordCall || r.kind == recordReply)
}

func (r *record) put(b []byte) {
	_ = b[recordSize-1]
	b[0], b[1] = r.kind, r.lane
	binary.LittleEndian.PutUint16(b[2:], r.index)
	binary.LittleEndian.PutUint32(b[4:], r.size)
	binary.LittleEndian.PutUint32(b[8:], r.offset)
	binary.LittleEndian.PutUint32(b[12:], r.total)
	binary.LittleEndian.PutUint64(b[RecordTag:], r.tag)
}

func (r *record) get(b []byte) {
	_ = b[recordSize-1]
	r.kind, r.lane = b[0], b[1]
	r.index = binary.LittleEndian.Uint16(b[2:])
	r.size = binary.LittleEndian.Uint32(b[4:])
	r.offset = binary.LittleEndian.Uint32(b[8:])
	r.total = binary.LittleEndian.Uint32(b[12:])
	r.tag = binary.LittleEndian.Uint64(b[RecordTag:])
}
