package devmem

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// connection returns a TCP connection over loopback: the descriptor of one side, and the other
// side.
func connection(t *testing.T) (int, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	sender, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	accepted, err := listener.Accept()
	require.NoError(t, err)
	file, err := accepted.(*net.TCPConn).File()
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close(); _ = accepted.Close(); _ = sender.Close() })
	return int(file.Fd()), sender
}

// TestReceiveOrdinaryBytes: without a binding, Receive fills the buffers and returns no control
// messages.
func TestReceiveOrdinaryBytes(t *testing.T) {
	needKernel(t)
	socket, sender := connection(t)
	r := NewReceiver(2, 16)
	buffers := [][]byte{make([]byte, 10), make([]byte, 90)}
	_, _, err := r.Receive(socket, buffers, 16)
	require.ErrorIs(t, err, unix.EAGAIN)
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _, _ = r.Receive(socket, buffers, 16) }))

	_, err = sender.Write([]byte("0123456789abcdef"))
	require.NoError(t, err)
	n := 0
	require.Eventually(t, func() bool {
		var control []byte
		n, control, err = r.Receive(socket, buffers, 16)
		require.Empty(t, control)
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, 16, n)
	require.True(t, bytes.HasPrefix(append(buffers[0], buffers[1]...), []byte("0123456789abcdef")))

	require.NoError(t, sender.Close())
	require.Eventually(t, func() bool {
		n, _, err = r.Receive(socket, buffers, 16)
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Zero(t, n, "the end of the stream")
}

// TestDontNeed: the running kernel has the limit of batches, and takes back no token that it
// has not given.
func TestDontNeed(t *testing.T) {
	needKernel(t)
	socket, _ := connection(t)
	taken, err := DontNeed(socket, make([]TokenRange, maxRanges))
	require.NoError(t, err)
	require.Zero(t, taken)
	_, err = DontNeed(socket, make([]TokenRange, maxRanges+1))
	require.ErrorIs(t, err, unix.EINVAL)

	tokens := NewTokens(socket, DontNeed)
	require.NoError(t, tokens.Add(9))
	require.ErrorIs(t, tokens.Flush(), ErrTokens)

	other, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(other)
	_, err = DontNeed(other, make([]TokenRange, 1))
	require.ErrorIs(t, err, unix.EBADF)
}

// TestTransmitterNamesItsDmabuf: the running kernel looks for the dmabuf that Send names, and sends
// nothing.
func TestTransmitterNamesItsDmabuf(t *testing.T) {
	needKernel(t)
	if err := kernelSince(oldestTX); err != nil {
		t.Skip(err)
	}
	socket, _ := connection(t)
	require.NoError(t, unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1))
	sender := NewTransmitter()
	for range 2 {
		n, err := sender.Send(socket, 1<<31, 4096, 100)
		require.ErrorIs(t, err, unix.EINVAL)
		require.Zero(t, n)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = sender.Send(socket, 1<<31, 0, 1) }))
}
