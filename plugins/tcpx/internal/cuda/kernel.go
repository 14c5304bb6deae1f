package cuda

import _ "embed" // the kernel's text

// The kernel in unpack.ptx as the host sees it.
const (
	// Entry is the kernel's name.
	Entry = "tcpx_unpack"
	// Warp is the number of threads that share a descriptor.
	Warp = 32
	// Block is the number of threads of a block.
	Block = 256
	// DescriptorSize is what a descriptor takes in memory: its fields in order, little
	// endian.
	DescriptorSize = 16
)

//go:embed unpack.ptx
var kernel string

// PTX returns the kernel's text.
func PTX() string { return kernel }

// Descriptor is one piece of a chunk: where it lies in the bounce memory, how long it
// is, and where it belongs in the destination.
type Descriptor struct {
	Source      uint32 // offset in bytes
	Length      uint32 // bytes
	Destination uint64 // offset in bytes
}

// Blocks returns how many blocks it takes to give each of count descriptors a warp.
func Blocks(count int) int { return (count*Warp + Block - 1) / Block }
