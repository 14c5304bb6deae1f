package bounce

import (
	"errors"
	"fmt"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// GPU unpacks with a GPU, into its memory.
type GPU struct {
	unpacker *gpu.Unpacker
	sends    bool // CopyOut may be called
	closed   bool
}

var _ Reader = (*GPU)(nil)

// NewGPU opens a GPU.
func NewGPU(config gpu.Config) (*GPU, error) {
	config.Descriptors = MaxFragments
	u, err := gpu.Open(config)
	if err != nil {
		return nil, err
	}
	return &GPU{unpacker: u, sends: config.Sends}, nil
}

// Register implements [Unpacker].
func (g *GPU) Register(bounce []byte) error { return g.unpacker.Register(bounce) }

// Allocate implements [Unpacker].
func (g *GPU) Allocate(size int) (Buffer, error) {
	address, whole, err := g.unpacker.AllocateRing(size)
	if err == nil && whole != size {
		err = errors.Join(fmt.Errorf("%w: the GPU maps a ring of %d bytes as %d",
			transport.ErrUnsupported, size, whole), g.unpacker.Free(address))
	}
	return Buffer{Device: uint64(address), Size: 2 * whole}, err
}

// ringStep is the unit in which GPUs map memory, or a multiple of it.
const ringStep = 2 << 20

// WholeSlots rounds a number of slots of size bytes up so that a GPU can map the ring
// of them.
func WholeSlots(slots, size int) int {
	a, b := ringStep, size
	for b != 0 { // the greatest common divisor
		a, b = b, a%b
	}
	step := ringStep / a
	return (slots + step - 1) / step * step
}

// Free implements [Unpacker].
func (g *GPU) Free(b Buffer) error {
	if b.Size == 0 {
		return nil
	}
	return g.unpacker.Free(cuda.Address(b.Device))
}

// Read implements [Reader]. It is for the time outside of windows.
func (g *GPU) Read(into []byte, from Buffer) error {
	return g.unpacker.Read(into, cuda.Address(from.Device))
}

// AllocateSource allocates GPU memory of at least size bytes for payloads to send.
func (g *GPU) AllocateSource(size int) (Buffer, error) {
	return g.Allocate((size + ringStep - 1) / ringStep * ringStep)
}

// Write copies to a buffer. It waits for all copies from it, and is for the time outside of
// windows.
func (g *GPU) Write(to Buffer, from []byte) error {
	return g.unpacker.Write(cuda.Address(to.Device), from)
}

// Pin pins host memory that CopyOut copies to.
func (g *GPU) Pin(memory []byte) error { return g.unpacker.Pin(memory) }

// Unpin waits for all copies and undoes Pin.
func (g *GPU) Unpin(memory []byte) error { return g.unpacker.Unpin(memory) }

// Counters implements [Counter].
func (g *GPU) Counters(dst []transport.Stat) []transport.Stat {
	c := g.unpacker.Counts()
	if g.sends {
		dst = append(dst,
			transport.Stat{Name: "gpu_send_copies",
				Help:  "copies of payloads to send from the GPU to the staging ring",
				Value: c.Sends},
			transport.Stat{Name: "gpu_send_bytes", Help: "bytes of these copies",
				Value: c.SendBytes},
			transport.Stat{Name: "gpu_send_ns",
				Help:  "time from the launch of such a copy to its event, summed",
				Value: uint64(c.Sending)},
		)
	}
	return append(dst,
		transport.Stat{Name: "gpu_chunks", Help: "requests that the GPU unpacked", Value: c.Chunks},
		transport.Stat{Name: "gpu_descriptors", Help: "fragments of these requests",
			Value: c.Descriptors},
		transport.Stat{Name: "gpu_bytes", Help: "bytes of these requests", Value: c.Bytes},
		transport.Stat{Name: "gpu_launches", Help: "launches of the unpack kernel",
			Value: c.Launches},
		transport.Stat{Name: "gpu_copies", Help: "copies of the copy engine", Value: c.Copies},
		transport.Stat{Name: "gpu_streams_made",
			Help:  "streams made; 2 unless something is wrong, and 3 with send-memory=device",
			Value: c.Streams},
		transport.Stat{Name: "gpu_events_made",
			Help:  "events made; 16 unless something is wrong, and 32 with send-memory=device",
			Value: c.Events},
		transport.Stat{Name: "gpu_unpack_ns", Help: "time from a launch to its event, summed",
			Value: uint64(c.Unpacking)},
	)
}

// Close implements [Unpacker]. It also fails if streams or events were made per request,
// because such a run must not pass for one that reuses them.
func (g *GPU) Close() error {
	if g.closed {
		return nil
	}
	g.closed = true
	return errors.Join(g.unpacker.Check(), g.unpacker.Close())
}

// MaxCopies is how many copies of [GPU.CopyOut] may be under way.
const MaxCopies = gpu.Requests
