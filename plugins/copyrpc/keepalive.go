package copyrpc

import (
	"math"
	"time"

	"transportbench/core/fabric/rdma"
)

// tick wakes all workers once per keepalive interval, so that Poll sweeps.
func (e *endpoint) tick() {
	t := time.NewTicker(e.settings.keepalive)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.ticks.Add(1)
			e.mu.Lock()
			for _, w := range e.open {
				w.Wake()
			}
			e.mu.Unlock()
		case <-e.stop:
			return
		}
	}
}

// minWireRate is the lowest rate, in bytes per second, at which a full ring is expected to
// drain.
const minWireRate = 16 << 20

// keepaliveSweeps returns after how many sweeps a keepalive that has not completed costs the peer.
// It counts sweeps and not time, so that a process which did not run, and has the completion in its
// queue, loses no peer.
//
// A request ends when its retries are used up, in four times their timeouts at most
// (InfiniBand Architecture Specification, volume 1, 9.7.6.1.3). Devices do not always keep
// this: on Soft-RoCE of Linux 6.1 a send that fails, as with the interface down, stops the
// retries of earlier requests, and nothing completes any more. The software device
// completes only when the peer polls, which may be never, and detects dead peers itself.
func (s *settings) keepaliveSweeps(p rdma.Provider) int {
	if p != rdma.Verbs {
		return math.MaxInt
	}
	retries := 4 * time.Duration(s.connect.Retries+1) * (4096 * time.Nanosecond <<
		s.connect.Timeout)
	queued := time.Duration(s.ring) * time.Second / minWireRate // requests before the keepalive
	wait := retries + queued
	if s.pairs == pairsDC {
		wait *= time.Duration(s.peers) // share the send queue, and may all be dead
	}
	return int(wait/s.keepalive) + 2
}

// sweep posts an empty WRITE on each connection, which fails if the peer is dead. Each
// connection has at most one in flight. The peer is also lost if a keepalive does not
// complete within maxSweeps, or if the send queue stays full and nothing completes.
func (w *worker) sweep() {
	for _, p := range w.byCookie {
		if p.state != up {
			continue
		}
		if p.sweeps > 0 {
			if p.sweeps++; p.sweeps > w.maxSweeps {
				_ = p.qp.Close() // the peer finds out too
				w.losePeer(p)
				continue
			}
		}
		if p.keepalivePending {
			continue
		}
		w.requests[0] = rdma.SendRequest{ID: keepaliveID, Opcode: rdma.Write, Flags: rdma.Signaled,
			Remote: p.remoteControl, RemoteKey: p.remoteKey}
		switch n, _ := p.qp.PostSend(w.requests[:1]); {
		case n == 1:
			p.sweeps, p.keepalivePending = 1, true
			w.counts.keepalives++
		case p.sweeps == 0:
			p.sweeps = 1
		}
	}
}
