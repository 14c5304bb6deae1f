package tcpx

import (
	"errors"
	"fmt"
	"runtime"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// The unpackings of a GPU.
const (
	unpackKernel     = string(gpu.Kernel)
	unpackCopyEngine = string(gpu.CopyEngine)
)

// gpuMode has the host's pages, pinned, and a GPU that unpacks them into its memory.
var gpuMode = mode{
	name:        "gpu",
	unpacks:     []string{unpackKernel, unpackCopyEngine, unpackNone},
	available:   gpuAvailable,
	newUnpacker: newGPUUnpacker,
	options: []transport.Option{{
		Name: "gpu", Type: transport.TypeInt, Default: "0", Max: 1023,
		Help: "the GPU of mode gpu, as CUDA counts them",
	}},
}

// openDevice opens a GPU, other than in tests.
var openDevice = func(ordinal int) (gpu.Device, error) {
	c, err := cuda.Open(cuda.Library, ordinal)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// onGPU says whether a GPU unpacks, so that payloads stay in its memory.
func (s *settings) onGPU() bool { return s.unpack == unpackKernel || s.unpack == unpackCopyEngine }

// gpuAvailable opens the GPU and closes it, since only that tells.
func gpuAvailable(s *settings) error {
	opened := make(chan error)
	go func() { // CUDA's context is the thread's
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		d, err := openDevice(s.options.Int("gpu"))
		if err == nil {
			s.device = d.Description()
			err = d.Close()
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		return transport.Unavailable("mode gpu: %w; it needs NVIDIA's driver and a GPU, and mode host needs neither", err)
	}
	return nil
}

// gpuUnpacker has a GPU unpack.
type gpuUnpacker struct {
	unpacker *gpu.Unpacker
	closed   bool
}

func newGPUUnpacker(s *settings) (unpacker, error) {
	u, err := gpu.Open(gpu.Config{
		Open:        func() (gpu.Device, error) { return openDevice(s.options.Int("gpu")) },
		Mode:        gpu.Mode(s.unpack),
		Fault:       gpu.Fault(s.fault),
		Descriptors: maxFragments,
	})
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", s.options.Int("gpu"), err)
	}
	return &gpuUnpacker{unpacker: u}, nil
}

func (g *gpuUnpacker) register(bounce []byte) error { return g.unpacker.Register(bounce) }

func (g *gpuUnpacker) allocate(size int) (buffer, error) {
	address, whole, err := g.unpacker.AllocateRing(size)
	if err == nil && whole != size {
		err = errors.Join(fmt.Errorf("%w: the GPU maps a ring of %d bytes as %d", transport.ErrUnsupported, size, whole), g.unpacker.Free(address))
	}
	return buffer{device: uint64(address), size: 2 * whole}, err
}

// ringStep is what GPUs map memory in, or a multiple of it.
const ringStep = 2 << 20

// wholeSlots rounds a number of slots up so that the ring of them is whole steps.
func (s *settings) wholeSlots(slots int) int {
	step := ringStep / gcd(ringStep, s.request)
	return (slots + step - 1) / step * step
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (g *gpuUnpacker) free(b buffer) error {
	if b.size == 0 {
		return nil
	}
	return g.unpacker.Free(cuda.Address(b.device))
}

// read copies a buffer back, to verify it, after all that was launched before. It
// blocks, and is for the time outside of windows.
func (g *gpuUnpacker) read(into []byte, from buffer) error {
	return g.unpacker.Read(into, cuda.Address(from.device))
}

func (g *gpuUnpacker) counters(dst []transport.Stat) []transport.Stat {
	c := g.unpacker.Counts()
	return append(dst,
		transport.Stat{Name: "gpu_chunks", Help: "requests that the GPU has unpacked", Value: c.Chunks},
		transport.Stat{Name: "gpu_descriptors", Help: "pieces of these", Value: c.Descriptors},
		transport.Stat{Name: "gpu_bytes", Help: "bytes of these", Value: c.Bytes},
		transport.Stat{Name: "gpu_launches", Help: "launches of the unpack kernel", Value: c.Launches},
		transport.Stat{Name: "gpu_copies", Help: "copies of the copy engine", Value: c.Copies},
		transport.Stat{Name: "gpu_streams_made", Help: "streams that were made, 2 unless something is wrong", Value: c.Streams},
		transport.Stat{Name: "gpu_events_made", Help: "events that were made, 16 unless something is wrong", Value: c.Events},
		transport.Stat{Name: "gpu_unpack_ns", Help: "time from a launch to its event, summed", Value: uint64(c.Unpacking)},
	)
}

// close also fails where resources were made per chunk: a run that did so must not pass
// for one that did not.
func (g *gpuUnpacker) close() error {
	if g.closed {
		return nil
	}
	g.closed = true
	return errors.Join(g.unpacker.Check(), g.unpacker.Close())
}
