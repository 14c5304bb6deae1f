package path

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPath(t *testing.T) {
	var server, client Host
	defer server.Close()
	at, err := server.Take(t.Context(), Request{Listen: netip.MustParseAddr("127.0.0.1")})
	require.NoError(t, err)
	for range 2 {
		got, err := client.Take(t.Context(), Request{Peer: at.Port})
		require.NoError(t, err)
		require.Positive(t, got.RoundTrip)
		got, err = client.Take(t.Context(), Request{Peer: at.Port, Bulk: true})
		require.NoError(t, err)
		require.Positive(t, got.Rate)
	}
	_, err = server.Take(t.Context(), Request{Listen: netip.MustParseAddr("127.0.0.1")})
	require.ErrorContains(t, err, "open already")
	server.Close()
	_, err = client.Take(t.Context(), Request{Peer: at.Port})
	require.ErrorContains(t, err, "connection refused")
}

// TestFullPackets measures a path on which small messages arrive and nothing else does.
func TestFullPackets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() // it accepts nothing, so the kernel's buffers fill
	ctx, cancel := context.WithTimeout(t.Context(), bulkTime)
	defer cancel()
	_, err = new(Host).Take(ctx,
		Request{Peer: listener.Addr().(*net.TCPAddr).AddrPort(), Bulk: true})
	require.ErrorContains(t, err, "full packets do not arrive")
}
