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

// Sizes of what crosses the boundary, for the caller to compare with its own types.
const (
	SendSize       = C.sizeof_struct_tb_send
	ReceiveSize    = C.sizeof_struct_tb_receive
	CompletionSize = C.sizeof_struct_tb_completion
)

// The calls below are as short as their device's doorbell, or a system call where it has
// none, and nothing in them waits.

// Poll fills n completions at p, of CompletionSize bytes each, and returns how many
// it filled or a negative errno.
func (q *CQ) Poll(p unsafe.Pointer, n int) int {
	call := C.struct_tb_poll_call{cq: q.cq, completions: (*C.struct_tb_completion)(p), n: C.int(n)}
	return int(ccall.Call(C.tb_poll, unsafe.Pointer(&call)))
}

// PostSend posts n requests at p, of SendSize bytes each; code is an errno, or one of
// the Bad values.
func (p *Pair) PostSend(at unsafe.Pointer, n int) (posted, code int) {
	call := C.struct_tb_send_call{pair: p.pair, requests: (*C.struct_tb_send)(at), n: C.int(n)}
	posted = int(ccall.Call(C.tb_post_send, unsafe.Pointer(&call)))
	return posted, int(call.error)
}

// PostReceive is for queue pairs with receives of their own: it posts n requests at p, of
// ReceiveSize bytes each; code is an errno.
func (p *Pair) PostReceive(at unsafe.Pointer, n int) (posted, code int) {
	return postReceive(C.struct_tb_receive_call{qp: p.pair.qp}, at, n)
}

// PostReceive does so for a shared receive queue.
func (s *SRQ) PostReceive(at unsafe.Pointer, n int) (posted, code int) {
	return postReceive(C.struct_tb_receive_call{srq: s.srq}, at, n)
}

func postReceive(call C.struct_tb_receive_call, at unsafe.Pointer, n int) (posted, code int) {
	call.requests, call.n = (*C.struct_tb_receive)(at), C.int(n)
	posted = int(ccall.Call(C.tb_post_receive, unsafe.Pointer(&call)))
	return posted, int(call.error)
}
