package bounce

import "unsafe"

// aligned reports whether memory starts at a page.
func aligned(b []byte) bool {
	return len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%PageSize == 0
}
