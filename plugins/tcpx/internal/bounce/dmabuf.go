package bounce

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/devmem"
)

// headroom is how many bytes of dmabuf there are for a byte of bounce memory: the
// payload of a packet of 1500 bytes takes a page, and as much again may wait in sockets.
const headroom = 6

// MaxDmabuf limits the dmabuf and the linear pages together: fragments have 32-bit
// offsets.
const MaxDmabuf = 1 << 32

// noToken is the token of a fragment in a linear page, which the kernel does not want
// back.
const noToken = ^uint32(0)

// DmabufConfig configures a [Dmabuf].
type DmabufConfig struct {
	Interface string // the NIC, such as eth0
	Queue     int    // the receive queue that flows are steered to; -1 for the last
	Split     bool   // turn header split on
	Request   int    // bytes of the largest request
	Peers     int
	// Device has the dmabuf in its memory, which it unpacks by its kernel; nil for the host's.
	Device *GPU
	// Transmit makes AllocateSource possible.
	Transmit bool
	// Sync makes the NIC's writes visible to the processor after each receive.
	Sync bool
	// Patience is how long a receive may find no room before that is an error.
	Patience time.Duration
	// Steering is the command that steers data sockets to the queue, for errors.
	Steering string
}

// linearPages is how many pages there are for bytes that the NIC did not put into the
// dmabuf: enough for everything under way, if no flow is steered to the queue.
func (c *DmabufConfig) linearPages() int {
	return (UnpackSlots+max(c.Peers, 1))*c.Request/PageSize + sock.MaxVectors
}

func (c *DmabufConfig) dmabufSize() int {
	return headroom * (UnpackSlots + max(c.Peers, 1)) * c.Request
}

// Memory returns how many bytes the dmabuf and the linear pages take.
func (c *DmabufConfig) Memory() int { return c.dmabufSize() + c.linearPages()*PageSize }

// Options returns how the dmabuf is to be bound, for [devmem.Open] and [devmem.Check].
func (c *DmabufConfig) Options() devmem.Options {
	o := devmem.Options{Interface: c.Interface, Queue: c.Queue, Split: c.Split,
		Transmit: c.Transmit, Size: c.dmabufSize(), Extra: c.linearPages() * PageSize}
	if c.Device != nil {
		o.Export = func(size, extra int) (int, error) {
			return c.Device.unpacker.Export(size, size+extra)
		}
	}
	return o
}

// Dmabuf is bounce memory that a NIC fills. It lies in the host's memory (/dev/udmabuf), so that
// processors and GPUs alike can unpack it, or in a GPU's. The code follows the kernel's
// Documentation/networking/devmem.rst; it has not run on a NIC yet.
type Dmabuf struct {
	budget
	binding  *devmem.Binding
	size     int // bytes of the dmabuf; linear pages follow
	receiver interface {
		Receive(socket int, buffers [][]byte, pieces int) (n int, control []byte, err error)
	}
	dontNeed func(socket int, ranges []devmem.TokenRange) (int, error)
	sync     bool
	device   *GPU // that has the dmabuf; nil if it is the host's

	buffers [][]byte       // of one receive
	pieces  []devmem.Piece // of one receive
	pages   []uint32       // linear pages that are free
	users   []uint16       // by linear page: fragments in it

	sockets []*dmabufSocket // by descriptor; nil if it has received nothing
	held    []heldToken     // by Fragment.Token
	free    []uint32        // unused entries of held
	touched []*dmabufSocket // sockets of the fragments of one Give

	failed error // of Give, which cannot return it

	starved  int   // receives without room in a row, with nothing given back in between
	since    int64 // when the first of them was
	patience time.Duration
	starving starving
	counts   struct{ dmabufBytes, linearBytes, pieces, calls uint64 }
	closed   bool
}

// starving are the errors of a Dmabuf that has no room and gets none back, by what is
// used up. Their causes are outside of this process.
type starving struct{ pages, tokens, fragments error }

