package cuda

import "fmt"

// Library is the file name of NVIDIA's driver library.
const Library = "libcuda.so.1"

// Address is an address for the GPU, in its own memory or in host memory mapped for it.
type Address uint64

// Stream is an ordered queue of work of a context.
type Stream uintptr

// Event is a mark in a stream. Query reports whether the stream has passed it.
type Event uintptr

// Error is a failed call of the driver API.
type Error struct {
	Call string // cuLaunchKernel
	Code int    // a CUresult
	Name string // CUDA_ERROR_LAUNCH_FAILED
	Text string // the driver's description
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Description describes the GPU and the driver of a context.
type Description struct {
	Device string // the GPU's name
	Driver string // the CUDA version of the driver, such as 12.4
}

// version formats a driver version, which CUDA encodes as 1000 * major + 10 * minor.
func version(encoded int) string { return fmt.Sprintf("%d.%d", encoded/1000, encoded%1000/10) }
