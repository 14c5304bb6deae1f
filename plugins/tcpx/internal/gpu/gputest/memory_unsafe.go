package gputest

import "unsafe"

// aligned returns memory aligned to 16 bytes, as pinned memory is.
func aligned(size int) []byte {
	memory := make([]byte, size+16)
	at := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) & 15
	return memory[at : int(at)+size : int(at)+size]
}
