// Package amlib is the worker of a transport over a native library that sends active messages:
// messages that name their sender and carry a token. The library's shim in C owns the memory of
// messages, a queue of messages to send and a ring of those that have arrived. Go fills the queue
// and empties the ring ([Queue]) and calls into C twice per loop: once to send the queue, and once
// to make progress. [Worker] has the data path and what the control paths of these transports have
// in common.
//
// The package imports no library. The internal package of a plugin binds the library, embeds a
// Queue into its worker and checks that the structs of its shim have the layout of [Shared] and its
// parts.
package amlib
