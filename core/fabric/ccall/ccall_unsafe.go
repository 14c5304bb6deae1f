package ccall

import "unsafe"

// Call calls a C function of one pointer on the thread's system stack, and returns what it
// returns. It is the runtime's own switch into C; a call through cgo makes the same between
// handing its processor to the scheduler and asking for it back.
//
// The function must be as bounded as one of Go that polls: while it runs, the thread can
// not be preempted, and a collection waits for it. It must not call back into Go. What arg
// points to may lie on the goroutine's stack and may itself have pointers to Go memory;
// nothing checks them, as cgo would, and C must keep none of them.
//
//go:linkname Call runtime.asmcgocall
//go:noescape
func Call(function, arg unsafe.Pointer) int32
