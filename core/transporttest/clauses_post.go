package transporttest

import (
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var postClauses = []clause{
	{name: "post/nothing", run: postNothing,
		says: "Post of no ops returns 0 and no error."},
	{name: "post/copies", run: postCopies,
		says: "Post copies payloads, so the caller may change them when it returns."},
	{name: "post/too-large", run: postTooLarge, needs: []need{needsBound},
		says: "A payload over Limits.MaxPayload is refused with ErrTooLarge: ops before it were " +
			"taken, nothing of it was sent, and the worker stays usable."},
	{name: "post/too-large-reply", run: postTooLargeReply, needs: []need{needsBound},
		says: "After a reply is refused as too large, its request can still be answered."},
	{name: "post/unknown-peer", run: postUnknownPeer,
		says: "An op to a peer that was never connected is refused with ErrPeerDown; ops before " +
			"it were taken, and the worker stays usable."},
	{name: "post/unknown-kind", run: postUnknownKind,
		says: "An op of an unknown kind is refused with ErrUnsupported; ops before it were " +
			"taken, and the worker stays usable."},
}

// needsBound is met if a payload above the limit can be allocated.
var needsBound = need{"Limits.MaxPayload below 1 GiB",
	func(tr traits) bool { return tr.properties.Limits.MaxPayload < 1<<30 }}

func postNothing(t *trial) {
	c, a, _ := t.pair(layout{})
	for _, ops := range [][]transport.Op{nil, {}} {
		taken, err := a.worker.Post(ops)
		require.NoError(t, err, "Post of no ops")
		require.Zero(t, taken, "ops taken of none")
	}
	a.call(0, pattern(1, 16))
	c.settle()
}

func postCopies(t *trial) {
	c, a, b := t.pair(layout{})
	b.onRequest = func(e transport.Event) {
		payload := slices.Clone(e.Payload)
		taken, err := b.worker.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer,
			Token: e.Token, Payload: payload}})
		require.NoError(t, err, "Post of a reply")
		overwrite(payload)
		if taken == 0 {
			b.reply(e, e.Payload)
		}
	}
	top := c.layout.maxPayload
	for seed, size := range []int{1, 7, 8, 64, c.limits.InlineSize, c.limits.InlineSize + 1,
		1000, top} {
		payload := pattern(uint64(seed), min(size, top))
		posted := slices.Clone(payload)
		ops := []transport.Op{a.newCall(0, posted)}
		token := ops[0].Token
		a.post(ops...)
		overwrite(posted)
		ops[0] = transport.Op{}
		a.waiting[token] = call{0, payload}
	}
	c.drain()
}

func overwrite(payload []byte) {
	for i := range payload {
		payload[i] = 0xdb
	}
}

// refused posts ops until ops[bad] is refused, and returns the error.
func (n *node) refused(ops []transport.Op, bad int, sentinel error) error {
	for spins, taken := 0, 0; ; spins++ {
		more, err := n.tryPost(ops[taken:])
		taken += more
		switch {
		case err != nil:
			require.ErrorIs(n.trial, err, sentinel, "the error of Post")
			require.Equal(n.trial, bad, taken, "ops taken before the one that is refused")
			return err
		case taken > bad:
			n.trial.Fatalf("%s: Post took an op that it must refuse with %q", n.name, sentinel)
		}
		n.trial.Pause(spins, "room for ops before the one that is refused")
		n.cluster.step()
	}
}

func postTooLarge(t *trial) {
	c, a, b := t.pair(layout{})
	for _, over := range []int{1, 4096} {
		served := b.served
		good := []transport.Op{a.newCall(0, pattern(1, 16)), a.newCall(0, nil)}
		bad := a.newCall(0, make([]byte, c.limits.MaxPayload+over))
		after := a.newCall(0, pattern(2, 16))
		_ = a.refused(append(good, bad, after), len(good), transport.ErrTooLarge)
		c.drain()
		c.settle() // one more call on each side
		require.Equal(t, served+len(good)+1, b.served, "requests that arrived")
		a.post(after)
		c.drain()
	}
}

func postTooLargeReply(t *trial) {
	c, a, b := t.pair(layout{})
	b.onRequest = func(e transport.Event) {
		bad := transport.Op{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token,
			Payload: make([]byte, c.limits.MaxPayload+1)}
		_ = b.refused([]transport.Op{bad}, 0, transport.ErrTooLarge)
		b.reply(e, e.Payload)
	}
	for i := range uint64(2 * c.depth()) {
		a.call(0, pattern(i, 16))
	}
	c.settle()
}

func postUnknownPeer(t *trial) {
	c, a, b := t.pair(layout{})
	for i, peer := range []transport.PeerID{1, 1000, math.MaxInt32, transport.NoPeer} {
		good, after := a.newCall(0, pattern(1, 16)), a.newCall(0, pattern(2, 16))
		bad := a.newCall(peer, pattern(3, 16))
		_ = a.refused([]transport.Op{good, bad, after}, 1, transport.ErrPeerDown)
		a.post(after)
		c.drain()
		require.Equal(t, 2*(i+1), b.served, "requests that arrived")
	}
	c.settle()
}

func postUnknownKind(t *trial) {
	c, a, b := t.pair(layout{})
	for i, kind := range []transport.OpKind{0, transport.OpReply + 1, math.MaxUint8} {
		good, after := a.newCall(0, pattern(1, 16)), a.newCall(0, pattern(2, 16))
		bad := transport.Op{Kind: kind, Peer: 0, Token: 99, Payload: pattern(3, 16)}
		_ = a.refused([]transport.Op{good, bad, after}, 1, transport.ErrUnsupported)
		a.post(after)
		c.drain()
		require.Equal(t, 2*(i+1), b.served, "requests that arrived")
	}
	c.settle()
}
