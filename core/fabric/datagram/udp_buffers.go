package datagram

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// udpSend is the batch. Its datagrams lie one behind the other in the arena, so
// that a run of them can go as one.
type udpSend struct {
	arena     []byte
	used      int
	runs      []udpRun
	first     int // run that has not been sent
	count     int // runs
	datagrams int // in all runs, sent or not
	batch     int
	segments  bool // runs of more than one datagram go in one message
	kept      bool // the last flush left some

	direct messageHeader // of a datagram that goes from where it lies
	parts  [2]unix.Iovec

	headers  []messageHeader // by run
	vectors  []unix.Iovec
	controls [][24]byte // UDP_SEGMENT, as cmsg(3) has it
}

// udpRun is consecutive datagrams to one remote.
type udpRun struct {
	to          *udpRemote
	start, size int // in the arena
	segment     int // bytes of each datagram but the last
	datagrams   int
	refused     bool // an error was taken for an earlier one's
}

const (
	// directFrom is the length in bytes from which a datagram is not copied into
	// the batch.
	directFrom = 16 << 10
	// sendMost and receiveMost are the bytes of a batch, either way, beyond which a
	// part of them should go first: the far side can work meanwhile, and all stays
	// in a core's cache.
	sendMost    = 128 << 10
	receiveMost = 256 << 10
)

// maxSegments is UDP_MAX_SEGMENTS of linux/udp.h in the oldest kernels that have
// it; it is larger since.
const maxSegments = 64

func (s *udpSend) make(batch, mtu int) (err error) {
	s.batch = batch
	// One byte more, for an empty datagram at the end to have an address.
	size := min(batch*min(mtu, directFrom), max(sendMost, min(mtu, directFrom))) + 1
	if s.arena, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return fmt.Errorf("mapping a batch of %d datagrams of %d bytes: %w", batch, mtu, err)
	}
	s.direct.header.Iov = &s.parts[0]
	s.runs = make([]udpRun, batch)
	s.headers = make([]messageHeader, batch)
	s.vectors = make([]unix.Iovec, batch)
	s.controls = make([][24]byte, batch)
	for i := range batch {
		s.headers[i].header.Iov = &s.vectors[i]
		s.headers[i].header.SetIovlen(1)
		c := s.controls[i][:]
		binary.NativeEndian.PutUint64(c, unix.SizeofCmsghdr+2)
		binary.NativeEndian.PutUint32(c[8:], unix.IPPROTO_UDP)
		binary.NativeEndian.PutUint32(c[12:], unix.UDP_SEGMENT)
	}
	return nil
}

func (s *udpSend) free() error { return unmap(&s.arena) }

// udpReceive is what was fetched and not handed out yet.
type udpReceive struct {
	arena   []byte
	stride  int  // bytes from buffer to buffer
	room    int  // bytes of a buffer
	next    int  // message that is handed out
	filled  int  // messages
	offset  int  // in the next message
	segment int  // bytes of its datagrams, but the last
	streak  int  // messages to ask for: grows while there are some
	bare    bool // what was fetched has no name: it is from the only remote

	mayCoalesce bool
	coalesces   bool // and since then always, as messages in the queue may be several datagrams

	headers  []messageHeader // by message
	vectors  []unix.Iovec
	names    []sockaddr
	controls [][64]byte
}

// Buffers that begin at the same offset in a page would compete for the same
// places in the cache: so they do not.
const bufferSkew = 5 * 64

func (r *udpReceive) make(batch, mtu int) (err error) {
	r.room = mtu
	if r.mayCoalesce {
		r.room = 1 << 16
	}
	r.stride = (r.room+63)&^63 + bufferSkew
	if r.arena, err = unix.Mmap(-1, 0, batch*r.stride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return fmt.Errorf("mapping %d receive buffers of %d bytes: %w", batch, r.room, err)
	}
	r.streak = 1
	r.headers = make([]messageHeader, batch)
	r.vectors = make([]unix.Iovec, batch)
	r.names = make([]sockaddr, batch)
	r.controls = make([][64]byte, batch)
	for i := range batch {
		r.vectors[i].Base = &r.buffer(i)[0]
		r.vectors[i].SetLen(r.room)
		h := &r.headers[i].header
		h.Iov, h.Name, h.Control = &r.vectors[i], &r.names[i][0], &r.controls[i][0]
		h.SetIovlen(1)
		h.Namelen = uint32(len(r.names[i]))
		h.SetControllen(len(r.controls[i]))
	}
	return nil
}

func (r *udpReceive) buffer(i int) []byte { return r.arena[i*r.stride:][:r.room] }

func (r *udpReceive) free() error { return unmap(&r.arena) }

func unmap(arena *[]byte) error {
	if *arena == nil {
		return nil
	}
	err := unix.Munmap(*arena)
	*arena = nil
	return err
}