func newStarving(c *DmabufConfig) starving {
	const largerMTU = "the NIC's packets are too small; use a larger MTU (ip link set %s mtu " +
		"9000) or a smaller request"
	return starving{
		pages: transport.Unavailable("mode devmem: incomplete requests use all %d pages for "+
			"bytes that the NIC has not put into the dmabuf; "+
			"steer the data sockets to the queue (%s) and split headers (ethtool -G %s "+
			"tcp-data-split on)", c.linearPages(), c.Steering, c.Interface),
		tokens: transport.Unavailable(
			"mode devmem: incomplete requests use all %d entries for pieces of the dmabuf; "+
				largerMTU, c.dmabufSize()/PageSize, c.Interface),
		fragments: transport.Unavailable(
			"mode devmem: a request has come in %d pieces and is incomplete; "+
				largerMTU, MaxFragments, c.Interface),
	}
}

// dmabufSocket is a data socket that has received.
type dmabufSocket struct {
	tokens  *devmem.Tokens
	touched bool
}

// heldToken is a token of the kernel's. The socket is nil if it was closed.
type heldToken struct {
	socket *dmabufSocket
	token  uint32
}

// NewDmabuf returns bounce memory over a binding with Options of c, and owns the binding.
func NewDmabuf(b *devmem.Binding, c *DmabufConfig) *Dmabuf {
	size := c.dmabufSize()
	d := &Dmabuf{
		budget: newBudget(c.Request, c.Peers), binding: b, size: size, sync: c.Sync,
		device:   c.Device,
		receiver: devmem.NewReceiver(sock.MaxVectors, MaxFragments), dontNeed: devmem.DontNeed,
		buffers: make([][]byte, sock.MaxVectors), pieces: make([]devmem.Piece, MaxFragments),
		pages: make([]uint32, c.linearPages()), users: make([]uint16, c.linearPages()),
		// A piece mostly takes at least a page of the dmabuf.
		held: make([]heldToken, size/PageSize), free: make([]uint32, size/PageSize),
		patience: c.Patience, starving: newStarving(c),
	}
	for i := range d.pages {
		d.pages[i] = uint32(i)
	}
	for i := range d.free {
		d.free[i] = uint32(i)
	}
	return d
}

// Memory implements [Allocator].
func (d *Dmabuf) Memory() []byte { return d.binding.Memory }

// AllocateSource allocates at least size bytes of a GPU's memory that the NIC can send from, as a
// dmabuf with an ID. They are freed with the GPU.
func (d *Dmabuf) AllocateSource(g *GPU, size int) (memory Buffer, id uint32, err error) {
	address, descriptor, err := g.unpacker.ExportSource(size)
	if err != nil {
		return Buffer{}, 0, localGPU(err)
	}
	if id, err = Hooks.BindTX(d.binding, descriptor); err != nil {
		err = transport.Unavailable("mode devmem: %w", err)
	}
	return Buffer{Device: uint64(address), Size: size}, id, errors.Join(err, unix.Close(descriptor))
}

// Fetch implements [Fetcher].
func (d *Dmabuf) Fetch(source uint32, size int) error {
	if d.device == nil || int(source) >= d.size {
		return nil
	}
	return localGPU(d.device.unpacker.Fetch(source, size))
}

// Forget implements [Forgetter]: the kernel drops a socket's tokens when it closes.
func (d *Dmabuf) Forget(fd int) {
	if fd >= len(d.sockets) || d.sockets[fd] == nil {
		return
	}
	for i := range d.held {
		if d.held[i].socket == d.sockets[fd] {
			d.held[i].socket = nil
		}
	}
	d.sockets[fd] = nil
}

// Counters implements [Counter].
func (d *Dmabuf) Counters(dst []transport.Stat) []transport.Stat {
	c := &d.counts
	return append(dst,
		transport.Stat{Name: "devmem_bytes", Help: "bytes that the NIC put into the dmabuf",
			Value: c.dmabufBytes},
		transport.Stat{Name: "devmem_linear_bytes",
			Help:  "bytes that came through the host's memory: header split or steering is wrong",
			Value: c.linearBytes},
		transport.Stat{Name: "devmem_pieces", Help: "pieces of the dmabuf received",
			Value: c.pieces},
		transport.Stat{Name: "devmem_receives", Help: "calls that received something",
			Value: c.calls},
	)
}

// Close implements [Allocator].
func (d *Dmabuf) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(d.failed, d.binding.Close())
}
