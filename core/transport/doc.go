// Package transport defines the interface between the measured runtime and a transport, which
// carries its messages. It imports only the standard library. The program of a plugin also links
// the runtime, and with it the modules that the runtime needs.
//
// A [Driver] opens a [Transport], one for each rank. The Transport makes a [Worker] for each
// polling thread. The measured loop calls three methods of a Worker, [Worker.Post], [Worker.Flush]
// and [Worker.Poll], which never block, lock or allocate. All other methods are control: they may
// block and allocate.
//
// # Messages
//
// A worker is connected to peers, which its caller numbers. Either side of a connection may call.
// A call carries a token that the caller chose. The other side polls it as a request, whose token
// is a reply handle that its transport chose. The reply, posted with that handle, arrives at the
// caller as a response with the caller's token. Requests and responses may arrive in any order
// unless the transport declares [Capabilities.Ordered]. While both sides live, every message that
// was posted and flushed arrives exactly once: a transport on a lossy medium retransmits.
//
// Post copies a payload, or sends it, before it returns. There is no way to lend one until a later
// event, because the runtime replies with entries of its store, which a later write changes. The
// copy of 512 KiB values takes 2% of the sending thread's time over tcpx, which sends most of a
// payload from where it lies, and 15% over copyrpc on the software device.
//
// # Failures
//
// Back-pressure is not an error: Post returns a short count, and the caller polls and posts the
// rest again. The loss of a peer is an event, [EventPeerLost]; it fails all calls in flight to
// that peer. A returned error is an [*OpError] that wraps one of the sentinels of this package,
// which tells whether the op, the peer or the worker is refused.
//
// # Optional parts
//
// A transport may declare [Capabilities], and its workers may implement interfaces beyond [Worker].
// The runtime works without them:
//
//   - [Waiter]: sleep until something arrives
//   - [StatsReader]: counters, of transports too
//   - [PathReader]: what carries the bytes, and why a peer is silent
//   - [Recorder]: the course of a window, and the steps of transfers
//   - [DeviceWorker]: payloads in device memory
//   - [Prober]: floors of the medium
//   - [Microbenchmarker], of the driver: costs of the medium's parts
//
// Package core/transporttest has a test for every clause of this contract.
//
// The host accepts what a plugin sends within bounds. The tag "bound" of a field has them: a limit,
// a field that the value may not exceed, or "any". A name with $ is known to the host only.
package transport
