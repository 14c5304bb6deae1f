//go:build ibverbs

package ibverbs

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"transportbench/core/fabric/ccall"
)

// Sizes of the types that cross the boundary, for the caller to compare with its own.
const (
	SendSize       = C.sizeof_struct_tb_send
	ReceiveSize    = C.sizeof_struct_tb_receive
	CompletionSize = C.sizeof_struct_tb_completion
)

// The calls below do not block. They take as long as the device's doorbell, or as a system
// call on devices without one.

// Poll fills up to n completions at p, of CompletionSize bytes each, and returns how many,
// or a negative errno.
func (q *CQ) Poll(p unsafe.Pointer, n int) int {
	call := C.struct_tb_poll_call{cq: q.cq, completions: (*C.struct_tb_completion)(p), n: C.int(n)}
	return int(ccall.Call(C.tb_poll, unsafe.Pointer(&call)))
}

// PostSend posts n requests, of SendSize bytes each. code is 0, an errno or a Bad code.
func (p *Pair) PostSend(at unsafe.Pointer, n int) (posted, code int) {
	call := C.struct_tb_send_call{pair: p.pair, requests: (*C.struct_tb_send)(at), n: C.int(n)}
	posted = int(ccall.Call(C.tb_post_send, unsafe.Pointer(&call)))
	return posted, int(call.error)
}

// PostReceive posts n receives, of ReceiveSize bytes each, to the queue pair's own receive
// queue. code is 0 or an errno.
func (p *Pair) PostReceive(at unsafe.Pointer, n int) (posted, code int) {
	return postReceive(C.struct_tb_receive_call{qp: p.pair.qp}, at, n)
}

// PostReceive posts n receives to a shared receive queue, like [Pair.PostReceive].
func (s *SRQ) PostReceive(at unsafe.Pointer, n int) (posted, code int) {
	return postReceive(C.struct_tb_receive_call{srq: s.srq}, at, n)
}

func postReceive(call C.struct_tb_receive_call, at unsafe.Pointer, n int) (posted, code int) {
	call.requests, call.n = (*C.struct_tb_receive)(at), C.int(n)
	posted = int(ccall.Call(C.tb_post_receive, unsafe.Pointer(&call)))
	return posted, int(call.error)
}
