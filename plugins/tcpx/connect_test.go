package tcpx

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// alone returns a worker whose peer is to dial it and never does, and the hello that the
// peer could send.
func alone(t *testing.T, options map[string]string) (w *worker, hello []byte) {
	t.Helper()
	values, err := transport.ParseOptions(schema, options)
	require.NoError(t, err)
	tr, err := Driver{}.Open(context.Background(),
		transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 100, Options: values})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	opened, err := tr.NewWorker(0)
	require.NoError(t, err)
	w = opened.(*worker)
	var first dial.Nonce // the smallest: its owner dials
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	address, err := json.Marshal(w.settings.announce(first, a.At, a.Data))
	require.NoError(t, err)
	require.NoError(t, w.Connect(context.Background(), 0, address))
	return w, greeting(first, w.own)
}

// greeting returns the hello of a control socket.
func greeting(from, to dial.Nonce, ports ...uint16) []byte {
	h := dial.Hello{To: to, From: from, Use: dial.Messages}
	copy(h.Ports[:], ports)
	return h.Encode()
}

// helloPort is the offset of hello.Port.
const helloPort = 8 + 2*dial.NonceSize + 4

// dialled returns a socket to a worker on which bytes were sent.
func dialled(t *testing.T, w *worker, said []byte) int {
	t.Helper()
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	return dialledTo(t, w, a.At, said)
}

func dialledTo(t *testing.T, w *worker, at netip.AddrPort, said []byte) int {
	t.Helper()
	fd, err := w.settings.sock.Dial(at)
	require.NoError(t, err)
	if len(said) == dial.HelloSize { // a hello names the port that it comes from
		port, err := sock.LocalPort(fd)
		require.NoError(t, err)
		binary.LittleEndian.PutUint32(said[helloPort:], uint32(port))
	}
	eventually(t, "the bytes to be sent", func() bool {
		if len(said) > 0 {
			n, err := sendHello(fd, said)
			require.NoError(t, err)
			said = said[n:]
		}
		return len(said) == 0
	})
	return fd
}

// untilLost polls until a loss is reported.
func untilLost(t *testing.T, w *worker) {
	t.Helper()
	events := make([]transport.Event, 1)
	eventually(t, "the loss", func() bool {
		n, err := w.Poll(events)
		require.NoError(t, err)
		return n == 1 && events[0].Kind == transport.EventPeerLost
	})
}

// TestNeverConnected: a peer that sends no hello, or too little, is reported as lost; its
// messages are dropped and its sockets closed.
func TestNeverConnected(t *testing.T) {
	for name, sockets := range map[string]int{"no socket": 0, "one of two": 1, "half a hello": -1} {
		t.Run(name, func(t *testing.T) {
			w, hello := alone(t, map[string]string{"connect-timeout": "50ms", "timeout": "10ms"})
			n, err := w.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 100)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, w.Flush())
			if sockets != 0 {
				if sockets < 0 {
					hello = hello[:20]
				}
				fd := dialled(t, w, hello)
				defer func() { require.NoError(t, unix.Close(fd)) }()
			}
			untilLost(t, w)
			require.GreaterOrEqual(t, w.peers.Get(0).Waited(), w.settings.connectTimeout)
			_, err = w.Post([]transport.Op{{Kind: transport.OpCall}})
			require.ErrorIs(t, err, transport.ErrPeerDown)
			require.Empty(t, w.connector.Pending())
			require.Equal(t, []int{-1, -1}, w.peers.Get(0).sockets)
		})
	}
}

// sendHello is sock.SendBytes on a socket that may not be connected yet.
func sendHello(fd int, b []byte) (int, error) {
	n, err := sock.SendBytes(fd, b)
	if errors.Is(err, unix.ENOTCONN) {
		err = nil
	}
	return n, err
}
