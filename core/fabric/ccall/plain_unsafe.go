//go:build plaincgo && cgo

package ccall

import (
	"unsafe"

	"transportbench/core/fabric/ccall/internal/plain"
)

// Call calls a C function as it does without the tag plaincgo, but through cgo, which costs more.
func Call(function, arg unsafe.Pointer) int32 { return plain.Call(function, arg) }
