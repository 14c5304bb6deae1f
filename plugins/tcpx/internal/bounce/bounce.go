package bounce

import (
	"errors"

	"transportbench/core/transport"
)

// PageSize is the unit of bounce memory and the alignment of registered memory.
const PageSize = 4096

// MaxFragments is the most fragments of a request.
const MaxFragments = 2048

// UnpackSlots is how many requests of one worker can be unpacked at once.
const UnpackSlots = 16

var errMisaligned = errors.New("memory is not aligned to 4 KiB")

// Fragment is a stretch of bounce memory that holds a part of a request. The allocator
// sets all fields but Destination, which its caller sets.
type Fragment struct {
	Source      uint32 // offset in bounce memory
	Length      uint32
	Destination uint32 // offset in the request's buffer
	Token       uint32 // identifies it to Give: its page, or the entry of a kernel's token
}

// Buffer is the destination of a request.
type Buffer struct {
	Host   []byte // nil if the bytes stay in device memory
	Device uint64 // address in device memory
	Size   int
}

// Slice returns size bytes of a buffer from offset on.
func (b Buffer) Slice(offset, size int) Buffer {
	if b.Host != nil {
		return Buffer{Host: b.Host[offset : offset+size : offset+size], Size: size}
	}
	return Buffer{Device: b.Device + uint64(offset), Size: size}
}

// Unpacker copies the fragments of requests to their destination. The thread that owns
// the worker calls its methods; Launch and Done are on the data path.
type Unpacker interface {
	// Register announces bounce memory, once, before the first Launch.
	Register(bounce []byte) error
	// Allocate makes the destination ring of a connection: size bytes, a multiple of
	// 64 KiB, mapped twice in a row so that what wraps around is contiguous.
	Allocate(size int) (Buffer, error)
	// Free releases what Allocate made.
	Free(b Buffer) error
	// Launch begins to copy into a buffer. The slot must be free. The fragments must not
	// change until Done reports true for the slot.
	Launch(slot int, fragments []Fragment, to Buffer) error
	// Done reports whether the request in a slot is copied, and frees the slot if so.
	Done(slot int) (bool, error)
	// Close waits for what runs and releases everything. It is idempotent.
	Close() error
}

// Allocator hands out bounce memory: it receives bytes from data sockets and returns
// them as fragments. All methods but Memory and Close are on the data path.
type Allocator interface {
	// Memory returns bounce memory as the processor sees it, after Fetch if there is one.
	Memory() []byte
	// Reserve sets pages aside for a request that begins, so that every request that has
	// begun can end. held reports whether the connection has reserved pages already: one
	// that has none never waits for long.
	Reserve(pages int, held bool) bool
	// Receive takes up to want bytes from a nonblocking socket. It may append grown
	// bytes to the page of last, the chunk's last fragment so far; the other bytes are
	// the first count fragments of more. Both are 0 if the socket has nothing.
	Receive(fd, want int, last Fragment, more []Fragment) (grown uint32, count int, err error)
	// Give takes back the fragments of a consumed request and the pages reserved for it.
	Give(fragments []Fragment, reserved int)
	// Close releases bounce memory. It is idempotent.
	Close() error
}

// Forgetter is an [Allocator] that keeps state per socket. Forget is called before the
// descriptor is closed and can become another socket's.
type Forgetter interface{ Forget(fd int) }

// Fetcher is an [Allocator] whose memory may be a device's. Fetch copies size bytes from the offset
// source of the device to Memory, which does not have them before, and returns once it has.
type Fetcher interface {
	Fetch(source uint32, size int) error
}

// PageTaker is an [Allocator] whose pages can be taken before the bytes arrive. TakePages appends
// the fragments of size bytes, one page each.
type PageTaker interface {
	TakePages(size int, to []Fragment) []Fragment
}

// Reader is an [Unpacker] to device memory. Read copies part of a buffer back, after
// everything launched before. It blocks.
type Reader interface {
	Read(into []byte, from Buffer) error
}

// Counter is an [Unpacker] or [Allocator] that reports counters.
type Counter interface {
	Counters(dst []transport.Stat) []transport.Stat
}

// budget is how many pages requests that begin may still reserve.
type budget struct {
	unreserved int
	unit       int // pages of a full request
	spare      int // units that only connections without a reservation may take
}

// newBudget returns the budget of a worker: a window of requests, and one request more for each
// connection to its peers.
func newBudget(request, peers int) budget {
	unit := request / PageSize
	return budget{unreserved: (UnpackSlots + peers) * unit, unit: unit, spare: peers}
}

// reserve implements Reserve of [Allocator]. One unit per connection is left to
// connections that hold nothing, so none can starve another.
func (b *budget) reserve(pages int, held bool) bool {
	left := b.unreserved - pages
	if held && left < b.spare*b.unit || left < 0 {
		return false
	}
	b.unreserved = left
	return true
}
