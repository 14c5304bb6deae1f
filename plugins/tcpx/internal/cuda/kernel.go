package cuda

import _ "embed" // the kernel's text

// Constants of the kernel in unpack.ptx.
const (
	// Entry is the kernel's name.
	Entry = "tcpx_unpack"
	// Warp is the number of threads that share a descriptor.
	Warp = 32
	// Block is the number of threads of a block.
	Block = 256
	// DescriptorSize is the size of a descriptor in bytes: its fields in order, little
	// endian.
	DescriptorSize = 16
)

//go:embed unpack.ptx
var kernel string

// PTX returns the kernel's text.
func PTX() string { return kernel }

// Descriptor is one piece of a chunk: its place in the bounce memory, its length, and its
// place in the destination.
type Descriptor struct {
	Source      uint32 // offset in bytes
	Length      uint32 // bytes
	Destination uint64 // offset in bytes
}

// Blocks returns the number of blocks that have one warp for each of count descriptors.
func Blocks(count int) int { return (count*Warp + Block - 1) / Block }
