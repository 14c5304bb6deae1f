package uring

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Stream is the memory into which one socket receives, in order, like a pipe. The kernel sees a
// ring of buffers: consecutive parts of the memory, each of which it fills to the end.
type Stream struct {
	ring    *Ring
	group   uint16
	memory  []byte
	page    []byte
	entries []buffer
	// tail is the number of buffers given, in the upper half of the word; the lower half is the
	// number of buffer 0. The store pairs with the kernel's load before it reads an entry.
	tail   *atomic.Uint32
	given  uint16
	window window
}

// chunks is the number of buffers of a stream. The kernel gets a new one when a chunk of the memory
// has been released.
const chunks = 16

// NewStream makes a stream over memory outside the Go heap, whose length is a multiple of 16. group
// identifies the stream within the ring.
func (r *Ring) NewStream(group uint16, memory []byte) (*Stream, error) {
	if len(memory) == 0 || len(memory)%chunks != 0 {
		return nil, fmt.Errorf("a stream of %d bytes: not a multiple of %d", len(memory), chunks)
	}
	s := &Stream{ring: r, group: group, memory: memory, window: window{size: uint64(len(memory)),
		chunk: uint64(len(memory) / chunks)}}
	var err error
	// The entries end with their page, so that the count of them need not be large.
	if s.page, s.entries, s.tail, err = newEntries(chunks); err != nil {
		return nil, err
	}
	for i := range s.entries {
		s.entries[i].bid = uint16(i)
	}
	if err := r.registerBuffers(registerPbufRing, s.page,
		bufferRegistration{entries: chunks, group: group, flags: pbufInc}); err != nil {
		return nil, errors.Join(refusal("io_uring_register buffers", err), unix.Munmap(s.page))
	}
	s.Release(0)
	return s, nil
}

// Release gives the kernel the memory of the bytes before position consumed, which counts from the
// stream's beginning.
func (s *Stream) Release(consumed uint64) {
	for given := s.given; ; {
		position, ok := s.window.grant(consumed)
		if !ok {
			if s.given != given {
				s.tail.Store(uint32(s.given) << 16)
			}
			return
		}
		e := &s.entries[place(uint32(s.given), chunks)]
		at := position % s.window.size
		e.addr, e.len = address(s.memory[at:]), uint32(s.window.chunk)
		s.given++
	}
}

// Full reports whether the kernel has filled all its buffers.
func (s *Stream) Full() bool { return s.window.left() == 0 }

// Received counts the bytes of a completion.
func (s *Stream) Received(n int) error {
	if !s.window.fill(n) {
		return errFilled
	}
	return nil
}

// Close unregisters the memory. No receive may be in progress.
func (s *Stream) Close() error {
	if s.page == nil {
		return nil
	}
	var err error
	if s.ring.fd >= 0 {
		err = s.ring.registerBuffers(unregisterPbufRing, nil, bufferRegistration{group: s.group})
	}
	err = errors.Join(err, unix.Munmap(s.page))
	s.page = nil
	return err
}
