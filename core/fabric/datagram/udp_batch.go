package datagram

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// udpSend is the batch of datagrams to send. They lie one after the other in the arena. A run of
// them can be sent as one message.
type udpSend struct {
	arena     []byte
	used      int
	runs      []udpRun
	first     int // first run that is not sent
	count     int // runs
	fence     int // runs before this one are closed to reordering
	datagrams int // in all runs, sent or not
	pieces    []udpPiece
	// pieceCount is the number of pieces of all runs, sent or not.
	pieceCount int
	batch      int
	segments   bool // a run of several datagrams goes in one message
	unsent     bool // the last flush kept some

	direct messageHeader // of a datagram that is sent without a copy
	parts  [2]unix.Iovec

	headers  []messageHeader // by run
	vectors  []unix.Iovec    // by piece
	controls [][24]byte      // UDP_SEGMENT, in the format of cmsg(3)
}

// udpRun is a run of datagrams to one remote. All have the same length, except that the last may be
// shorter.
type udpRun struct {
	to          *udpRemote
	size        int // of all datagrams
	segment     int // bytes of each datagram but the last
	datagrams   int
	piece, last int  // first and last piece
	refused     bool // its send returned the error of an earlier datagram
}

// udpPiece is a part of a run that is contiguous in the arena.
type udpPiece struct {
	start, size int // in the arena
	next        int // piece of the run
}

const (
	// directMin is the size in bytes from which a datagram is sent without a copy: the copy would
	// cost more than a system call.
	directMin = 16 << 10
	// sendBytes and receiveBytes bound a batch in each direction. A smaller batch lets the other
	// side start earlier, and stays in a core's cache.
	sendBytes    = 128 << 10
	receiveBytes = 256 << 10
	// maxSegments is UDP_MAX_SEGMENTS of linux/udp.h in the oldest kernels that have it; later
	// kernels allow more.
	maxSegments = 64
	// maxOpen is how many runs, from the last back, a datagram may join. A service has replies of
	// few sizes, and to look for one among many remotes costs more than it finds.
	maxOpen = 8
)

func (s *udpSend) init(batch, mtu int) (err error) {
	s.batch = batch
	// One more byte, so that an empty datagram at the end has an address.
	size := min(batch*min(mtu, directMin), max(sendBytes, min(mtu, directMin))) + 1
	if s.arena, err = mapMemory(size); err != nil {
		return fmt.Errorf("mapping a batch of %d datagrams of %d bytes: %w", batch, mtu, err)
	}
	s.direct.header.Iov = &s.parts[0]
	s.runs = make([]udpRun, batch)
	s.pieces = make([]udpPiece, batch)
	s.headers = make([]messageHeader, batch)
	s.vectors = make([]unix.Iovec, batch)
	s.controls = make([][24]byte, batch)
	for i := range batch {
		c := s.controls[i][:]
		binary.NativeEndian.PutUint64(c, unix.SizeofCmsghdr+2)
		binary.NativeEndian.PutUint32(c[8:], unix.IPPROTO_UDP)
		binary.NativeEndian.PutUint32(c[12:], unix.UDP_SEGMENT)
	}
	return nil
}

func (s *udpSend) free() error { return unmap(&s.arena) }

// udpReceive holds the messages that were received from the kernel but not returned yet. A message
// is one datagram, or several that the kernel coalesced.
type udpReceive struct {
	arena   []byte
	stride  int  // bytes from buffer to buffer
	size    int  // of a buffer
	next    int  // message to return next
	filled  int  // messages
	offset  int  // in the next message
	segment int  // bytes of its datagrams but the last
	ask     int  // messages to ask for; grows while there are some
	unnamed bool // the messages carry no address: they are from the connected remote

	target    Target // of the last fetch
	placed    int    // full messages: their bodies are in the target
	placeable int    // bytes of such a body

	mayCoalesce bool
	coalesces   bool // and always will: messages in the queue may already be several datagrams

	headers []messageHeader // by message
	// one is in use, or three for a placed body: head, body, and what is coalesced
	vectors  [][3]unix.Iovec
	names    []sockaddr
	controls [][64]byte
}

// bufferSkew offsets the buffers, because buffers at the same offset in a page compete for the same
// cache sets.
const bufferSkew = 5 * 64

func (r *udpReceive) init(batch, mtu int) (err error) {
	r.size = mtu
	if r.mayCoalesce {
		r.size = 1 << 16
	}
	r.stride = (r.size+63)&^63 + bufferSkew
	if r.arena, err = mapMemory(batch * r.stride); err != nil {
		return fmt.Errorf("mapping %d receive buffers of %d bytes: %w", batch, r.size, err)
	}
	r.ask = 1
	r.headers = make([]messageHeader, batch)
	r.vectors = make([][3]unix.Iovec, batch)
	r.names = make([]sockaddr, batch)
	r.controls = make([][64]byte, batch)
	for i := range batch {
		r.vectors[i][0].Base = &r.buffer(i)[0]
		r.vectors[i][0].SetLen(r.size)
		h := &r.headers[i].header
		h.Iov, h.Name, h.Control = &r.vectors[i][0], &r.names[i][0], &r.controls[i][0]
		h.SetIovlen(1)
		h.Namelen = uint32(len(r.names[i]))
		h.SetControllen(len(r.controls[i]))
	}
	return nil
}

func (r *udpReceive) buffer(i int) []byte { return r.arena[i*r.stride:][:r.size] }

func (r *udpReceive) free() error { return unmap(&r.arena) }

// mapMemory maps memory outside the Go heap.
func mapMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func unmap(arena *[]byte) error {
	if *arena == nil {
		return nil
	}
	err := unix.Munmap(*arena)
	*arena = nil
	return err
}
