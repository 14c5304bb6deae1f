package gpu

import (
	"unsafe"

	"transportbench/plugins/tcpx/internal/cuda"
)

// The layout that the kernel reads.
var _ [cuda.DescriptorSize]byte = [unsafe.Sizeof(cuda.Descriptor{})]byte{}

// descriptors is a block's memory as what it holds.
func descriptors(memory []byte) []cuda.Descriptor {
	return unsafe.Slice((*cuda.Descriptor)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/cuda.DescriptorSize)
}
