//go:build plaincgo && cgo

package plain

/*
#cgo noescape tb_call
#cgo nocallback tb_call
static int tb_call(void *function, void *arg) { return ((int (*)(void *))function)(arg); }
*/
import "C"

import "unsafe"

// Call calls a C function of one pointer and returns its result.
func Call(function, arg unsafe.Pointer) int32 { return int32(C.tb_call(function, arg)) }
