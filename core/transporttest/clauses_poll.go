package transporttest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var pollClauses = []clause{
	{name: "poll/idle", run: pollIdle,
		says: "Poll returns 0 and no error if nothing has arrived."},
	{name: "poll/no-events", run: pollNoEvents,
		says: "Poll with an empty slice returns 0 and loses nothing."},
	{name: "poll/one-event", run: pollSlice(1),
		says: "Poll with room for one event loses nothing."},
	{name: "poll/many-events", run: pollSlice(5000),
		says: "Poll with room for many events returns those that have arrived."},
	{name: "poll/size", run: pollSize,
		says: "An event's Size is the length of its payload in bytes."},
	{name: "poll/request-lifetime", run: pollLifetime(false),
		says: "A request's payload is valid until the next Poll of its worker, whatever either " +
			"side posts."},
	{name: "poll/response-lifetime", run: pollLifetime(true),
		says: "A response's payload is valid until the next Poll of its worker, whatever either " +
			"side posts."},
}

func pollIdle(t *trial) {
	c := t.open(layout{})
	a, b := c.nodes[0], c.nodes[1]
	nothing := func(when string) {
		for range 50 {
			for _, n := range c.nodes {
				require.Empty(t, n.poll(n.events), "events %s", when)
			}
		}
	}
	nothing("before Connect")
	c.join(a, b)
	nothing("after Connect")
	a.call(0, pattern(1, 16))
	c.drain()
	nothing("after the only call was answered")
}

func pollNoEvents(t *trial) {
	c, a, b := t.pair(layout{})
	for i := range uint64(50) {
		a.call(0, pattern(i, 16))
		b.call(0, pattern(i, 17))
		a.flush()
		b.flush()
		for _, n := range c.nodes {
			require.Empty(t, n.poll(nil), "events polled into no slice")
			require.Empty(t, n.poll([]transport.Event{}), "events polled into an empty slice")
		}
	}
	c.settle()
}

func pollSlice(length int) func(*trial) {
	return func(t *trial) {
		c, a, b := t.pair(layout{})
		for _, n := range c.nodes {
			n.events = make([]transport.Event, length)
		}
		for i := range uint64(5 * c.depth()) {
			a.call(0, pattern(i, int(i)))
			b.call(0, pattern(i<<32, int(i)))
		}
		c.settle()
	}
}

func pollSize(t *trial) {
	c, a, b := t.pair(layout{})
	var expected int
	b.onRequest = func(e transport.Event) {
		require.Equal(t, expected, e.Size, "Size of a request")
		b.reply(e, e.Payload)
	}
	for seed, size := range []int{0, 1, 15, 16, 100, c.limits.InlineSize, c.limits.InlineSize + 1,
		c.layout.maxPayload} {
		expected = min(size, c.layout.maxPayload)
		a.call(0, pattern(uint64(seed), expected))
		c.drain()
	}
}

// pollLifetime keeps the events of one Poll while both sides post as much as they can and only the
// other side polls.
func pollLifetime(responses bool) func(*trial) {
	return func(t *trial) {
		for _, size := range []int{32, 1024} {
			c, a, b := t.pair(layout{maxPayload: 1024})
			size = min(size, c.layout.maxPayload)
			holder, other := b, a
			if responses {
				holder, other = a, b
			}
			callUntilShort(a, size)
			var held []transport.Event
			for spins := 0; len(held) == 0; spins++ {
				t.Pause(spins, "an event to keep at %s", holder.name)
				holder.flush()
				other.step()
				held = slices.Clone(holder.poll(holder.events))
			}
			var copies [][]byte
			for _, e := range held {
				require.NoError(t, checkPattern(e.Payload), "a payload at its Poll")
				copies = append(copies, slices.Clone(e.Payload))
				if e.Kind == transport.EventRequest {
					holder.reply(e, e.Payload)
				}
			}
			for range 4 {
				postReplies(holder)
				callUntilShort(holder, size)
				other.fill(size, 1)
			}
			for i, e := range held {
				holder.sameBytes("payload kept while others were posted, event", e.Payload,
					copies[i])
				if e.Kind == transport.EventResponse {
					holder.take(held[i : i+1])
				}
			}
			c.settle()
		}
	}
}

// callUntilShort posts calls without polling.
func callUntilShort(n *node, size int) {
	for range n.cluster.depth() {
		op := n.newCall(0, pattern(uint64(n.lastToken), size))
		taken, err := n.tryPost([]transport.Op{op})
		require.NoError(n.trial, err, "Post of a call")
		if taken == 0 {
			break
		}
	}
	n.flush()
}

// postReplies posts replies without polling.
func postReplies(n *node) {
	taken, err := n.tryPost(n.outbox)
	require.NoError(n.trial, err, "Post of replies")
	n.outbox = n.outbox[taken:]
	n.flush()
}
