package bounce

import (
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// Launch implements [Unpacker]. It writes the descriptors into the slot's pinned block,
// where the GPU reads them.
func (g *GPU) Launch(slot int, descriptors []Descriptor, to Buffer) error {
	block := g.unpacker.Block(slot)
	if len(descriptors) > len(block) {
		return gpu.ErrDescriptor
	}
	for i := range descriptors {
		d := &descriptors[i]
		block[i] = cuda.Descriptor{Source: d.Source, Length: d.Length, Destination: d.Destination}
	}
	return localGPU(g.unpacker.Submit(slot, len(descriptors), cuda.Address(to.Device), to.Size))
}

// Done implements [Unpacker].
func (g *GPU) Done(slot int) (bool, error) {
	done, err := g.unpacker.Done(slot)
	return done, localGPU(err)
}

// localGPU marks a GPU's error as one of this side, for which no peer is to blame.
func localGPU(err error) error {
	if err == nil {
		return nil
	}
	return transport.Unavailable("mode gpu: %w", err)
}
