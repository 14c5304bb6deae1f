package gputest

import "unsafe"

// aligned returns memory that begins at a multiple of 16, as pinned memory does.
func aligned(size int) []byte {
	memory := make([]byte, size+16)
	at := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) & 15
	return memory[at : int(at)+size : int(at)+size]
}
