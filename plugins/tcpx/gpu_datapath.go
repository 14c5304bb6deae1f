package tcpx

import (
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// launch implements [unpacker]. The descriptors go into the slot's pinned block, where
// the GPU reads them.
func (g *gpuUnpacker) launch(slot int, descriptors []descriptor, to buffer) error {
	block := g.unpacker.Block(slot)
	if len(descriptors) > len(block) {
		return gpu.ErrDescriptor
	}
	for i := range descriptors {
		d := &descriptors[i]
		block[i] = cuda.Descriptor{Source: d.source, Length: d.length, Destination: d.destination}
	}
	return failed(g.unpacker.Submit(slot, len(descriptors), cuda.Address(to.device), to.size))
}

// done implements [unpacker].
func (g *gpuUnpacker) done(slot int) (bool, error) {
	done, err := g.unpacker.Done(slot)
	return done, failed(err)
}

// failed makes an error of the GPU one of this side, which no peer has to do with.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return transport.Unavailable("mode gpu: %w", err)
}
