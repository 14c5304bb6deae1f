package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/transport"
)

// memoryProbe is a ball that the two sides of a connection throw: odd to the
// answering side, even back.
type memoryProbe struct {
	ready atomic.Bool // the answering side stands there
	ball  atomic.Uint64
}

// probeEnd is the ball that ends a probe.
const probeEnd = ^uint64(0)

// probeSamples bounds what the median is taken from.
const probeSamples = 1 << 14

// Probe implements [transport.Prober].
func (w *memoryWorker) Probe(ctx context.Context, peer transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	fail := func(err error) (transport.Floor, error) {
		return transport.Floor{}, &transport.OpError{Transport: "memory", Op: "probe", Peer: peer, Err: err}
	}
	c := w.connection(peer)
	switch {
	case w.gone.Load():
		return fail(transport.ErrClosed)
	case c == nil || c.remote.gone.Load():
		return fail(transport.ErrPeerDown)
	}
	if !initiate {
		if err := c.probe.answer(ctx); err != nil {
			return fail(err)
		}
		return transport.Floor{}, nil
	}
	trips, err := c.probe.initiate(ctx, d)
	if err != nil {
		return fail(err)
	}
	slices.Sort(trips)
	return transport.Floor{Name: "goroutine ping-pong",
		RoundTrip: max(float64(trips[len(trips)/2]), 1), Samples: len(trips)}, nil
}

// until spins until done or the end of ctx.
func (p *memoryProbe) until(ctx context.Context, done func() bool) error {
	for !done() {
		if ctx.Err() != nil {
			return fmt.Errorf("the peer takes no part in the probe: %w", ctx.Err())
		}
		runtime.Gosched()
	}
	return nil
}

func (p *memoryProbe) initiate(ctx context.Context, d time.Duration) (trips []time.Duration, err error) {
	if err := p.until(ctx, p.ready.Load); err != nil {
		return nil, err
	}
	end := time.Now().Add(d)
	ball := uint64(1)
	back := func() bool { return p.ball.Load() == ball+1 }
	for len(trips) < probeSamples {
		start := time.Now()
		p.ball.Store(ball)
		if err := p.until(ctx, back); err != nil {
			return nil, err
		}
		now := time.Now()
		trips = append(trips, now.Sub(start))
		if ball += 2; now.After(end) {
			break
		}
	}
	p.ball.Store(probeEnd)
	// The next probe must not take this answering side for its own.
	return trips, p.until(ctx, func() bool { return !p.ready.Load() })
}

func (p *memoryProbe) answer(ctx context.Context) error {
	p.ball.Store(0)
	p.ready.Store(true)
	defer p.ready.Store(false)
	var ball uint64
	caught := func() bool {
		ball = p.ball.Load()
		return ball%2 == 1
	}
	for {
		if err := p.until(ctx, caught); err != nil {
			return err
		}
		if ball == probeEnd {
			return nil
		}
		p.ball.Store(ball + 1)
	}
}
