// Package cuda binds the few calls of the CUDA driver API that unpacking on a GPU
// needs, and carries the unpack kernel.
//
// The driver is found when a [Context] is opened: libcuda.so.1 is loaded with dlopen
// and its functions are looked up by name, so that neither the build nor the binary
// depends on it. Where it cannot be loaded, the error has the loader's own message.
// Signatures and constants are those of the CUDA Driver API reference (NVIDIA), and
// the versions of the functions those of CUDA 11 and later.
//
// The kernel is PTX, written by hand, for any GPU from compute capability 7.0 on; the
// driver compiles it when the context is opened.
//
// Built without the tag cuda, or without cgo, the package is a stub whose Open says so.
package cuda
