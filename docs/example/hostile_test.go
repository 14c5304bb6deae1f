package main

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

const testPayload = 1000

// frame returns a frame that says it has a payload of size bytes, without the payload.
func frame(kind transport.EventKind, size int) []byte {
	f := make([]byte, headerSize)
	binary.LittleEndian.PutUint64(f[tokenAt:], 42)
	binary.LittleEndian.PutUint32(f[sizeAt:], uint32(size))
	binary.LittleEndian.PutUint32(f[kindAt:], uint32(kind))
	return f
}

// trio returns a worker and its two peers. The worker numbers them 0 and 1; both number it 0.
func trio(t testing.TB) (w, bad, good *worker) {
	t.Helper()
	options, err := transport.ParseOptions(schema, nil)
	require.NoError(t, err)
	opened, err := driver{}.Open(context.Background(),
		transport.Config{Workers: 3, Peers: 2, InFlight: 2, MaxPayload: testPayload,
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
	for i, peer := range workers[1:] {
		require.NoError(t, w.Connect(context.Background(), transport.PeerID(i), peer.address))
		require.NoError(t, peer.Connect(context.Background(), 0, w.address))
	}
	eventually(t, "the connections", func() bool {
		for _, each := range workers {
			n, err := each.Poll(make([]transport.Event, 8))
			require.NoError(t, err)
			require.Zero(t, n)
		}
		return len(w.connector.Pending())+len(bad.connector.Pending())+
			len(good.connector.Pending()) == 0
	})
	return w, bad, good
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Microsecond) {
		require.True(t, time.Now().Before(deadline), "waiting for %s", what)
	}
}

// write writes bytes to the connection of the bad peer.
func write(t testing.TB, bad *worker, b []byte) {
	t.Helper()
	_, err := unix.Write(bad.peers.Get(0).fd, b)
	require.NoError(t, err)
}

// poll returns the next event or the next error of a worker.
func poll(t testing.TB, w *worker) (e transport.Event, err error) {
	t.Helper()
	events := make([]transport.Event, 1)
	eventually(t, "an event", func() bool {
		var n int
		n, err = w.Poll(events)
		return n > 0 || err != nil
	})
	return events[0], err
}

// requireWorks checks that the good peer can still call w.
func requireWorks(t testing.TB, w, good *worker) {
	t.Helper()
	n, err := good.Post([]transport.Op{{Kind: transport.OpCall, Peer: 0, Token: 7,
		Payload: []byte("still here")}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, good.Flush())
	e, err := poll(t, w)
	require.NoError(t, err)
	require.Equal(t, transport.PeerID(1), e.Peer)
	require.Equal(t, "still here", string(e.Payload))
}

// TestStrangers: connections without a proper hello are closed and counted.
func TestStrangers(t *testing.T) {
	w, _, good := trio(t)
	at, err := netip.ParseAddrPort(string(w.address[dial.NonceSize:]))
	require.NoError(t, err)
	for i := range 3 {
		fd, err := w.sockets.Dial(at)
		require.NoError(t, err)
		defer unix.Close(fd)
		eventually(t, "the connection", func() bool {
			connected, err := sock.Established(fd)
			require.NoError(t, err)
			return connected
		})
		_, err = unix.Write(fd, make([]byte, dial.HelloSize))
		require.NoError(t, err)
		eventually(t, "the end of a stranger", func() bool {
			n, err := w.Poll(make([]transport.Event, 8))
			require.NoError(t, err)
			require.Zero(t, n)
			return transport.StatValue(w.ReadStats(nil), "strangers") == uint64(i+1)
		})
	}
	requireWorks(t, w, good)
}

// TestCorrupt: a peer that breaks the protocol is lost after what it sent before, and no other peer
// is affected.
func TestCorrupt(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"unknown kind":         frame(99, 0),
		"no kind":              frame(0, 0),
		"reply without a call": frame(transport.EventResponse, 0),
		"too large":            frame(transport.EventRequest, testPayload+1),
		"far too large":        frame(transport.EventRequest, 1<<32-1),
	} {
		t.Run(name, func(t *testing.T) {
			w, bad, good := trio(t)
			write(t, bad, append(frame(transport.EventRequest, 0), bytes...))
			e, err := poll(t, w)
			require.NoError(t, err)
			require.Equal(t, transport.EventRequest, e.Kind)
			_, err = poll(t, w)
			require.ErrorIs(t, err, transport.ErrCorrupt)
			e, err = poll(t, w)
			require.NoError(t, err)
			require.Equal(t, transport.Event{Kind: transport.EventPeerLost, Peer: 0}, e)

			requireWorks(t, w, good)
			_, err = w.Post([]transport.Op{{Kind: transport.OpCall, Peer: 0}})
			require.ErrorIs(t, err, transport.ErrPeerDown)
			e, err = poll(t, bad)
			require.NoError(t, err)
			require.Equal(t, transport.EventPeerLost, e.Kind)
		})
	}
}

// FuzzPoll sends any bytes in the name of a peer.
func FuzzPoll(f *testing.F) {
	f.Add(append(frame(transport.EventRequest, 3), "abc"...))
	f.Add(frame(transport.EventRequest, testPayload)[:headerSize-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 64<<10 {
			t.Skip("more than a socket takes at once")
		}
		w, bad, good := trio(t)
		write(t, bad, b)
		require.NoError(t, bad.Close())
		for lost := false; !lost; {
			e, err := poll(t, w)
			if err != nil {
				require.ErrorIs(t, err, transport.ErrCorrupt)
				continue
			}
			require.Equal(t, transport.PeerID(0), e.Peer)
			require.LessOrEqual(t, len(e.Payload), testPayload)
			lost = e.Kind == transport.EventPeerLost
		}
		requireWorks(t, w, good)
	})
}

// TestReference finds the figure in what sockperf prints.
func TestReference(t *testing.T) {
	figure, found := references[0].Find([]byte(
		"sockperf: Total of 117079 messages sent in 1.004 sec\n" +
			"sockperf: Summary: Message Rate is 116619 [msg/sec]\n"))
	require.True(t, found)
	require.Equal(t, transport.Figure{Value: 116619, Samples: 117079}, figure)
}
