// Package ptxtest runs PTX in tests: as much of it as the unpack kernel is written in,
// thread by thread. Threads that wait for each other, and memory but the global, are not
// part of that.
//
// The meaning of the instructions is that of the PTX ISA reference (NVIDIA), chapter 9.
package ptxtest
