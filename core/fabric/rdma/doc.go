// Package rdma is a small interface to RDMA in the shape of verbs, and its implementation over
// libibverbs. There are two devices:
//
//   - verbs: an RDMA device of this machine through libibverbs (InfiniBand, RoCE,
//     Soft-RoCE), in builds with the tag ibverbs ([OpenVerbs]).
//   - soft: a software device over shared memory between processes of one host, in package
//     soft. It keeps the rules of verbs: each immediate and each SEND consumes a receive; a
//     message that finds none is not delivered; immediates have 32 bits; queues are bounded;
//     keys and bounds of one-sided access are checked; datagrams have 40 bytes of GRH before
//     the payload.
//
// # Use
//
// Open of package devices opens either. A program then
//
//  1. makes a completion queue, if it shares receives a shared receive queue, and queue
//     pairs: reliable connected (RC) or unreliable datagram (UD),
//  2. allocates registered memory, a [Region],
//  3. sends each queue pair's [Endpoint] to the peer by its own means, and calls
//     [QueuePair.Connect] (RC) or [QueuePair.AddPeer] (UD) with the peer's,
//  4. posts receives and requests, and polls the completion queue.
//
// A thread with nothing to poll can sleep on a [Notifier]. The example of package devices
// runs both sides in one process.
//
// # Threads
//
// The methods of a Device may be called from several goroutines. A [CompletionQueue] and
// all that completes on it, its queue pairs and their shared receive queue, belong to one
// thread at a time. PostSend, PostReceive and Poll do not block, lock or allocate, except
// that the soft device maps a peer's region at its first use. All other calls may do all
// three.
//
// # Memory
//
// Regions lie outside the Go heap. Memory that a request names belongs to the device until
// the request completes, or a later request of the same queue pair does; Inline requests
// are the exception. Close of a region or device unmaps the memory.
//
// # Errors
//
// An error that PostSend or PostReceive returns concerns the request at the index that
// they return; requests before it are posted. What a device detects later is the
// [Status] of a completion, after which an RC queue pair is in the error state and
// flushes all other requests. See [ErrUnavailable] and the errors beside it.
//
// # Floors
//
// A [Loop] measures the floors of a queue pair of verbs in C.
//
// # Names
//
// The names come from the InfiniBand Architecture Specification, volume 1, and from the
// manual pages of libibverbs, spelled out. Each declaration names the verbs call that it
// stands for.
package rdma
