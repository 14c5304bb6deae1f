package transporttest

import (
	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var peerClauses = []clause{
	{name: "peers/lost-by-worker-close", run: peersLostBy((*node).close),
		needs: []need{needsLostPeer, needsRoom},
		says:  "A peer whose worker closes is reported by one EventPeerLost."},
	{name: "peers/lost-by-transport-close", run: peersLostBy(closeOwnRank),
		needs: []need{needsLostPeer, needsRoom},
		says:  "A peer whose transport closes is reported by one EventPeerLost."},
	{name: "peers/lost-by-death", run: peersLostBy(killOwnRank),
		needs: []need{needsLostPeer, needsRoom, needsKill},
		says:  "A peer that dies is reported by one EventPeerLost."},
	{name: "peers/each-lost", run: peersEachLost, needs: []need{needsLostPeer, needsRoom},
		says: "Every lost peer is reported."},
	{name: "peers/lost-comes-last", run: peersLostComesLast,
		needs: []need{needsLostPeer, needsRoom},
		says:  "EventPeerLost is the last event of the peer."},
	{name: "peers/lost-in-flight", run: peersLostInFlight, needs: []need{needsLostPeer, needsRoom},
		says: "Calls in flight to a lost peer fail without an event; its requests cannot be " +
			"answered."},
	{name: "peers/post-to-lost", run: peersPostToLost, needs: []need{needsLostPeer, needsRoom},
		says: "An op to a lost peer is refused with ErrPeerDown; ops before it were taken, and " +
			"the worker stays usable."},
	{name: "peers/others-go-on", run: peersOthersGoOn, needs: []need{needsRoom},
		says: "The loss of one peer does not affect calls in flight to others."},
}

func closeOwnRank(n *node) {
	for i, r := range n.cluster.endpoints {
		if r == n.endpoint {
			n.cluster.closeRank(i)
		}
	}
}

// killOwnRank kills the rank; the transport is closed at the end of the clause.
func killOwnRank(n *node) {
	n.closed = true
	n.trial.suite.Kill(n.endpoint.Transport)
}

// lossOf waits for the EventPeerLost of peer at n.
func (n *node) lossOf(peer transport.PeerID) {
	n.cluster.until("EventPeerLost at "+n.name, func() bool { return n.lost[peer] })
}

func peersLostBy(lose func(*node)) func(*trial) {
	return func(t *trial) {
		c, center, others := t.star(3)
		center.call(0, pattern(1, 16))
		others[0].call(0, pattern(2, 16))
		c.drain()
		lose(others[0])
		center.lossOf(0)
		c.settle() // a second EventPeerLost fails here
	}
}

func peersEachLost(t *trial) {
	peers := min(5, t.traits.properties.Limits.Peers)
	c, center, others := t.star(peers + 1)
	for peer := range others {
		center.call(transport.PeerID(peer), pattern(1, 16))
	}
	c.drain()
	others[0].close()
	for _, n := range others[2:] {
		n.close() // several between two polls
	}
	for peer := range others {
		if peer != 1 {
			center.lossOf(transport.PeerID(peer))
		}
	}
	c.settle()
}

// peersLostComesLast closes a peer with messages in transit. They may be lost, but must not arrive
// after EventPeerLost; check fails on those.
func peersLostComesLast(t *trial) {
	c, center, others := t.star(3)
	going := others[0]
	held := going.hold()
	for i := range c.depth() {
		center.call(0, pattern(uint64(i), 16))
	}
	c.until("all requests", func() bool { return len(*held) == c.depth() })
	for _, e := range *held {
		going.reply(e, e.Payload)
	}
	postReplies(going)
	callUntilShort(going, 16)
	going.close()
	center.events = make([]transport.Event, 3)
	center.lossOf(0)
	c.settle()
}

func peersLostInFlight(t *trial) {
	c, center, others := t.star(3)
	going := others[0]
	atGoing, atCenter := going.hold(), center.hold()
	for i := range c.depth() {
		center.call(0, pattern(uint64(i), 16))
	}
	c.until("requests at the peer that closes", func() bool { return len(*atGoing) == c.depth() })
	going.call(0, pattern(1, 16))
	c.until("a request from the peer that closes", func() bool { return len(*atCenter) == 1 })
	going.close()
	center.lossOf(0)
	center.onRequest = nil
	c.settle()
	request := (*atCenter)[0]
	_ = center.refused([]transport.Op{{Kind: transport.OpReply, Peer: request.Peer,
		Token: request.Token}},
		0, transport.ErrPeerDown)
	c.settle()
}

func peersPostToLost(t *trial) {
	c, center, others := t.star(3)
	center.call(0, pattern(1, 16))
	c.drain()
	others[0].close()
	center.lossOf(0)
	for i := range 3 {
		good, after := center.newCall(1, pattern(1, 16)), center.newCall(1, pattern(2, 16))
		bad := center.newCall(0, pattern(3, 16))
		_ = center.refused([]transport.Op{good, bad, after}, 1, transport.ErrPeerDown)
		center.post(after)
		c.drain()
		require.Equal(t, 2*(i+1), others[1].served, "requests that arrived at the other peer")
	}
	c.settle()
}

func peersOthersGoOn(t *trial) {
	c, center, others := t.star(3)
	going, staying := others[0], others[1]
	held := staying.hold()
	for i := range c.depth() {
		center.call(1, pattern(uint64(i), 16))
	}
	c.until("requests at the peer that stays", func() bool { return len(*held) == c.depth() })
	going.close()
	if t.traits.properties.Capabilities.TellsPeerLost {
		center.lossOf(0)
	}
	for _, e := range *held {
		staying.reply(e, e.Payload)
	}
	c.drain()
	staying.onRequest = nil
	for i := range uint64(5 * c.depth()) {
		center.call(1, pattern(i, 64))
		staying.call(0, pattern(i, 64))
	}
	c.settle()
}
