package copyrpc

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// TestKeepaliveNeverCompletes checks that both sides lose each other when a keepalive
// never completes. A peer of the soft device that does not poll makes that happen.
func TestKeepaliveNeverCompletes(t *testing.T) {
	a, b := connected(t, small, soft("keepalive", "1h"))
	_, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 8)}})
	require.NoError(t, err)
	require.NoError(t, a.Flush())
	a.maxSweeps = 3
	var events [4]transport.Event
	for range a.maxSweeps {
		a.sweep()
		n, err := a.Poll(events[:])
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.EqualValues(t, 1, a.counts.keepalives, "keepalives in flight at once")
	a.sweep()
	bothLose(t, a, b)
}

// TestNoRoomForKeepalive checks that a send queue that stays full, and of which nothing
// completes, costs the peer too.
func TestNoRoomForKeepalive(t *testing.T) {
	a, b := connected(t, transport.Config{InFlight: 32, MaxPayload: 256},
		soft("keepalive", "1h", "send-depth", "8", "signal-interval", "4"))
	fill := func() {
		for range 16 {
			_, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 8)}})
			require.NoError(t, err)
			require.NoError(t, a.Flush())
		}
	}
	fill()
	a.maxSweeps = 3
	var events [64]transport.Event
	a.sweep()
	a.sweep()
	require.Zero(t, a.counts.keepalives, "the queue has room")
	for deadline := time.Now().Add(30 * time.Second); a.peers.ByID[0].sweeps > 0; {
		require.True(t, time.Now().Before(deadline), "nothing completes")
		_, err := b.Poll(events[:])
		require.NoError(t, err)
		_, err = a.Poll(events[:])
		require.NoError(t, err)
	}
	fill()
	for range a.maxSweeps {
		a.sweep()
		n, err := a.Poll(events[:])
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.Zero(t, a.counts.keepalives, "the queue has room")
	a.sweep()
	bothLose(t, a, b)
}

// bothLose polls both sides until each has reported the loss of the other.
func bothLose(t *testing.T, workers ...*worker) {
	var events [64]transport.Event
	for _, w := range workers {
		var kinds []transport.EventKind
		for deadline := time.Now().Add(30 * time.Second); len(kinds) == 0 ||
			kinds[len(kinds)-1] != transport.EventPeerLost; {
			require.True(t, time.Now().Before(deadline), "the loss is not reported; events %v",
				kinds)
			w.sweep()
			n, err := w.Poll(events[:])
			require.NoError(t, err)
			for _, e := range events[:n] {
				kinds = append(kinds, e.Kind)
			}
		}
	}
}

// TestKeepaliveAgain checks that a keepalive follows once the previous one has completed.
func TestKeepaliveAgain(t *testing.T) {
	a, b := connected(t, small, soft("keepalive", "1h"))
	var events [4]transport.Event
	for i := range 10 {
		a.sweep()
		for deadline := time.Now().Add(30 * time.Second); a.peers.ByID[0].sweeps > 0; {
			require.True(t, time.Now().Before(deadline), "the keepalive does not complete")
			for _, w := range []*worker{a, b} {
				_, err := w.Poll(events[:])
				require.NoError(t, err)
			}
		}
		require.EqualValues(t, i+1, a.counts.keepalives)
	}
}

func TestKeepaliveSweeps(t *testing.T) {
	s := settings{connect: rdma.ConnectOptions{Timeout: 14, Retries: 7}, ring: 1 << 20,
		keepalive: 250 * time.Millisecond}
	require.Equal(t, math.MaxInt, s.keepaliveSweeps(rdma.Soft))
	// Eight tries of 67 ms, times four, plus the time to drain a ring: 2.2 s.
	require.Equal(t, 10, s.keepaliveSweeps(rdma.Verbs))
	s = settings{connect: rdma.ConnectOptions{Timeout: 31, Retries: 7}, ring: maxRing,
		keepalive: time.Hour}
	require.Greater(t, s.keepaliveSweeps(rdma.Verbs), 70, "no overflow")
	s = settings{connect: rdma.ConnectOptions{Timeout: 1, Retries: 1}, ring: minRing,
		keepalive: time.Hour}
	require.Equal(t, 2, s.keepaliveSweeps(rdma.Verbs), "at least one whole interval")
}
