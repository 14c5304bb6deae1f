package gputest

import "transportbench/plugins/tcpx/internal/cuda"

// Kernel does for one descriptor what a warp of the kernel in unpack.ptx does, thread by
// thread: each load and the store of what it loaded is one call of move, of n bytes at
// an offset from both addresses.
func Kernel(from, to cuda.Address, length uint32, move func(offset, n uint32)) {
	width := uint32(16)
	for (from|to)&cuda.Address(width-1) != 0 {
		width /= 2
	}
	whole := length &^ (width - 1)
	for lane := range uint32(cuda.Warp) {
		for i := lane * width; i < whole; i += cuda.Warp * width {
			move(i, width)
		}
		for i := whole + lane; i < length; i += cuda.Warp {
			move(i, 1)
		}
	}
}
