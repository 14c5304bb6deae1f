package cuda

import "fmt"

// Library is the name under which NVIDIA's driver installs itself.
const Library = "libcuda.so.1"

// Address is one that the GPU uses: of its own memory, or of the host's memory as it
// sees it.
type Address uint64

// Stream is an ordered queue of work of a context.
type Stream uintptr

// Event is a mark in a stream that can be asked whether the stream has come by.
type Event uintptr

// Error is what a call of the driver API answered.
type Error struct {
	Call string // cuLaunchKernel
	Code int    // a CUresult
	Name string // CUDA_ERROR_LAUNCH_FAILED
	Text string // the driver's own words
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text) }

// Description is what a context runs on.
type Description struct {
	Device string // the GPU's name
	Driver string // the version of CUDA that the driver serves, such as 12.4
}

// version writes a driver version as CUDA encodes it, 1000 times the major and 10
// times the minor.
func version(encoded int) string { return fmt.Sprintf("%d.%d", encoded/1000, encoded%1000/10) }
