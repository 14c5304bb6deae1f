// Package ccall calls functions of C that do not block, in a fifth of the time that a call
// through cgo takes: without telling Go's scheduler that the thread is away.
package ccall
