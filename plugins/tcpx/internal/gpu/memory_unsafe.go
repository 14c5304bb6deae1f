package gpu

import (
	"unsafe"

	"transportbench/plugins/tcpx/internal/cuda"
)

// Descriptor has the layout that the kernel reads.
var _ [cuda.DescriptorSize]byte = [unsafe.Sizeof(cuda.Descriptor{})]byte{}

// descriptors returns the memory of a block as descriptors.
func descriptors(memory []byte) []cuda.Descriptor {
	return unsafe.Slice((*cuda.Descriptor)(unsafe.Pointer(unsafe.SliceData(memory))),
		len(memory)/cuda.DescriptorSize)
}
