// Package ptxtest interprets PTX in tests, thread by thread. It knows the subset that the
// unpack kernel uses: no synchronization between threads, and global memory only.
//
// Instructions behave as in chapter 9 of the PTX ISA reference (NVIDIA).
package ptxtest
