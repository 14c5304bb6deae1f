package datagram_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var faultTests = []test{
	{"fault/closed-peer", faultClosedPeer},
	{"fault/peer-made-again", faultPeerMadeAgain},
	{"fault/flood", faultFlood},
}

// faultClosedPeer: a closed remote loses what is sent to it and affects nothing else.
func faultClosedPeer(t *testing.T, s *suite) {
	x := s.nodes(t, 3)
	a, gone, b := x[0], x[1], x[2]
	toGone, to, from := a.to(gone), a.to(b), b.to(a)
	a.deliver(toGone, gone, gone.Source(gone.to(a)), pattern(1, 30))
	require.NoError(t, gone.Close())
	for i := range 300 {
		a.send(toGone, pattern(i, 30))
		if i%3 == 0 {
			a.flush()
		}
		a.poll()
	}
	a.flush()
	a.deliver(to, b, b.Source(from), pattern(2, 30), pattern(3, 30))
	require.Empty(t, a.take())
}

// faultPeerMadeAgain: a port that replaces a closed one is a new port.
func faultPeerMadeAgain(t *testing.T, s *suite) {
	a := s.node(t)
	for i := range 5 {
		b := s.node(t)
		to, from := a.to(b), b.to(a)
		a.deliver(to, b, b.Source(from), pattern(i, 30))
		b.deliver(from, a, a.Source(to), pattern(i+1, 30))
		a.Release(to)
		require.NoError(t, b.Close())
	}
}

// faultFlood: sending far more than is received loses datagrams and does no harm: what arrives is
// intact, and the ports work afterwards.
func faultFlood(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	lengths := []int{16, 600, a.MTU()}
	flood := map[string]bool{}
	for i, n := range lengths {
		flood[pattern(i, min(n, a.MTU()))] = true
	}
	deadline := time.Now().Add(s.Timeout)
	// This exceeds every buffer.
	for i, bytes := 0, 0; i < 20_000 && bytes < 64<<20; i++ {
		bytes += min(lengths[i%3], a.MTU())
		d := pattern(i%3, min(lengths[i%3], a.MTU()))
		if !a.Send(to, []byte(d[:8]), []byte(d[8:])) {
			a.flush()
			a.poll()
		}
		if time.Now().After(deadline.Add(-s.Timeout / 2)) {
			break // an emulated machine may be too slow
		}
	}
	a.flush()
	arrived := 0
	for quiet := 0; quiet < 1000; quiet++ {
		b.poll()
		a.poll()
		for _, m := range b.take() {
			require.True(t, flood[m.data], "unexpected datagram of %d bytes", len(m.data))
			require.Equal(t, b.Source(from), m.source)
			arrived++
			quiet = 0
		}
		a.flush()
	}
	require.Positive(t, arrived)
	b.known = flood
	a.deliver(to, b, b.Source(from), pattern(9, 30))
}
