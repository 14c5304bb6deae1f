// Package rdma is a small interface to RDMA, in the shape of verbs, with two
// devices behind it:
//
//   - verbs: an RDMA device of this machine through libibverbs; InfiniBand, RoCE
//     and Soft-RoCE. It is there in builds with the tag ibverbs.
//   - soft: a software device over shared memory between processes of one host.
//     It keeps the rules of verbs: a receive is consumed by each immediate and
//     each send, a message that finds none is not ready to be received,
//     immediates have 32 bits, queues are bounded, keys and bounds of one-sided
//     access are checked, and datagrams have 40 bytes of GRH before them.
//
// [Open] opens one of them. A [Device] allocates registered memory, a [Region],
// and makes completion queues, shared receive queues and queue pairs, reliable
// connected (RC) or unreliable datagram (UD). Two queue pairs are connected by
// exchanging their [Endpoint], by whatever means the caller has.
//
// # Threads and memory
//
// A Device may be used from several goroutines. A [CompletionQueue] and all that
// completes on it, its queue pairs and their shared receive queue, belong to one
// thread at a time. Posting and polling do not block, lock or allocate; the soft
// device maps a peer's memory when it is first used. Memory lies outside the Go
// heap. What a request refers to belongs to the device until the request, or a
// later one of the same queue pair, has completed.
//
// # Names
//
// The names are those of the InfiniBand Architecture Specification, volume 1, and
// of ibv_post_send(3) and its neighbours, spelled out.
package rdma
