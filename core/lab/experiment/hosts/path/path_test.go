package path

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPath(t *testing.T) {
	var server, client Host
	defer server.Close()
	at, err := server.Take(t.Context(), Request{Listen: netip.MustParseAddr("127.0.0.1")})
	require.NoError(t, err)
	for range 2 {
		got, err := client.Take(t.Context(), Request{Peer: at.Port, Token: at.Token})
		require.NoError(t, err)
		require.Positive(t, got.RoundTrip)
		got, err = client.Take(t.Context(), Request{Peer: at.Port, Token: at.Token, Bulk: true})
		require.NoError(t, err)
		require.Positive(t, got.Rate)
	}
	_, err = server.Take(t.Context(), Request{Listen: netip.MustParseAddr("127.0.0.1")})
	require.ErrorContains(t, err, "open already")
	server.Close()
	_, err = client.Take(t.Context(), Request{Peer: at.Port, Token: at.Token})
	require.ErrorContains(t, err, "connection refused")
}

// TestStrangers: without the token a port answers nothing, and those who say nothing are few.
func TestStrangers(t *testing.T) {
	var server, client Host
	defer server.Close()
	at, err := server.Take(t.Context(), Request{Listen: netip.MustParseAddr("127.0.0.1")})
	require.NoError(t, err)
	_, err = client.Take(t.Context(), Request{Peer: at.Port, Token: strings.Repeat("A", 26)})
	require.ErrorContains(t, err, "message 1 of 1000: ")
	silent := make([]net.Conn, maxConnections+1)
	for i := range silent {
		silent[i], err = net.Dial("tcp", at.Port.String())
		require.NoError(t, err)
		defer silent[i].Close()
	}
	require.NoError(t, silent[maxConnections].SetReadDeadline(time.Now().Add(limit)))
	_, err = silent[maxConnections].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	for _, conn := range silent {
		_ = conn.Close()
	}
	require.Eventually(t, func() bool {
		_, err := client.Take(t.Context(), Request{Peer: at.Port, Token: at.Token})
		return err == nil
	}, limit, time.Millisecond)
}

// TestStalled measures paths on which what is sent does not all arrive: all packets do until the
// host's buffer is full, or only small ones.
func TestStalled(t *testing.T) {
	for says, limit := range map[string]uint32{
		`^only \d+ of \d+ bytes arrived in time, and \d+ packets were sent again`: 1 << 20,
		`^small packets arrive and full ones do not: .*MTU`:                       1000,
	} {
		var listening net.ListenConfig
		listening.Control = func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) {
				filter := []unix.SockFilter{ // connections inherit it
					{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_LEN},
					{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: limit, Jt: 1},
					{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 20},
					{Code: unix.BPF_RET | unix.BPF_K, K: 0},
				}
				err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
					&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
			})
			return errors.Join(err, failed)
		}
		listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close() // it accepts nothing
		ctx, cancel := context.WithTimeout(t.Context(), 2*bulkTime)
		defer cancel()
		_, err = new(Host).Take(ctx, Request{Peer: listener.Addr().(*net.TCPAddr).AddrPort(),
			Token: strings.Repeat("A", 26), Bulk: true})
		require.Error(t, err)
		require.Regexp(t, says, err.Error())
	}
}
