// Package ccall calls C functions that do not block in a fifth of the time of a cgo call,
// because it does not tell Go's scheduler that the thread is away.
package ccall
