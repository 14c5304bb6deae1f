//go:build !plaincgo || !cgo

package ccall

import "unsafe"

// Call calls a C function of one pointer on the thread's system stack and returns its result.
// It is the runtime's own switch into C. A cgo call does the same, but also hands its
// processor to the scheduler before and requests it back after.
//
// The function must take no longer than a poll in Go: while it runs, the thread cannot be
// preempted, and a collection waits for it. It must not call back into Go. arg may point to
// the goroutine's stack and to memory with Go pointers. Unlike cgo, Call does not check
// them; C must keep none of them.
//
//go:linkname Call runtime.asmcgocall
//go:noescape
func Call(function, arg unsafe.Pointer) int32
