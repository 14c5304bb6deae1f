//go:build ibverbs

package ibverbs

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Results of Lead and Follow, besides negative errno values.
const (
	LoopDone    = C.TB_DONE
	LoopStopped = C.TB_STOPPED
	LoopLost    = C.TB_LOST
	LoopForeign = C.TB_FOREIGN
)

// Loop is one side of probes over a queue pair. See struct tb_loop.
type Loop struct{ loop *C.struct_tb_loop }

// LoopConfig is what all messages of a loop have in common. Send points at SendSize bytes.
type LoopConfig struct {
	Send                                     unsafe.Pointer
	Receives                                 uint64
	Stride, ReceiveLength, ReceiveKey, Depth uint32
}

// LoopMessages holds the shapes of the messages of one probe.
type LoopMessages struct{ Parts, Part, Last, Expected, Nonce, LastNonce uint32 }

// LoopSlice is one call of Lead.
type LoopSlice struct {
	Window, Group, Max uint32
	Farewell           bool
	Duration, Patience uint64
}

// NewLoop makes a loop. srq is nil if the queue pair has its own receive queue.
func (p *Pair) NewLoop(srq *SRQ, o LoopConfig) *Loop {
	l := (*C.struct_tb_loop)(C.calloc(1, C.sizeof_struct_tb_loop))
	l.pair, l.cq = p.pair, p.cq.cq
	if srq != nil {
		l.srq = srq.srq
	}
	l.send = *(*C.struct_tb_send)(o.Send)
	l.receives, l.stride = C.uint64_t(o.Receives), C.uint32_t(o.Stride)
	l.receive_length, l.receive_key, l.depth = C.uint32_t(o.ReceiveLength),
		C.uint32_t(o.ReceiveKey), C.uint32_t(o.Depth)
	return &Loop{l}
}

// Begin starts a probe.
func (l *Loop) Begin(peer uint32, m LoopMessages) {
	c := l.loop
	c.send.peer = C.uint32_t(peer)
	c.parts, c.part, c.last, c.expected = C.uint32_t(m.Parts), C.uint32_t(m.Part),
		C.uint32_t(m.Last), C.uint32_t(m.Expected)
	c.nonce, c.arrived, c.queued, c.cursor = C.uint32_t(m.Nonce), 0, 0, 0
	c.last_nonce = C.uint32_t(m.LastNonce)
	l.stopFlag().Store(0)
}

// Stop ends the current and later calls of Lead and Follow. Any thread may call it.
func (l *Loop) Stop() { l.stopFlag().Store(1) }

func (l *Loop) stopFlag() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&l.loop.stop)) }

// Lead measures one slice.
func (l *Loop) Lead(s LoopSlice) (result int, ops, elapsed uint64) {
	c := l.loop
	c.window, c.group, c.max = C.uint32_t(s.Window), C.uint32_t(s.Group), C.uint32_t(s.Max)
	c.duration, c.patience, c.farewell = C.uint64_t(s.Duration), C.uint64_t(s.Patience), 0
	if s.Farewell {
		c.farewell, c.parts, c.part, c.last, c.expected = 1, 1, 0, 0, 1
	}
	result = int(C.tb_lead(c))
	return result, uint64(c.ops), uint64(c.elapsed)
}

// Follow answers messages until the leader's farewell, and returns the probe's nonce.
func (l *Loop) Follow(patience uint64) (result int, nonce uint32) {
	l.loop.patience = C.uint64_t(patience)
	result = int(C.tb_follow(l.loop))
	return result, uint32(l.loop.nonce)
}

// Foreign returns the completions that the last call polled and that are not of the probe, at
// CompletionSize bytes each.
func (l *Loop) Foreign() (at unsafe.Pointer, n int) {
	return unsafe.Pointer(&l.loop.foreign[0]), int(l.loop.foreign_count)
}

// Close frees the loop.
func (l *Loop) Close() { C.free(unsafe.Pointer(l.loop)) }
