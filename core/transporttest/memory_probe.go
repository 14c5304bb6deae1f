package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// memoryPings is the [floor.Medium] of a connection: one word for each direction.
type memoryPings struct{ in, out *atomic.Uint64 }

func newMemoryPings(in, out *atomic.Uint64) floor.PingPong {
	return floor.PingPong{Name: "goroutine ping-pong", Medium: memoryPings{in, out}}
}

func (p memoryPings) Post(number uint64) error {
	p.out.Store(number)
	return nil
}

func (p memoryPings) Take() (number uint64, ok bool, err error) {
	runtime.Gosched() // the other side may be a goroutine of the same thread
	return p.in.Load(), true, nil
}

// Probe implements [transport.Prober].
func (w *memoryWorker) Probe(ctx context.Context, peer transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	c := w.connection(peer)
	var reading transport.Floor
	var err error
	switch {
	case w.gone.Load():
		err = transport.ErrClosed
	case c == nil || c.remote.gone.Load():
		err = transport.ErrPeerDown
	default:
		if reading, err = c.pings.Run(ctx, initiate, d); err != nil {
			err = fmt.Errorf("the peer takes no part in the probe: %w", err)
		}
	}
	if err != nil {
		return transport.Floor{}, &transport.OpError{Transport: "memory", Op: "probe", Peer: peer, Err: err}
	}
	return reading, nil
}
