package transporttest

import (
	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var flowClauses = []clause{
	{name: "flow/in-flight", run: flowInFlight,
		says: "A connection takes Config.InFlight calls while the peer does not poll, and again " +
			"after they are answered."},
	{name: "flow/in-flight-limit", run: flowInFlightLimit, needs: []need{needsInFlight},
		says: "A connection has at most Limits.InFlight calls in flight; Post returns a short " +
			"count for more."},
	{name: "flow/back-pressure", run: flowBackPressure,
		says: "Post to a full connection returns a short count with a nil error, and takes more " +
			"ops after polling."},
	{name: "flow/back-pressure-batch", run: flowBackPressureBatch,
		says: "If a batch does not fit, Post takes the first ops and returns their number."},
	{name: "flow/wrap", run: flowWrap,
		says: "Messages of varying size stay intact when the medium's memory is reused."},
	{name: "flow/credits", run: flowCredits,
		says: "No room is lost: after any amount of traffic, the full number of calls can be in " +
			"flight."},
}

var flushClauses = []clause{
	{name: "flush/delivers", run: flushDelivers,
		says: "All posted ops, to any peer, arrive after one Flush."},
	{name: "flush/nothing", run: flushNothing,
		says: "Flush with nothing posted is no error."},
}

// takesDepth posts calls from a, while its peer does not poll, until depth calls are in flight.
func takesDepth(c *cluster, a *node) {
	for spins := 0; len(a.waiting) < c.depth(); spins++ {
		c.trial.Pause(spins, "room for %d calls in flight from %s; %d were taken", c.depth(),
			a.name, len(a.waiting))
		op := a.newCall(0, pattern(uint64(spins), 8))
		if _, err := a.tryPost([]transport.Op{op}); err != nil {
			c.trial.Fatalf("%s: Post with %d calls in flight: %v", a.name, len(a.waiting), err)
		}
		a.step()
	}
}

func flowInFlight(t *trial) {
	c, a, b := t.pair(layout{})
	for range 3 {
		takesDepth(c, a)
		c.drain()
		takesDepth(c, b)
		c.drain()
	}
}

func flowInFlightLimit(t *trial) {
	c, a, _ := t.pair(layout{})
	a.fill(8, 7)
	require.LessOrEqual(t, len(a.waiting), c.limits.InFlight, "calls in flight, of Limits.InFlight")
	c.settle()
}

// maxBuffered is more than any transport may take from a caller whose peer does not poll.
const maxBuffered = 64 << 20

// fill posts batches of calls to peer 0, which does not poll, until there is no more room.
func (n *node) fill(size, batch int) {
	for short, bytes := 0, 0; short < 3; {
		var ops []transport.Op
		for range batch {
			ops = append(ops, n.newCall(0, pattern(uint64(n.lastToken), size)))
		}
		taken, err := n.tryPost(ops)
		if err != nil {
			n.trial.Fatalf(
				"%s: Post with %d calls in flight must return a short count, not an error: %v",
				n.name, len(n.waiting), err)
		}
		if bytes += taken * (size + 8); bytes > maxBuffered {
			n.trial.Fatalf("%s: Post never returned a short count in %d MiB of calls to a peer "+
				"that does not poll",
				n.name, maxBuffered>>20)
		}
		if short++; taken == batch {
			short = 0
		}
		n.step() // its own progress may make room
		n.trial.Pause(0, "a short count")
	}
}

func flowBackPressure(t *trial) {
	c, a, b := t.pair(layout{})
	for _, n := range []*node{a, b} {
		n.fill(min(4096, c.layout.maxPayload), 1)
		require.NotEmpty(t, n.waiting, "calls taken")
		c.drain()
		n.fill(min(4096, c.layout.maxPayload), 1)
		c.drain()
		c.settle()
	}
	require.Equal(t, a.answered, b.served, "requests polled for the calls of %s", a.name)
	require.Equal(t, b.answered, a.served, "requests polled for the calls of %s", b.name)
}

func flowBackPressureBatch(t *trial) {
	c, a, b := t.pair(layout{})
	for range 3 {
		a.fill(min(1024, c.layout.maxPayload), 2*c.depth()+1)
		require.NotEmpty(t, a.waiting, "calls taken")
		c.drain()
	}
	c.settle()
	require.Equal(t, a.answered, b.served, "requests polled for the calls of %s", a.name)
}

// flowWrap moves some MiB in each direction through a transport that was opened for small
// messages. The connection is sometimes full and sometimes empty.
func flowWrap(t *trial) {
	c, a, b := t.pair(layout{inFlight: 8, maxPayload: 2048})
	random := dice()
	for i := range uint64(1500) {
		a.call(0, pattern(i, random.IntN(c.layout.maxPayload+1)))
		b.call(0, pattern(i<<32, random.IntN(c.layout.maxPayload+1)))
		if random.IntN(100) == 0 {
			c.drain()
		}
	}
	c.settle()
}

func flowCredits(t *trial) {
	c, a, b := t.pair(layout{})
	random := dice()
	for a.answered < 3000 || b.answered < 3000 {
		n := []*node{a, b}[random.IntN(2)]
		var ops []transport.Op
		for range 1 + random.IntN(c.depth()+2) {
			size := random.IntN(min(c.layout.maxPayload, c.limits.InlineSize+100) + 1)
			ops = append(ops, n.newCall(0, pattern(random.Uint64(), size)))
		}
		n.post(ops...)
		for range random.IntN(3) {
			c.step()
		}
	}
	c.settle()
	takesDepth(c, a)
	takesDepth(c, b)
	c.settle()
}

// flushDelivers flushes once. Afterwards the first node only polls, and the others step as usual.
func flushDelivers(t *trial) {
	peers := min(3, t.traits.properties.Limits.Peers)
	c, center, others := t.star(peers + 1)
	for round := range 20 {
		var ops []transport.Op
		for peer := range others {
			for size := range 3 {
				ops = append(ops, center.newCall(transport.PeerID(peer),
					pattern(uint64(round), 16*size)))
			}
		}
		center.post(ops...)
		center.flush()
		for spins := 0; len(center.waiting) > 0; spins++ {
			t.Pause(spins, "the responses to %d calls after one Flush", len(center.waiting))
			center.take(center.poll(center.events))
			for _, n := range others {
				n.step()
			}
		}
	}
	c.settle()
}

func flushNothing(t *trial) {
	c := t.open(layout{})
	a, b := c.nodes[0], c.nodes[1]
	a.flush()
	c.join(a, b)
	a.flush()
	a.flush()
	a.call(0, nil)
	c.drain()
	a.flush()
	c.settle()
}
