package copyrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: on the soft device the two threads bounce a
// cache line, on verbs they write a number to and fro, as ib_write_lat does.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	if w.closed {
		return transport.Floor{}, opError("probe", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil || w.peers[id].state > up {
		return transport.Floor{}, opError("probe", id, transport.ErrPeerDown)
	}
	p := w.peers[id]
	for p.state == connecting {
		if err := context.Cause(ctx); err != nil {
			return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer has not connected: %w", err))
		}
		w.manager.progress()
		runtime.Gosched()
	}
	if p.state != up {
		return transport.Floor{}, opError("probe", id, transport.ErrPeerDown)
	}
	var floor transport.Floor
	var err error
	if bouncer, ok := p.qp.(rdma.Bouncer); ok {
		floor.Name = "cache-line bounce"
		floor.RoundTrip, floor.Samples, err = bouncer.Bounce(ctx, initiate, d)
	} else {
		floor.Name = "RDMA write ping-pong"
		floor.RoundTrip, floor.Samples, err = w.pingPong(ctx, p, initiate, d)
	}
	if err != nil {
		return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
	}
	if !initiate {
		return transport.Floor{}, nil
	}
	return floor, nil
}

// pingOver is set in the last number of a ping-pong.
const pingOver = 1 << 63

// pingPong writes a number into a word at the peer, which writes it back into the word
// here. A number is larger than every one before, so that those which an earlier probe
// left behind do not count.
func (w *worker) pingPong(ctx context.Context, p *peer, initiate bool, d time.Duration) (median float64, samples int, err error) {
	word := twinAt(w.region.Bytes, p.slot*w.settings.region()+2*int(w.settings.ring)+probeOffset)
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	if !initiate {
		for spins := 1; !stopped.Load(); spins++ {
			if err := w.answer(p, spins); err != nil {
				return 0, 0, err
			}
			number, whole := word.load()
			if !whole || number&^pingOver <= p.pinged {
				continue
			}
			p.pinged = number &^ pingOver
			if err := w.ping(p, number); err != nil {
				return 0, 0, err
			}
			if number&pingOver != 0 {
				return 0, 0, nil
			}
		}
		return 0, 0, context.Cause(ctx)
	}
	var times []float64
	for start := time.Now(); ; {
		before := time.Since(start)
		p.pinged++
		number := p.pinged
		if before >= d && len(times) > 1 {
			number |= pingOver
		}
		if err := w.ping(p, number); err != nil {
			return 0, 0, err
		}
		for spins := 1; ; spins++ {
			if echo, whole := word.load(); whole && echo == number {
				break
			}
			if err := w.answer(p, spins); err != nil {
				return 0, 0, err
			}
			if stopped.Load() {
				return 0, 0, context.Cause(ctx)
			}
		}
		if number&pingOver != 0 {
			break
		}
		times = append(times, float64(time.Since(start)-before))
	}
	times = times[1:] // the first waited for the other side
	slices.Sort(times)
	return times[len(times)/2], len(times), nil
}

// answer looks for datagrams now and then: the peer may have lost the one that told it
// of the connection, and would never take part. And it looks whether there still is a
// connection.
func (w *worker) answer(p *peer, spins int) error {
	if spins%managerTurns != 0 {
		return nil
	}
	w.manager.progress()
	if _, err := w.collect(nil, 0); err != nil {
		return err
	}
	if p.state != up {
		return transport.ErrPeerDown
	}
	return nil
}

// ping writes a number into the peer's word.
func (w *worker) ping(p *peer, number uint64) error {
	at := p.slot*w.settings.region() + 2*int(w.settings.ring) + pingOffset
	twinAt(w.region.Bytes, at).store(number)
	r := &w.requests[0]
	*r = rdma.SendRequest{ID: creditID, Opcode: rdma.Write, Flags: w.signal(p), Length: twinSize,
		Local: w.region.Address + uint64(at), LocalKey: w.region.LocalKey, Remote: p.there + probeOffset, RemoteKey: p.key}
	if w.settings.inline >= twinSize {
		r.Flags |= rdma.Inline
	}
	for {
		n, err := p.qp.PostSend(w.requests[:1])
		if n == 1 {
			return nil
		}
		if !errors.Is(err, rdma.ErrQueueFull) {
			return err
		}
		if _, err := w.collect(nil, 0); err != nil || p.state != up {
			return errors.Join(err, transport.ErrPeerDown)
		}
	}
}
