package sockets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// withPeers returns a worker with connected peers that say nothing, and their sockets.
func withPeers(t *testing.T, peers int) (w *worker, fds []int) {
	w = openTestWorker(t, transport.Config{Workers: 1, Peers: peers, InFlight: 4,
		MaxPayload: 1 << 20},
		map[string]string{"network": "unix", "engine": engineEpoll, "socket-buffer": "64KiB"})
	for number := range peers {
		fd := say(t, w, expect(t, w, byte(number)), nil)
		t.Cleanup(func() { _ = unix.Close(fd) })
		fds = append(fds, fd)
	}
	eventually(t, "the peers", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return len(w.connector.Pending()) == 0
	})
	return w, fds
}

// TestWaitForAnyPeer: Wait returns when any peer has sent, and when a socket that was full takes
// more, whether epoll or poll watches the sockets. Until then there is nothing to do.
func TestWaitForAnyPeer(t *testing.T) {
	for peers := 1; peers <= directPeers+2; peers++ {
		w, fds := withPeers(t, peers)
		require.Equal(t, peers > directPeers, w.engine.(*epollEngine).asks)
		idle := func() bool {
			list, ready := w.engine.prepareWait(nil)
			n, err := unix.Poll(list, 0)
			for err == unix.EINTR {
				n, err = unix.Poll(list, 0)
			}
			require.NoError(t, err)
			return !ready && n == 0
		}
		events := make([]transport.Event, 1)
		for id, fd := range fds {
			require.True(t, idle())
			_, err := unix.Write(fd, message(0, 2, "hi"))
			require.NoError(t, err)
			require.NoError(t, w.Wait(time.Hour))
			n, err := w.Poll(events)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, transport.PeerID(id), events[0].Peer)

			taken, err := w.Post([]transport.Op{{Kind: transport.OpCall, Peer: events[0].Peer,
				Payload: make([]byte, 1<<20)}})
			require.NoError(t, err)
			require.Equal(t, 1, taken)
			require.NoError(t, w.Flush())
			require.Len(t, w.engine.(*epollEngine).blocked, 1)
			require.True(t, idle())
			for taken := make([]byte, 1<<20); len(w.engine.(*epollEngine).blocked) > 0; {
				_, err := unix.Read(fd, taken)
				require.NoError(t, err)
				require.NoError(t, w.Wait(time.Hour))
				_, err = w.Poll(events)
				require.NoError(t, err)
			}
		}
	}
}

// TestFailedSend: an error of a send that leaves the socket open loses the peer, also if epoll says
// which sockets are readable.
func TestFailedSend(t *testing.T) {
	for name, c := range map[string]struct {
		size    int
		blocked bool // the socket took a part of a message before
	}{
		"send": {size: 10}, "lend": {size: minDirect}, "push": {size: 1 << 20, blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := withPeers(t, directPeers+1)
			post := func() {
				taken, err := w.Post([]transport.Op{
					{Kind: transport.OpCall, Peer: 1, Payload: make([]byte, c.size)}})
				require.NoError(t, err)
				require.Equal(t, 1, taken)
				require.NoError(t, w.Flush())
			}
			e := w.engine.(*epollEngine)
			if c.blocked {
				post()
				require.Len(t, e.blocked, 1)
			}
			require.NoError(t, unix.Shutdown(w.byIndex[1].fd, unix.SHUT_WR)) // sends fail
			if !c.blocked {
				post()
			}
			events := make([]transport.Event, 4)
			eventually(t, "the loss", func() bool {
				n, err := w.Poll(events)
				require.NoError(t, err)
				return n == 1 && events[0].Kind == transport.EventPeerLost && events[0].Peer == 1
			})
			require.ErrorIs(t, w.Silence(1), unix.EPIPE)
		})
	}
}

// TestSendWithoutKernelMemory: a send for which the kernel has no memory is tried again.
func TestSendWithoutKernelMemory(t *testing.T) {
	for _, err := range []error{unix.ENOBUFS, unix.ENOMEM, nil} {
		c := &epollConn{conn: &conn{fd: -1}}
		c.sent(err)
		require.NoError(t, c.failed)
	}
	c := &epollConn{conn: &conn{fd: -1}}
	c.sent(unix.EPIPE)
	require.ErrorIs(t, c.failed, unix.EPIPE)
}

// TestEmptyPayload: a message without a payload counts no copy.
func TestEmptyPayload(t *testing.T) {
	w, h := expecting(t, nil)
	fd := say(t, w, h, nil)
	defer unix.Close(fd)
	for payload, copies := range map[string]uint64{"": 0, "a": 1} {
		before := w.counters.Copies
		taken, err := w.Post([]transport.Op{{Kind: transport.OpCall, Payload: []byte(payload)}})
		require.NoError(t, err)
		require.Equal(t, 1, taken)
		require.Equal(t, copies, w.counters.Copies-before)
	}
}
