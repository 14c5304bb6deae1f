package erpc

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// echo makes a number of calls to a peer and waits for all responses.
func echo(t *testing.T, w *worker, id transport.PeerID, calls int) {
	events := make([]transport.Event, 16)
	sent, answered := 0, 0
	size := func(i int) int { return i * 37 % 1000 }
	for deadline := time.Now().Add(2 * time.Minute); answered < calls; {
		require.True(t, time.Now().Before(deadline), "timed out with %d of %d responses",
			answered, calls)
		for sent < calls && sent-answered < 8 {
			n, err := w.Post([]transport.Op{
				{Kind: transport.OpCall, Peer: id, Token: transport.Token(sent),
					Payload: message(uint64(sent), size(sent), 0)}})
			require.NoError(t, err)
			sent += n
		}
		require.NoError(t, w.Flush())
		n, err := w.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			require.Equal(t, transport.EventResponse, e.Kind)
			(&member{t: t}).verify(e.Payload, uint64(e.Token), size(int(e.Token)), 0)
			answered++
		}
	}
}

// TestKilledAndRestarted: a killed server is reported as lost, with calls in flight and without. A
// restarted one, even at the same port, can be connected and called; packets from the previous
// incarnation are rejected.
func TestKilledAndRestarted(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"udp":  {"provider": "udp", "udp-port": freePorts(t)},
		"soft": {"provider": "soft"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options["peer-timeout"] = "1h"
			mine := map[string]string{"provider": options["provider"], "keepalive": "50ms",
				"peer-timeout": "200ms"}
			w := opened(t, 1, transport.Config{Peers: 2, InFlight: 8, MaxPayload: 1000}, mine)[0]
			for id := range transport.PeerID(2) {
				s := fabrictest.StartEcho(t, fabrictest.Rank{Options: options, MaxPayload: 1000})
				s.Connect(w, id)
				echo(t, w, id, 300)
				if id == 1 {
					_, err := w.Post([]transport.Op{{Kind: transport.OpCall, Peer: id}})
					require.NoError(t, err)
				}
				s.Kill()
				awaitLoss(t, w, id)
				_, err := w.Post([]transport.Op{{Kind: transport.OpCall, Peer: id}})
				require.ErrorIs(t, err, transport.ErrPeerDown)
			}
		})
	}
}

// TestStoppedPeerLives: a peer of this host whose process gets no processor is not lost, however
// much longer than the peer timeout that lasts, and answers when it runs again. Once it is killed,
// it is.
func TestStoppedPeerLives(t *testing.T) {
	for _, provider := range []string{"udp", "soft"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			w := opened(t, 1, transport.Config{InFlight: 8, MaxPayload: 1000},
				map[string]string{"provider": provider, "keepalive": "10ms",
					"peer-timeout": "30ms"})[0]
			s := fabrictest.StartEcho(t, fabrictest.Rank{MaxPayload: 1000,
				Options: map[string]string{"provider": provider, "keepalive": "10ms",
					"peer-timeout": "30ms"}})
			s.Connect(w, 0)
			echo(t, w, 0, 10)
			s.Pause()
			events := make([]transport.Event, 16)
			for began := time.Now(); time.Since(began) < time.Second; {
				require.NoError(t, w.Wait(10*time.Millisecond))
				n, err := w.Poll(events)
				require.NoError(t, err)
				require.Zero(t, n, "the peer is lost")
			}
			s.Resume()
			echo(t, w, 0, 10)
			s.Kill()
			awaitLoss(t, w, 0)
		})
	}
}

// awaitLoss waits, asleep, until the loss of a peer is reported.
func awaitLoss(t *testing.T, w *worker, id transport.PeerID) {
	events := make([]transport.Event, 16)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		require.True(t, time.Now().Before(deadline), "the loss was not reported")
		require.NoError(t, w.Wait(time.Hour))
		n, err := w.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			if e.Kind == transport.EventPeerLost {
				require.Equal(t, id, e.Peer)
				return
			}
		}
	}
}

// TestBye: a server that closes is reported as lost long before its peer timeout.
func TestBye(t *testing.T) {
	w := opened(t, 1, transport.Config{InFlight: 8, MaxPayload: 1000},
		map[string]string{"provider": "udp", "peer-timeout": "1h"})[0]
	s := fabrictest.StartEcho(t, fabrictest.Rank{MaxPayload: 1000,
		Options: map[string]string{"provider": "udp"}})
	s.Connect(w, 0)
	echo(t, w, 0, 10)
	s.Close()
	awaitLoss(t, w, 0)
}

// freePorts returns the first of two consecutive free ports for a rank of one worker, below the
// ephemeral ports.
func freePorts(t *testing.T) string {
	free := func(port int) bool {
		c, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil && c.Close() == nil
	}
	for port := 20_000 + os.Getpid()%5000*2; port < 32_000; port += 2 {
		if free(port) && free(port+1) {
			return fmt.Sprint(port)
		}
	}
	require.Fail(t, "no two consecutive free ports")
	return ""
}
