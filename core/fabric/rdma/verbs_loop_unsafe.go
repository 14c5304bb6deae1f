//go:build ibverbs

package rdma

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/rdma/internal/ibverbs"
)

var _ loopMaker = (*verbsQueuePair)(nil)

// verbsLoop is the loop of a queue pair.
type verbsLoop struct {
	loop *ibverbs.Loop
	cq   *verbsCompletionQueue
}

var loopResults = map[int]loopResult{
	ibverbs.LoopDone: loopDone, ibverbs.LoopStopped: loopStopped, ibverbs.LoopLost: loopLost,
	ibverbs.LoopForeign: loopForeign,
}

// newLoopEnd implements [loopMaker]. A queue pair has one loop at most.
func (q *verbsQueuePair) newLoopEnd(c LoopConfig) (loopEnd, error) {
	if q.closed {
		return nil, ErrClosed
	}
	if q.loop != nil {
		return nil, Invalid("second loop of a queue pair")
	}
	var srq *ibverbs.SRQ
	if s, ok := q.config.Shared.(*verbsReceiveQueue); ok {
		srq = s.srq
	}
	q.loop = q.pair.NewLoop(srq, ibverbs.LoopConfig{Send: unsafe.Pointer(&c.Send),
		Receives: c.Receive.Local,
		Stride:   uint32(c.Stride), ReceiveLength: c.Receive.Length, ReceiveKey: c.Receive.LocalKey,
		Depth: uint32(c.Depth)})
	return &verbsLoop{loop: q.loop, cq: q.config.Completions.(*verbsCompletionQueue)}, nil
}

func (l *verbsLoop) begin(peer PeerHandle, m loopMessages) {
	l.loop.Begin(uint32(peer), ibverbs.LoopMessages{Parts: uint32(m.parts), Part: uint32(m.size),
		Last:     uint32(m.last),
		Expected: uint32(m.expected), Nonce: m.nonce, LastNonce: m.lastNonce})
}

func (l *verbsLoop) stop() { l.loop.Stop() }

func (l *verbsLoop) lead(s loopSlice) (loopResult, int, time.Duration, error) {
	code, ops, elapsed := l.loop.Lead(ibverbs.LoopSlice{Window: uint32(s.window),
		Group: uint32(s.group), Max: uint32(s.maximum),
		Farewell: s.farewell, Duration: uint64(s.duration), Patience: uint64(s.patience)})
	result, err := l.result(code)
	return result, int(ops), time.Duration(elapsed), err
}

func (l *verbsLoop) follow(patience time.Duration) (loopResult, uint32, error) {
	code, nonce := l.loop.Follow(uint64(patience))
	result, err := l.result(code)
	return result, nonce, err
}

// result keeps the completions of others for the next Poll.
func (l *verbsLoop) result(code int) (loopResult, error) {
	if at, n := l.loop.Foreign(); n > 0 {
		l.cq.pending = append(l.cq.pending, unsafe.Slice((*Completion)(at), n)...)
	}
	if code < 0 {
		return loopStopped, fmt.Errorf("probe of a queue pair: %w", unix.Errno(-code))
	}
	return loopResults[code], nil
}
