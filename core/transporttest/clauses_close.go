package transporttest

import (
	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var closeClauses = []clause{
	{name: "close/twice", run: closeTwice,
		says: "Worker.Close is idempotent."},
	{name: "close/in-flight", run: closeInFlight,
		says: "Worker.Close abandons calls in flight and does not wait for any peer."},
	{name: "close/transport", run: closeTransport,
		says: "Transport.Close closes the workers too, and returns whatever the peers do."},
	{name: "close/refuses", run: closeRefuses,
		says: "Post, Flush, Poll and Connect of a closed worker return ErrClosed."},
	{name: "close/transport-refuses", run: closeTransportRefuses,
		says: "NewWorker of a closed transport and its workers return ErrClosed."},
	{name: "close/one-worker", run: closeOneWorker,
		says: "Closing one worker does not affect the transport's other workers."},
	{name: "close/goroutines", run: closeGoroutines, alone: true,
		says: "Transport.Close leaks no goroutine."},
	{name: "close/descriptors", run: closeDescriptors, alone: true,
		says: "Transport.Close leaks no descriptor."},
}

var errorClauses = []clause{
	{name: "errors/op-error", run: errorsOpError,
		says: "Every error is an *OpError with the transport, the operation and the peer."},
}

func closeTwice(t *trial) {
	c, a, b := t.pair(layout{})
	a.call(0, pattern(1, 16))
	c.drain()
	for range 3 {
		a.close()
	}
	c.closeRank(0)
	require.NoError(t, a.worker.Close(), "Worker.Close after Transport.Close")
	b.close()
	b.close()
}

// crowd fills a connection in both directions with requests that are not answered.
func crowd(t *trial) (c *cluster, a, b *node) {
	c, a, b = t.pair(layout{})
	a.hold()
	b.hold()
	callUntilShort(a, 64)
	callUntilShort(b, 64)
	for range 100 {
		c.step()
	}
	callUntilShort(a, 64)
	callUntilShort(b, 64)
	return c, a, b
}

func closeInFlight(t *trial) {
	_, a, b := crowd(t)
	a.close()
	b.close()
}

func closeTransport(t *trial) {
	c, _, _ := crowd(t)
	c.closeRank(0)
	c.closeRank(1)
}

func closeRefuses(t *trial) {
	c := t.open(layout{ranks: 2, peers: 2})
	a, b := c.nodes[0], c.nodes[1]
	c.join(a, b)
	address := string(b.worker.Address())
	a.call(0, pattern(1, 16))
	c.drain()
	a.close()
	a.refusesAll(t)
	err := a.worker.Connect(t.Context(), 1, []byte(address))
	require.ErrorIs(t, err, transport.ErrClosed, "Connect after Close")
}

// refusesAll checks the methods of a closed worker.
func (n *node) refusesAll(t *trial) {
	taken, err := n.worker.Post([]transport.Op{n.newCall(0, pattern(1, 16))})
	require.ErrorIs(t, err, transport.ErrClosed, "Post after Close")
	require.Zero(t, taken, "ops taken after Close")
	require.ErrorIs(t, n.worker.Flush(), transport.ErrClosed, "Flush after Close")
	polled, err := n.worker.Poll(n.events)
	require.ErrorIs(t, err, transport.ErrClosed, "Poll after Close")
	require.Zero(t, polled, "events after Close")
}

func closeTransportRefuses(t *trial) {
	c, a, b := t.pair(layout{})
	a.call(0, pattern(1, 16))
	b.call(0, pattern(1, 16))
	c.closeRank(0)
	a.refusesAll(t)
	_, err := c.endpoints[0].NewWorker(0)
	require.ErrorIs(t, err, transport.ErrClosed, "NewWorker after Close")
}

func closeOneWorker(t *trial) {
	c := t.open(layout{workers: 2})
	for i := range 2 {
		c.join(c.nodes[i], c.nodes[2+i])
		c.nodes[i].call(0, pattern(uint64(i), 16))
	}
	c.drain()
	for i := range uint64(c.depth()) {
		c.nodes[1].call(0, pattern(i, 64))
		c.nodes[3].call(0, pattern(i, 64))
	}
	c.nodes[0].close()
	c.settle()
}

// useOnce opens, uses and closes two ranks.
func useOnce(t *trial) {
	c, a, b := t.pair(layout{})
	a.call(0, pattern(1, 16))
	b.call(0, pattern(2, c.layout.maxPayload))
	c.drain()
	a.call(0, pattern(3, 16)) // in flight at the end
	a.flush()
	c.close()
}

func closeGoroutines(t *trial) {
	useOnce(t) // creates what the process keeps for good
	before := census(t)
	useOnce(t)
	before.compareGoroutines(t)
}

func closeDescriptors(t *trial) {
	useOnce(t)
	before := census(t)
	useOnce(t)
	before.compareDescriptors(t)
}

func errorsOpError(t *trial) {
	c, a, _ := t.pair(layout{})
	check := func(err error, op string) transport.PeerID {
		var opError *transport.OpError
		require.ErrorAs(t, err, &opError, "the error of %s", op)
		require.Equal(t, t.traits.info.Name, opError.Transport, "OpError.Transport")
		require.Equal(t, op, opError.Op, "OpError.Op")
		return opError.Peer
	}
	err := a.refused([]transport.Op{a.newCall(7, nil)}, 0, transport.ErrPeerDown)
	require.EqualValues(t, 7, check(err, "post"), "OpError.Peer of an unknown peer")
	if needsBound.met(t.traits) {
		large := make([]byte, c.limits.MaxPayload+1)
		err = a.refused([]transport.Op{a.newCall(0, large)}, 0, transport.ErrTooLarge)
		require.EqualValues(t, 0, check(err, "post"), "OpError.Peer of a payload that is too large")
	}
	a.close()
	_, err = a.worker.Post([]transport.Op{a.newCall(0, nil)})
	check(err, "post")
	check(a.worker.Flush(), "flush")
	_, err = a.worker.Poll(a.events)
	check(err, "poll")
}
