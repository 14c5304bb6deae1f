package transporttest

import (
	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var connectClauses = []clause{
	{name: "connect/either-order", run: connectEitherOrder,
		says: "Both sides connect, in any order."},
	{name: "connect/does-not-wait", run: connectDoesNotWait,
		says: "Connect does not wait for the other side's Connect."},
	{name: "connect/call-before-peer", run: connectCallBeforePeer,
		says: "A call may be posted as soon as Connect has returned, and is polled by the peer " +
			"after the peer's own Connect."},
	{name: "connect/late", run: connectLate, needs: []need{needsRoom},
		says: "Both sides may connect while other connections have calls in flight."},
	{name: "connect/numbers", run: connectNumbers, needs: []need{needsRoom},
		says: "A peer has the number that was passed to Connect."},
	{name: "connect/many", run: connectMany,
		says: "A worker connects to up to Limits.Peers peers (the suite tries 32)."},
}

func connectEitherOrder(t *trial) {
	c := t.open(layout{})
	a, b := c.nodes[0], c.nodes[1]
	c.connect(a, b)
	c.connect(b, a)
	a.call(0, pattern(1, 16))
	b.call(0, pattern(2, 16))
	c.drain()

	c = t.open(layout{})
	a, b = c.nodes[0], c.nodes[1]
	c.connect(b, a)
	c.connect(a, b)
	a.call(0, pattern(3, 16))
	b.call(0, pattern(4, 16))
	c.drain()
}

func connectDoesNotWait(t *trial) {
	c := t.open(layout{})
	c.connect(c.nodes[0], c.nodes[1])
}

func connectCallBeforePeer(t *trial) {
	c := t.open(layout{})
	a, b := c.nodes[0], c.nodes[1]
	c.connect(a, b)
	for i := range c.depth() {
		op := a.newCall(0, pattern(uint64(i), 16))
		taken, err := a.tryPost([]transport.Op{op})
		require.NoError(t, err, "Post before the peer's Connect")
		if taken == 0 {
			break
		}
	}
	require.NotEmpty(t, a.waiting, "calls taken before the peer's Connect")
	for range 10 {
		c.step() // b has no peers yet, so any event fails here
	}
	c.connect(b, a)
	c.drain()
}

func connectLate(t *trial) {
	c := t.open(layout{ranks: 3})
	a, b, late := c.nodes[0], c.nodes[1], c.nodes[2]
	c.join(a, b)
	for i := range c.depth() {
		a.call(0, pattern(uint64(i), 64))
		b.call(0, pattern(uint64(i), 64))
		if i == c.depth()/2 {
			a.flush()
			b.flush()
			c.join(late, a)
		}
	}
	c.join(late, b)
	late.call(0, pattern(1, 64))
	late.call(1, pattern(2, 64))
	b.call(1, pattern(3, 64))
	c.drain()
}

// connectNumbers gives every connection different numbers on its two sides, in a different order on
// each node.
func connectNumbers(t *trial) {
	peers := min(4, t.traits.properties.Limits.Peers)
	c := t.open(layout{ranks: peers + 1})
	for i, n := range c.nodes {
		for j := range peers {
			number := (j*(peers-1) + i) % peers // a permutation of 0 to peers-1
			c.connectAs(n, c.nodes[(i+1+j)%len(c.nodes)], transport.PeerID(number))
		}
	}
	for _, n := range c.nodes {
		n.onRequest = func(e transport.Event) {
			want := pattern(uint64(n.peers[e.Peer].index()), 32)
			n.sameBytes("request attributed to its peer,", e.Payload, want)
			n.reply(e, e.Payload)
		}
	}
	for i, n := range c.nodes {
		for peer := range n.peers {
			n.call(transport.PeerID(peer), pattern(uint64(i), 32))
		}
	}
	c.drain()
}

func connectMany(t *trial) {
	peers := min(32, t.traits.properties.Limits.Peers)
	c := t.open(layout{ranks: peers + 1, peers: peers, inFlight: 2, maxPayload: 256})
	center := c.nodes[0]
	for _, n := range c.nodes[1:] {
		c.join(center, n)
	}
	for peer := range peers {
		center.call(transport.PeerID(peer), pattern(uint64(peer), 16))
		c.nodes[peer+1].call(0, pattern(uint64(peer), 16))
	}
	c.drain()
}
