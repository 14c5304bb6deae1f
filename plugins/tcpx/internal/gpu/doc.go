// Package gpu unpacks received chunks into the memory of a GPU, and copies chunks to send out of
// it.
//
// A chunk arrives scattered over pages of bounce memory on the host. Descriptors say where
// each piece belongs. One launch of the kernel, or one copy per piece, moves the pieces
// asynchronously; an event after it signals when the pages are free again.
//
// [Open] makes all resources once: two streams, and an event and a pinned block of descriptors
// for each of sixteen requests. The document behind this transport warns of three errors:
// making resources per chunk, waiting for each kernel, and freeing pages too early. A [Fault]
// reproduces them, so that tests and users can see that they are detected.
//
// With [Config].Sends there are a stream and sixteen events more, for [Unpacker.CopyOut].
//
// CUDA's current context belongs to a thread, so one goroutine with a locked OS thread drives
// the [Device]. The data path communicates with it through memory and a channel, and never
// calls the driver.
package gpu
