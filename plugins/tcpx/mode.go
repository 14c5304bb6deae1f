package tcpx

import "transportbench/core/transport"

// The seam between the core, which moves bytes from socket to bounce memory and
// keeps the requests, and the modes, which say what bounce memory is and how it
// is unpacked.

// pageSize is the unit of bounce memory, and the alignment of registered buffers.
const pageSize = 4096

// descriptor says where one fragment of a request is to go. The layout is that
// of an unpack kernel's argument: 16 bytes.
type descriptor struct {
	source      uint32 // offset in bounce memory
	length      uint32
	destination uint64 // offset in the request's buffer
}

// fragment is a stretch of bounce memory that the kernel has filled.
type fragment struct {
	source uint32 // offset in bounce memory
	length uint32
	token  uint32 // what it is given back by: its page, or the kernel's name for it
}

// buffer is where a request is unpacked to.
type buffer struct {
	host   []byte // nil where the bytes stay in device memory
	device uint64 // address in device memory
	size   int
}

// slice is the part of a buffer from offset on, size bytes of it.
func (b buffer) slice(offset, size int) buffer {
	if b.host != nil {
		return buffer{host: b.host[offset : offset+size : offset+size], size: size}
	}
	return buffer{device: b.device + uint64(offset), size: size}
}

// unpackSlots is how many requests of one worker can be unpacked at once.
const unpackSlots = requests

// maxFragments is the most fragments of a request.
const maxFragments = 2048

// unpacker takes fragments of requests to their destination. All of its methods
// are called by the thread that has the worker; launch and done are on the data
// path and neither block, lock nor allocate.
type unpacker interface {
	// register makes bounce memory known, once, before the first launch.
	register(bounce []byte) error
	// allocate makes the destination ring of a connection: size bytes, a multiple
	// of 64 KiB, and the same bytes again behind them, so that what wraps around
	// is contiguous. An error that wraps ErrUnsupported limits the mode to streams.
	allocate(size int) (buffer, error)
	// free gives up what allocate made.
	free(b buffer) error
	// launch begins to unpack into a buffer. The slot must be free; descriptors
	// stay as they are until done says true for the slot.
	launch(slot int, descriptors []descriptor, to buffer) error
	// done says whether what was launched in the slot is complete, and frees the
	// slot if so.
	done(slot int) (bool, error)
	// close waits for what runs and releases everything. It is idempotent.
	close() error
}

// intake takes bytes from data sockets into bounce memory. All of its methods are
// on the data path, save memory and close.
type intake interface {
	// memory is bounce memory as the processor sees it, or nil where it cannot.
	memory() []byte
	// reserve sets pages aside for a request that begins, so that requests which
	// have begun can always end. held says whether the connection has a request
	// that holds some already: one that holds none is never kept waiting for long.
	reserve(pages int, held bool) bool
	// receive takes up to want bytes from a nonblocking socket. It may fill up the
	// page of last, the chunk's last fragment so far, by as many bytes as grown
	// says, and puts the other fragments into more, as many as count says. Both are
	// 0 where the socket has nothing. errSocketClosed says that there is no more.
	receive(fd, want int, last fragment, more []fragment) (grown uint32, count int, err error)
	// give takes fragments back when they are consumed, and the pages that were
	// reserved for their request.
	give(fragments []fragment, reserved int)
	// close releases bounce memory. It is idempotent.
	close() error
}

// forgetter is an intake that remembers sockets. It hears of the end of each before the
// descriptor is closed and can be another socket's.
type forgetter interface{ forget(fd int) }

// placer is an intake that can say where bytes will be before they come. place appends
// the fragments of a chunk of so many bytes, each a page.
type placer interface {
	place(size int, to []fragment) []fragment
}

// reader is an unpacker to device memory.
type reader interface {
	// read copies a part of a buffer back, after all that was launched before. It blocks.
	read(into []byte, from buffer) error
}

// counter is an unpacker or an intake that counts.
type counter interface {
	counters(dst []transport.Stat) []transport.Stat
}

// Values of the option unpack.
const (
	unpackAuto = "auto"
	unpackNone = "none" // the bytes stay in bounce memory: what unpacking costs
)

// mode is a kind of bounce memory with its unpackers.
type mode struct {
	name string
	// unpacks lists the values of the option unpack that the mode has; the first
	// is what auto stands for.
	unpacks []string
	// available is nil or an error that wraps [transport.ErrUnavailable].
	available func(*settings) error
	// newUnpacker makes the unpacker of one worker, of settings.unpack.
	newUnpacker func(*settings) (unpacker, error)
	// newIntake makes the bounce memory of one worker; nil for host pages.
	newIntake func(*settings) (intake, error)
	// options are the mode's own.
	options []transport.Option
}

// modes are in the order in which they are shown; the first is the default.
var modes = []mode{hostMode, gpuMode, devmemMode}
