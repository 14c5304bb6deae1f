package datagram_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
)

// suite describes the ports to test.
type suite struct {
	// Open opens a port. Any two ports of a suite can reach each other.
	Open func() (datagram.Port, error)
	// Lossy is set if the ports lose, duplicate and reorder even the few datagrams of the tests.
	// Other ports may do so too: the tests send a missing datagram again after a while.
	Lossy bool
	// Timeout limits each wait; 0 is 60 seconds.
	Timeout time.Duration
}

// runSuite runs every test as a subtest of t.
func runSuite(t *testing.T, s suite) {
	if s.Timeout == 0 {
		s.Timeout = 60 * time.Second
	}
	for _, group := range [][]test{transferTests, controlTests, faultTests} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.run(t, &s) })
		}
	}
}

type test struct {
	name string
	run  func(*testing.T, *suite)
}

// node is a port with the packets that have arrived at it.
type node struct {
	datagram.Port
	t       *testing.T
	suite   *suite
	packets []datagram.Packet
	arrived []message
	known   map[string]bool // datagrams sent to it before, which may arrive again
}

// message is a copy of a packet.
type message struct {
	data   string
	source datagram.Source
}

func (s *suite) node(t *testing.T) *node {
	p, err := s.Open()
	require.NoError(t, err, "opening a port")
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return &node{Port: p, t: t, suite: s, packets: make([]datagram.Packet, 64),
		known: map[string]bool{}}
}

func (s *suite) nodes(t *testing.T, n int) (nodes []*node) {
	for range n {
		nodes = append(nodes, s.node(t))
	}
	return nodes
}

// to opens a remote for another node.
func (n *node) to(other *node) datagram.Remote {
	r, err := n.Open(other.Address())
	require.NoError(n.t, err, "opening a remote")
	return r
}

// poll receives once.
func (n *node) poll() {
	count, err := n.Receive(n.packets, datagram.Target{})
	require.NoError(n.t, err, "receiving")
	for _, p := range n.packets[:count] {
		n.arrived = append(n.arrived, message{string(p.Data), p.Source})
	}
}

// take removes and returns what has arrived.
func (n *node) take() []message {
	arrived := n.arrived
	n.arrived = nil
	return arrived
}

// send adds a datagram to the batch, and flushes the batch if it is full.
func (n *node) send(to datagram.Remote, data string) {
	for deadline := time.Now().Add(n.suite.Timeout); !n.Send(to, []byte(data[:len(data)/3]),
		[]byte(data[len(data)/3:])); {
		n.flush()
		n.poll() // a device may make room only in Receive
		require.True(n.t, time.Now().Before(deadline),
			"timed out waiting for the device to take a datagram")
	}
}

func (n *node) flush() { require.NoError(n.t, n.Flush(), "flushing") }

// resend returns how long to wait for a datagram before it is sent again.
func (s *suite) resend() time.Duration {
	if s.Lossy {
		return 2 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// deliver sends datagrams, which must differ, and waits until each has arrived at the other node at
// least once and nothing else has.
func (n *node) deliver(to datagram.Remote, other *node, source datagram.Source, data ...string) {
	n.t.Helper()
	want := map[string]bool{}
	for _, d := range data {
		want[d] = true
		n.send(to, d)
	}
	n.flush()
	n.arrive(other, to, source, want)
}

// arrive waits until all datagrams that were sent to the other node have arrived.
func (n *node) arrive(other *node, to datagram.Remote, source datagram.Source,
	want map[string]bool) {
	n.t.Helper()
	missing := maps.Clone(want)
	maps.Copy(other.known, want)
	sent := time.Now()
	for deadline := sent.Add(n.suite.Timeout); len(missing) > 0; {
		other.poll()
		n.poll()
		for _, m := range other.take() {
			require.True(n.t, other.known[m.data], "unexpected datagram of %d bytes", len(m.data))
			if want[m.data] {
				require.Equal(n.t, source, m.source, "source of a datagram")
			}
			delete(missing, m.data)
		}
		if now := time.Now(); now.Sub(sent) > n.suite.resend() {
			require.True(n.t, now.Before(deadline), "timed out waiting for %d of %d datagrams",
				len(missing), len(want))
			sent = now
			for d := range missing {
				n.send(to, d)
			}
			n.flush()
		}
	}
}

// pattern returns a datagram of n bytes. Different seeds give different datagrams if n is at least
// 2.
func pattern(seed, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed + i*(seed>>8|1) + i>>8)
	}
	return string(b)
}
