package main

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// datagram returns a datagram of size bytes from the peer with that nonce.
func datagram(nonce []byte, kind uint64, size int) []byte {
	d := make([]byte, max(size, headerSize))
	copy(d[senderAt:], nonce)
	binary.LittleEndian.PutUint64(d[tokenAt:], 42)
	binary.LittleEndian.PutUint64(d[kindAt:], kind)
	return d[:size]
}

// trio returns a worker and its two peers. The worker numbers them 0 and 1; both number it 0.
func trio(t testing.TB) (w, bad, good *worker) {
	t.Helper()
	options, err := transport.ParseOptions(schema, nil)
	require.NoError(t, err)
	opened, err := driver{}.Open(context.Background(),
		transport.Config{Workers: 3, Peers: 2, InFlight: 2, MaxPayload: maxPayload,
			Options: options})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	var workers [3]*worker
	for i := range workers {
		made, err := opened.NewWorker(i)
		require.NoError(t, err)
		workers[i] = made.(*worker)
	}
	w, bad, good = workers[0], workers[1], workers[2]
	require.NoError(t, w.Connect(context.Background(), 0, bad.address))
	require.NoError(t, w.Connect(context.Background(), 1, good.address))
	require.NoError(t, bad.Connect(context.Background(), 0, w.address))
	require.NoError(t, good.Connect(context.Background(), 0, w.address))
	return w, bad, good
}

// requireWorks checks that the good peer can still call w.
func requireWorks(t testing.TB, w, good *worker) {
	t.Helper()
	events := make([]transport.Event, 8)
	n, err := good.Post([]transport.Op{{Kind: transport.OpCall, Peer: 0, Token: 7,
		Payload: []byte("still here")}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = w.Poll(events)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, transport.PeerID(1), events[0].Peer)
	require.Equal(t, "still here", string(events[0].Payload))
}

// TestStrangers checks that any number of datagrams from strangers is dropped.
func TestStrangers(t *testing.T) {
	w, bad, good := trio(t)
	to := &unix.SockaddrUnix{Name: string(w.address[nonceSize:])}
	stranger := []byte("stranger")
	for _, d := range [][]byte{
		{}, {1}, datagram(bad.address[:nonceSize], kindCall, headerSize-1), // too short
		datagram(stranger, kindCall, headerSize), datagram(stranger, 99, headerSize),
	} {
		for range 100 {
			require.NoError(t, unix.Sendto(bad.socket, d, 0, to))
			n, err := w.Poll(make([]transport.Event, 8))
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
	require.Len(t, w.early, w.endpoint.early)
	requireWorks(t, w, good)
}

// TestCorrupt checks that a peer that breaks the protocol is disconnected, and no other peer.
func TestCorrupt(t *testing.T) {
	for name, send := range map[string]struct {
		kind uint64
		size int
	}{
		"unknown kind":         {99, headerSize},
		"no kind":              {0, headerSize},
		"reply without a call": {kindReply, headerSize},
		"too large":            {kindCall, headerSize + maxPayload + 1},
		"far too large":        {kindCall, headerSize + 2*maxPayload},
	} {
		t.Run(name, func(t *testing.T) {
			w, bad, good := trio(t)
			to := &unix.SockaddrUnix{Name: string(w.address[nonceSize:])}
			require.NoError(t, unix.Sendto(bad.socket, datagram(bad.address[:nonceSize], send.kind,
				send.size), 0, to))
			events := make([]transport.Event, 8)
			n, err := w.Poll(events)
			require.ErrorIs(t, err, transport.ErrCorrupt)
			require.Zero(t, n)
			n, err = w.Poll(events)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, transport.Event{Kind: transport.EventPeerLost, Peer: 0}, events[0])

			_, err = bad.Post([]transport.Op{{Kind: transport.OpCall, Peer: 0}})
			require.NoError(t, err)
			requireWorks(t, w, good) // and the bad peer's call is dropped
			_, err = w.Post([]transport.Op{{Kind: transport.OpCall, Peer: 0}})
			require.ErrorIs(t, err, transport.ErrPeerDown)
		})
	}
}

// FuzzPoll sends any bytes in the name of a peer.
func FuzzPoll(f *testing.F) {
	f.Add(datagram(nil, kindCall, headerSize+3)[senderAt+nonceSize:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, rest []byte) {
		if len(rest) > maxPayload {
			t.Skip("too large for the kernel")
		}
		w, bad, good := trio(t)
		to := &unix.SockaddrUnix{Name: string(w.address[nonceSize:])}
		require.NoError(t, unix.Sendto(bad.socket, append(bad.address[:nonceSize:nonceSize],
			rest...), 0, to))
		events := make([]transport.Event, 8)
		for range 2 {
			n, err := w.Poll(events)
			if err != nil {
				require.ErrorIs(t, err, transport.ErrCorrupt)
			}
			for _, e := range events[:n] {
				require.LessOrEqual(t, e.Kind, transport.EventPeerLost)
				require.Equal(t, transport.PeerID(0), e.Peer)
			}
		}
		requireWorks(t, w, good)
	})
}
