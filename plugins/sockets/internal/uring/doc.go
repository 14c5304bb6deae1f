// Package uring is a small binding to io_uring for streams over sockets: multishot receives into
// rings of provided buffers that the kernel fills incrementally, and sends. It uses system calls
// and mapped memory, no C library. Constants and layouts come from the kernel's
// include/uapi/linux/io_uring.h.
//
// It needs Linux 6.12, the first kernel with incremental provided buffers (IOU_PBUF_RING_INC).
//
// A [Ring] belongs to one goroutine at a time. The kernel reads and writes the memory of an
// operation until its last completion, so this memory must not be on the Go heap, and Close must
// have returned before it is unmapped.
package uring
