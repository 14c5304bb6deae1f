package bounce

import (
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// Launch implements [Unpacker]. It writes the fragments into the slot's pinned block as
// descriptors, where the GPU reads them.
func (g *GPU) Launch(slot int, fragments []Fragment, to Buffer) error {
	block := g.unpacker.Block(slot)
	if len(fragments) > len(block) {
		return gpu.ErrDescriptor
	}
	for i := range fragments {
		f := &fragments[i]
		block[i] = cuda.Descriptor{Source: f.Source, Length: f.Length,
			Destination: uint64(f.Destination)}
	}
	return localGPU(g.unpacker.Submit(slot, len(fragments), cuda.Address(to.Device), to.Size))
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

// CopyOut starts to copy the beginning of a buffer to pinned memory. It returns the copy's number,
// or 0 if too many copies have not ended.
func (g *GPU) CopyOut(to []byte, from Buffer) (number uint64) {
	return g.unpacker.CopyOut(to, cuda.Address(from.Device))
}

// Copied returns the number of the last copy of CopyOut that has ended, like all before it.
func (g *GPU) Copied() (number uint64, err error) {
	number, err = g.unpacker.Copied()
	return number, localGPU(err)
}
