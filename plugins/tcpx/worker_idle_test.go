package tcpx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// oneCall makes one call and answers it.
func oneCall(t *testing.T, a, b *worker, size int) {
	_, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, size)}})
	require.NoError(t, err)
	require.NoError(t, a.Flush())
	events, answered := make([]transport.Event, 4), false
	eventually(t, "the response", func() bool {
		n, err := b.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			taken, err := b.Post([]transport.Op{{Kind: transport.OpReply, Token: e.Token,
				Payload: make([]byte, size)}})
			require.NoError(t, err)
			require.Equal(t, 1, taken)
		}
		require.NoError(t, b.Flush())
		n, err = a.Poll(events)
		require.NoError(t, err)
		answered = answered || n == 1
		return answered
	})
}

// TestIdlePeers: when all is done, peers are idle, so their sockets are not read, even if the
// last sends have not been freed yet.
func TestIdlePeers(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100}, nil)
	oneCall(t, a, b, 100)
	eventually(t, "rest", func() bool {
		for _, w := range []*worker{a, b} {
			n, err := w.Poll(make([]transport.Event, 4))
			require.NoError(t, err)
			require.Zero(t, n)
		}
		return a.peers.Get(0).conn.Idle() && b.peers.Get(0).conn.Idle()
	})
}

// TestWaitWaits: a worker with nothing to do has no ready sockets, so that Wait sleeps.
func TestWaitWaits(t *testing.T) {
	const size = 256 << 10
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: size},
		map[string]string{"zero-copy": "on"})
	oneCall(t, a, b, size)
	eventually(t, "sockets that have nothing to tell", func() bool {
		quiet := true
		for _, w := range []*worker{a, b} {
			n, err := w.Poll(make([]transport.Event, 4))
			require.NoError(t, err)
			require.Zero(t, n)
			c := w.peers.Get(0).conn
			now, list := c.HasWork(), c.Interests(nil)
			ready, err := unix.Poll(list, 0)
			require.NoError(t, err)
			quiet = quiet && !now && ready == 0
		}
		return quiet
	})
}

// TestWaitWithStranger: Wait reads the part of a hello that a stranger has sent, so that it sleeps
// afterwards.
func TestWaitWithStranger(t *testing.T) {
	a, _ := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100}, nil)
	at, err := a.settings.decodeAddress(a.Address())
	require.NoError(t, err)
	stranger := dialledTo(t, a, at.At, nil)
	defer unix.Close(stranger)
	read := func(bytes int) func() bool {
		return func() bool {
			require.NoError(t, a.Wait(time.Millisecond))
			return len(a.connector.Acceptor.Waiting) == 1 &&
				len(a.connector.Acceptor.Waiting[0].Hello) == bytes
		}
	}
	eventually(t, "the stranger", read(0))
	_, err = unix.Write(stranger, []byte("?"))
	require.NoError(t, err)
	eventually(t, "what it said", read(1))
}
