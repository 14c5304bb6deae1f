// Package cuda binds the calls of the CUDA driver API that unpacking on a GPU needs, and
// contains the unpack kernel.
//
// [Open] loads libcuda.so.1 with dlopen and looks up its functions by name, so neither the
// build nor the binary depends on CUDA. If that fails, the error has the loader's message.
// Signatures and constants follow the CUDA Driver API reference (NVIDIA); the function
// versions belong to CUDA 11 and later.
//
// The kernel is hand-written PTX for GPUs of compute capability 7.0 and later. The driver
// compiles it when a context is opened.
//
// Built without the tag cuda, or without cgo, the package is a stub whose Open fails.
package cuda
