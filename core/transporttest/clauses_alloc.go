package transporttest

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var allocClauses = []clause{
	{name: "alloc/small", run: allocTraffic(false), alone: true, needs: []need{needsNoGoroutines},
		says: "Post, Flush and Poll of small messages do not allocate."},
	{name: "alloc/large", run: allocTraffic(true), alone: true, needs: []need{needsNoGoroutines},
		says: "Post, Flush and Poll of large messages do not allocate."},
	{name: "alloc/idle", run: allocIdle, alone: true, needs: []need{needsNoGoroutines},
		says: "Flush and Poll with nothing to do do not allocate."},
	{name: "alloc/back-pressure", run: allocBackPressure, alone: true,
		needs: []need{needsNoGoroutines},
		says:  "A Post that finds no room does not allocate."},
	{name: "alloc/refusal", run: allocRefusal, alone: true,
		needs: []need{needsBound, needsNoGoroutines},
		says:  "A Post that is refused does not allocate."},
}

// allocations returns the average number of allocations of one call of f, with the collector off.
func allocations(f func()) float64 {
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	for range 20 {
		f() // make what is made once
	}
	return testing.AllocsPerRun(200, f)
}

// traffic makes calls on one connection without allocating.
type traffic struct {
	t       *trial
	a, b    transport.Worker
	calls   []transport.Op
	replies []transport.Op
	events  []transport.Event
	payload []byte
}

func newTraffic(t *trial, a, b *node, batch int, payload []byte) *traffic {
	f := &traffic{t: t, a: a.worker, b: b.worker,
		calls: make([]transport.Op, batch), replies: make([]transport.Op, batch),
		events: make([]transport.Event, batch), payload: payload}
	for i := range f.calls {
		f.calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: f.payload}
	}
	return f
}

// must fails the clause if there is an error.
func (f *traffic) must(err error) {
	if err != nil {
		f.t.Fatalf("traffic: %v", err)
	}
}

// round posts a batch of calls and waits for the responses.
func (f *traffic) round() {
	calls, replies, answered := f.calls, f.replies[:0], 0
	for spins := 0; answered < len(f.calls); spins++ {
		f.t.Pause(spins, "a round of traffic")
		n, err := f.a.Post(calls)
		f.must(err)
		calls = calls[n:]
		f.must(f.a.Flush())

		n, err = f.b.Poll(f.events)
		f.must(err)
		for i := range f.events[:n] {
			replies = append(replies, transport.Op{Kind: transport.OpReply,
				Peer: f.events[i].Peer, Token: f.events[i].Token, Payload: f.payload})
		}
		n, err = f.b.Post(replies)
		f.must(err)
		replies = replies[n:]
		f.must(f.b.Flush())

		n, err = f.a.Poll(f.events)
		f.must(err)
		answered += n
	}
}

func allocTraffic(large bool) func(*trial) {
	return func(t *trial) {
		c, a, b := t.pair(layout{})
		size := min(32, c.layout.maxPayload)
		if large {
			size = c.layout.maxPayload
		}
		f := newTraffic(t, a, b, min(c.depth(), 8), pattern(1, size))
		require.Zero(t, allocations(f.round), "allocations in a round of %d calls of %d bytes",
			len(f.calls), size)
	}
}

func allocIdle(t *trial) {
	_, a, b := t.pair(layout{})
	f := newTraffic(t, a, b, 1, pattern(1, 16))
	f.round() // until the connection is up there is something to do
	require.Zero(t, allocations(func() {
		f.must(f.a.Flush())
		_, err := f.a.Poll(f.events)
		f.must(err)
	}), "allocations in an idle Flush and Poll")
}

func allocBackPressure(t *trial) {
	c, a, b := t.pair(layout{})
	size := min(1024, c.layout.maxPayload)
	a.fill(size, 1)
	f := newTraffic(t, a, b, 1, pattern(1, size))
	require.Zero(t, allocations(func() {
		taken, err := f.a.Post(f.calls)
		f.must(err)
		if taken > 0 {
			a.waiting[f.calls[0].Token] = call{0, f.payload}
		}
		f.must(f.a.Flush())
	}), "allocations in a Post that finds no room")
}

func allocRefusal(t *trial) {
	c, a, b := t.pair(layout{})
	f := newTraffic(t, a, b, 1, make([]byte, c.limits.MaxPayload+1))
	require.Zero(t, allocations(func() {
		if taken, err := f.a.Post(f.calls); err == nil || taken != 0 {
			t.Fatalf("Post of a payload that is too large took %d and returned %v", taken, err)
		}
	}), "allocations in a Post that is refused")
}
