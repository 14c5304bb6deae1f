package memory

import (
	"encoding/binary"
	"sync/atomic"

	"transportbench/core/fabric/pow2"
	"transportbench/core/transport"
)

// A message in a ring is a header and its payload, contiguous and rounded up to whole units. A
// header of kind 0 is padding up to the end of the ring.
const (
	ringUnit      = 64
	ringHeader    = 16
	inlinePayload = ringUnit - ringHeader
)

// ring has one producer and one consumer. Positions count bytes and never wrap.
type ring struct {
	buf  []byte
	head atomic.Uint64 // bytes below are published; the store in publish pairs with the load in pop
	tail atomic.Uint64 // bytes below are free; the store in release pairs with the load in push

	written  uint64 // producer only: end of the pushed messages
	consumed uint64 // consumer only: end of the popped messages
}

func newRing(capacity int) *ring { return &ring{buf: make([]byte, capacity)} }

func ringSpace(payload int) int {
	return (ringHeader + payload + ringUnit - 1) / ringUnit * ringUnit
}

// ringCapacity returns a power of two with room for two of the largest messages, so that one is
// contiguous wherever an empty ring starts, and for four times the calls in flight if they are
// small: a direction carries calls and replies, and the replies of the last Poll are not released
// yet.
func ringCapacity(minimum, inFlight, maxPayload int) int {
	need := max(minimum, 2*ringSpace(maxPayload), 4*inFlight*ringUnit)
	return pow2.Ceil(need)
}

// push appends a message, which publish makes visible, and returns false if there is no room.
func (r *ring) push(kind transport.EventKind, token transport.Token, payload []byte) bool {
	need := uint64(ringSpace(len(payload)))
	offset := r.written & uint64(len(r.buf)-1)
	rest := uint64(len(r.buf)) - offset
	fill := uint64(0)
	if rest < need {
		fill = rest
	}
	if r.written+fill+need-r.tail.Load() > uint64(len(r.buf)) {
		return false
	}
	if fill > 0 {
		writeHeader(r.buf[offset:], 0, 0, int(fill))
		offset = 0
	}
	writeHeader(r.buf[offset:], kind, token, len(payload))
	copy(r.buf[offset+ringHeader:], payload)
	r.written += fill + need
	return true
}

func writeHeader(b []byte, kind transport.EventKind, token transport.Token, size int) {
	binary.LittleEndian.PutUint32(b, uint32(size))
	b[4] = byte(kind)
	binary.LittleEndian.PutUint64(b[8:], uint64(token))
}

// publish makes the pushed messages visible and reports whether there were any.
func (r *ring) publish() bool {
	if r.head.Load() == r.written {
		return false
	}
	r.head.Store(r.written)
	return true
}

// pop returns the next published message. Its payload is valid until release.
func (r *ring) pop() (kind transport.EventKind, token transport.Token, payload []byte,
	ok bool) {
	head := r.head.Load()
	for r.consumed < head {
		offset := r.consumed & uint64(len(r.buf)-1)
		header := r.buf[offset : offset+ringHeader]
		size := uint64(binary.LittleEndian.Uint32(header))
		kind = transport.EventKind(header[4])
		if kind == 0 {
			r.consumed += size
			continue
		}
		token = transport.Token(binary.LittleEndian.Uint64(header[8:]))
		start := offset + ringHeader
		r.consumed += uint64(ringSpace(int(size)))
		return kind, token, r.buf[start : start+size : start+size], true
	}
	return 0, 0, nil, false
}

// release frees the popped messages.
func (r *ring) release() { r.tail.Store(r.consumed) }
