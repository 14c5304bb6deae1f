package transporttest

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var callClauses = []clause{
	{name: "call/once", run: callOnce,
		says: "A call is polled once as a request and completed by one response."},
	{name: "call/both-sides", run: callBothSides,
		says: "Both sides of a connection may call, at the same time."},
	{name: "call/replies-in-any-order", run: callRepliesInAnyOrder,
		says: "Requests may be answered in any order; a response has the token of its call."},
	{name: "call/deferred", run: callDeferred,
		says: "A request may be answered at any later time, after other requests, with its " +
			"token only."},
	{name: "call/tokens", run: callTokens,
		says: "A response has all 64 bits of its call's token."},
	{name: "call/ordered", run: callOrdered, needs: []need{needsOrder},
		says: "Ordered: the requests of one peer are polled in the order of posting."},
}

var threadClauses = []clause{
	{name: "threads/all-to-all", run: threadsAllToAll, needs: []need{needsRoom},
		says: "Several workers of each rank, each on its own thread, call all workers of the " +
			"other rank at the same time."},
	{name: "threads/handover", run: threadsHandover,
		says: "A worker may move from one thread to another."},
}

func callOnce(t *trial) {
	c, a, b := t.pair(layout{})
	for i := range uint64(10 * c.depth()) {
		a.call(0, pattern(i, 16))
	}
	c.settle()
	require.Equal(t, 10*c.depth()+1, a.answered, "responses")
	require.Equal(t, 10*c.depth()+1, b.served, "requests")
}

func callBothSides(t *trial) {
	c, a, b := t.pair(layout{})
	for range 10 {
		takesDepth(c, a)
		takesDepthUnpolled(c, b)
		c.drain()
	}
	c.settle()
}

// takesDepthUnpolled posts as many calls as fit, without polling.
func takesDepthUnpolled(c *cluster, n *node) {
	for i := range c.depth() {
		call := n.newCall(0, pattern(uint64(i)<<40, 24))
		if _, err := n.tryPost([]transport.Op{call}); err != nil {
			c.trial.Fatalf("%s: Post while the peer's calls are in flight: %v", n.name, err)
		}
	}
	n.flush()
}

// hold makes a node keep requests, with copies of their payloads, instead of answering them.
func (n *node) hold() *[]transport.Event {
	held := new([]transport.Event)
	n.onRequest = func(e transport.Event) {
		e.Payload = slices.Clone(e.Payload)
		*held = append(*held, e)
	}
	return held
}

func callRepliesInAnyOrder(t *trial) {
	c, a, b := t.pair(layout{})
	held := b.hold()
	random := dice()
	orders := []func([]transport.Event){
		func(events []transport.Event) { slices.Reverse(events) },
		func(events []transport.Event) {
			random.Shuffle(len(events), func(i, j int) {
				events[i], events[j] = events[j],
					events[i]
			})
		},
	}
	for _, reorder := range orders {
		for range 5 {
			for i := range c.depth() {
				a.call(0, pattern(random.Uint64(), i))
			}
			c.until("all requests", func() bool { return len(*held) == c.depth() })
			reorder(*held)
			for _, e := range *held {
				b.reply(e, e.Payload)
			}
			*held = nil
			c.drain()
		}
	}
}

func callDeferred(t *trial) {
	c, a, b := t.pair(layout{})
	held := b.hold()
	early := max(c.depth()/2, 1)
	for i := range early {
		a.call(0, pattern(uint64(i), 24))
	}
	c.until("the requests to be deferred", func() bool { return len(*held) == early })
	deferred := *held
	b.onRequest = nil
	for range 200 {
		c.step()
	}
	for i := range 20 * c.depth() {
		if c.depth() > early {
			a.call(0, pattern(uint64(i)<<32, 40))
			c.until("room beside the deferred calls",
				func() bool { return len(a.waiting) < c.depth() })
		}
		b.call(0, pattern(uint64(i)<<40, 8))
	}
	c.until("the other responses", func() bool { return len(a.waiting) == early })
	slices.Reverse(deferred)
	for _, e := range deferred {
		b.reply(e, e.Payload)
	}
	c.settle()
}

