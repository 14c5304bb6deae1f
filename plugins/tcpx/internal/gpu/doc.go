// Package gpu unpacks received chunks into the memory of a GPU.
//
// A chunk arrives scattered over the pages of bounce memory in the host. Its
// descriptors say which piece belongs where, and one launch of the kernel, or one copy
// for each, moves them. Nobody waits for that: an event behind the launch tells when the
// pages may be used again.
//
// All resources are made once, when an [Unpacker] is opened: two streams, and an event
// and a pinned block of descriptors for each of sixteen requests. Making them for each
// chunk, waiting for each kernel and giving pages back too early are the errors that the
// document behind this transport warns of; a [Fault] reproduces them, so that tests and
// users can see that they are caught.
//
// CUDA's current context belongs to a thread, so a [Device] is driven by one goroutine
// that keeps its OS thread. The data path talks to it through memory and a channel, and
// never makes a call of the driver itself.
package gpu
