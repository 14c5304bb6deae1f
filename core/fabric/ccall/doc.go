// Package ccall calls C functions that do not block in a fifth of the time of a cgo call,
// because it does not tell Go's scheduler that the thread is away. It links to a function of Go's
// runtime. A build with the tag plaincgo calls through cgo instead; decision 0030 says why there
// are both.
package ccall