func callTokens(t *trial) {
	c, a, b := t.pair(layout{})
	tokens := []uint64{0, 1, 1<<16 - 1, 1 << 16, 1<<31 - 1, 1 << 31, math.MaxUint32, 1 << 32,
		1<<63 - 1, 1 << 63,
		math.MaxUint64 - 1, math.MaxUint64}
	random := dice()
	for range 100 {
		tokens = append(tokens, random.Uint64())
	}
	for i, token := range tokens {
		payload := pattern(uint64(i), 16)
		for _, n := range []*node{a, b} {
			n.post(transport.Op{Kind: transport.OpCall, Peer: 0, Token: transport.Token(token),
				Payload: payload})
		}
	}
	c.drain()
}

func callOrdered(t *trial) {
	c, a, b := t.pair(layout{})
	for _, pair := range [][2]*node{{a, b}, {b, a}} {
		caller, server := pair[0], pair[1]
		next := uint64(0)
		server.onRequest = func(e transport.Event) {
			require.GreaterOrEqual(t, len(e.Payload), 8, "bytes of a request")
			require.Equal(t, next, binary.LittleEndian.Uint64(e.Payload),
				"the number of a request, in the order of posting")
			next++
			server.reply(e, e.Payload)
		}
		random := dice()
		for number := uint64(0); number < 1000; {
			var ops []transport.Op
			for range 1 + random.IntN(c.depth()) {
				payload := make([]byte, min(8+random.IntN(300), c.layout.maxPayload))
				binary.LittleEndian.PutUint64(payload, number)
				ops = append(ops, caller.newCall(0, payload))
				number++
			}
			caller.post(ops...)
		}
		c.drain()
	}
}

// threadsAllToAll ends with a check on one thread that nothing else arrives.
func threadsAllToAll(t *trial) {
	workers := min(3, t.traits.properties.Limits.Peers)
	c := t.open(layout{workers: workers})
	for _, a := range c.nodes[:workers] {
		for _, b := range c.nodes[workers:] {
			c.join(a, b)
		}
	}
	const calls = 200 // from each worker to each
	var threads []func()
	var unfinished atomic.Int32
	unfinished.Store(int32(len(c.nodes)))
	for _, n := range c.nodes {
		threads = append(threads, func() {
			n.callAll(calls)
			// Its last replies may still wait for a peer, and leave in a Poll.
			unfinished.Add(-1)
			n.until("the end of all other workers", func() bool { return unfinished.Load() == 0 })
		})
	}
	addresses := func() {
		for range 1000 {
			for _, n := range c.nodes {
				require.NotEmpty(t, n.worker.Address(), "Address, from another thread")
			}
		}
	}
	t.Parallel(append(threads, addresses)...)
	for _, n := range c.nodes {
		require.Equal(t, calls*workers, n.answered, "responses at %s", n.name)
		require.Equal(t, calls*workers, n.served, "requests at %s", n.name)
	}
	c.settle()
}

// callAll calls every peer and serves the same number of requests. It touches no other node.
func (n *node) callAll(calls int) {
	ops := make([]transport.Op, 0, calls*len(n.peers))
	for i := range calls {
		for peer := range n.peers {
			seed := uint64(n.index())<<48 | uint64(peer)<<32 | uint64(i)
			ops = append(ops, n.newCall(transport.PeerID(peer),
				pattern(seed, i%min(100, n.cluster.layout.maxPayload))))
		}
	}
	total := len(ops)
	n.until("all calls and requests", func() bool {
		taken, err := n.tryPost(ops)
		require.NoError(n.trial, err, "Post")
		ops = ops[taken:]
		return n.answered == total && n.served == total && len(n.outbox) == 0
	})
	n.flush()
}

// threadsHandover runs each step on a new thread, one after another.
func threadsHandover(t *trial) {
	var c *cluster
	t.Parallel(func() { c = t.open(layout{}) })
	a, b := c.nodes[0], c.nodes[1]
	t.Parallel(func() { c.join(a, b) })
	for i := range uint64(5) {
		t.Parallel(func() { a.call(0, pattern(i, 16)) })
		t.Parallel(func() { b.call(0, pattern(i, 16)) })
		t.Parallel(func() { c.drain() })
	}
	t.Parallel(c.settle)
	t.Parallel(a.close, b.close)
}
