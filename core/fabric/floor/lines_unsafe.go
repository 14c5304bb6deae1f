package floor

import "unsafe"

// word returns the word at an offset of b, which callers keep aligned.
func word(b []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&b[at : at+8][0])) }

// word32 is word for 32 bits.
func word32(b []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&b[at : at+4][0])) }
