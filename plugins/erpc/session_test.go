package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/transport"
)

// TestHandshakeTimesOut: a peer that never answers is reported as lost once the worker has polled
// for connect-timeout; time without polls does not count. A peer that comes later gets a bye.
func TestHandshakeTimesOut(t *testing.T) {
	n := newNetwork(1, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 100},
		map[string]string{"connect-timeout": "50ms"})
	a, b := n.member(t, s, 256, 0, nil), n.member(t, s, 256, 0, nil)
	require.NoError(t, a.w.Connect(t.Context(), 0, b.w.Address()))
	_, err := a.w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.NoError(t, err)
	n.pass(100 * second) // nobody polls
	awaitLost := func(w *worker, limit int64) (took int64) {
		for begin := n.now; ; n.pass(n.tick) {
			count, err := w.Poll(a.events)
			require.NoError(t, err)
			if count > 0 {
				require.Equal(t, []transport.Event{{Kind: transport.EventPeerLost}},
					a.events[:count])
				return n.now - begin
			}
			require.Less(t, n.now-begin, limit)
		}
	}
	took := awaitLost(a.w, second)
	require.Greater(t, took, s.connectTimeout-s.rto)
	require.EqualValues(t, 1, a.w.counts.abandoned)
	_, err = a.w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)

	require.NoError(t, b.w.Connect(t.Context(), 0, a.w.Address()))
	awaitLost(b.w, second)
	require.Zero(t, b.w.counts.abandoned, "the bye must end the handshake before its timeout")
}

// TestLostSessionIsReclaimed: the session of a lost peer is freed for the next peer once its loss
// is reported and none of its packets is in the wheel.
func TestLostSessionIsReclaimed(t *testing.T) {
	n := newNetwork(2, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 10_000},
		map[string]string{
			"link-rate": "1000000000", "timely-least-rate": "1000000", "timely-low": "1ns",
			"timely-high": "1ns"})
	server := n.member(t, s, 256, 4, mixed(1000))
	for id := range transport.PeerID(50) {
		client := n.member(t, s, 256, 4, mixed(1000))
		join(t, client, server)
		require.Len(t, server.w.sessions, 1)
		n.run(t, 100*second, client, server)
		// The client closes in the middle of a call of the server, which has packets in the wheel.
		_, err := server.w.Post([]transport.Op{
			{Kind: transport.OpCall, Peer: id, Payload: message(1, 9000, 16)}})
		require.NoError(t, err)
		require.NotZero(t, server.w.wheel.count)
		require.NoError(t, client.w.Close())
		n.pass(n.delay)
		count, err := server.w.Poll(server.events)
		require.NoError(t, err)
		require.Equal(t, []transport.Event{{Kind: transport.EventPeerLost, Peer: id}},
			server.events[:count])
		for end := n.now + second; server.w.wheel.count > 0; n.pass(n.tick) {
			require.Less(t, n.now, end)
			_, err = server.w.Poll(server.events)
			require.NoError(t, err)
		}
		_, err = server.w.Poll(server.events)
		require.NoError(t, err)
		require.Nil(t, server.w.peers.Find(client.w.nonce))
		require.Empty(t, server.w.reported)
		_, err = server.w.Post([]transport.Op{{Kind: transport.OpCall, Peer: id}})
		require.ErrorIs(t, err, transport.ErrPeerDown)
	}
}

// TestRestarts: a peer that restarts many times can be called each time, and leaves nothing behind.
func TestRestarts(t *testing.T) {
	for provider, restarts := range map[string]int{providerUDP: 50, providerSoft: spareSenders} {
		t.Run(provider, func(t *testing.T) {
			options := map[string]string{"provider": provider}
			w := opened(t, 1, transport.Config{InFlight: 8, MaxPayload: 1000}, options)[0]
			for id := range transport.PeerID(restarts) {
				values, err := transport.ParseOptions(schema, options)
				require.NoError(t, err)
				r, err := Driver{}.Open(t.Context(), transport.Config{Rank: 1, Workers: 1, Peers: 1,
					InFlight: 8, MaxPayload: 1000, Options: values})
				require.NoError(t, err)
				other, err := r.NewWorker(0)
				require.NoError(t, err)
				require.NoError(t, w.Connect(t.Context(), id, other.Address()))
				require.NoError(t, other.Connect(t.Context(), 0, w.Address()))
				answer(t, w, id, other)
				require.NoError(t, r.Close())
				awaitLoss(t, w, id)
				_, err = w.Poll(make([]transport.Event, 1))
				require.NoError(t, err)
				require.Len(t, w.sessions, 1)
				require.Nil(t, w.peers.Find(other.(*worker).nonce))
				w.heartbeat.mu.Lock()
				require.Empty(t, w.heartbeat.watches)
				w.heartbeat.mu.Unlock()
			}
		})
	}
}

// answer makes one call from w to other, on one thread.
func answer(t *testing.T, w *worker, id transport.PeerID, other transport.Worker) {
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall, Peer: id, Token: 7,
		Payload: message(7, 500, 0)}})
	require.NoError(t, err)
	events := make([]transport.Event, 4)
	for {
		n, err := other.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			require.Equal(t, transport.EventRequest, e.Kind)
			_, err := other.Post([]transport.Op{{Kind: transport.OpReply, Token: e.Token,
				Payload: e.Payload}})
			require.NoError(t, err)
		}
		require.NoError(t, other.Flush())
		n, err = w.Poll(events)
		require.NoError(t, err)
		if n > 0 {
			require.Equal(t, transport.EventResponse, events[0].Kind)
			(&member{t: t}).verify(events[0].Payload, 7, 500, 0)
			return
		}
	}
}

// TestPayloadOfLostPeer: a payload stays valid until the next Poll, even if the same Poll reported
// the peer's loss and another peer connects before the next one.
func TestPayloadOfLostPeer(t *testing.T) {
	n := newNetwork(3, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 2, InFlight: 4, MaxPayload: 10_000}, nil)
	a, b, c := n.member(t, s, 256, 0, nil), n.member(t, s, 256, 0, nil), n.member(t, s, 256, 0, nil)
	join(t, a, b)
	for range 10 {
		a.iterate()
		b.iterate()
		n.pass(n.delay)
	}
	// several packets
	_, err := b.w.Post([]transport.Op{{Kind: transport.OpCall, Payload: message(7, 5000, 0)}})
	require.NoError(t, err)
	require.NoError(t, b.w.Flush())
	require.NoError(t, b.w.Close())
	n.pass(n.delay)
	count, err := a.w.Poll(a.events)
	require.NoError(t, err)
	require.Equal(t, 2, count)
	require.Equal(t, transport.EventPeerLost, a.events[1].Kind)
	require.NoError(t, a.w.Connect(t.Context(), 1, c.w.Address()))
	a.verify(a.events[0].Payload, 7, 5000, 0)
}
