package tcpx

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestInlineMessagesKeepTheirPlace: messages on the control socket are delivered in order with
// those in requests, whose bytes come later.
func TestInlineMessagesKeepTheirPlace(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 16, MaxPayload: 100_000},
		map[string]string{"chunk": "16KiB"})
	limit := a.settings.inline
	require.Equal(t, 1024, limit)
	sizes := []int{10, limit, limit + 1, 1, 100_000, 0, limit, 40_000, 7}
	for i, size := range sizes {
		taken, err := a.Post([]transport.Op{{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: bytes.Repeat([]byte{byte(i)}, size)}})
		require.NoError(t, err)
		require.Equal(t, 1, taken)
	}
	require.NoError(t, a.Flush())
	events, at := make([]transport.Event, 2), 0 // fewer than have arrived
	eventually(t, "all messages", func() bool {
		_, err := a.Poll(nil)
		require.NoError(t, err)
		n, err := b.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			require.Equal(t, bytes.Repeat([]byte{byte(at)}, sizes[at]),
				append([]byte{}, e.Payload...), "message %d", at)
			at++
		}
		return at == len(sizes)
	})
	require.EqualValues(t, 5, a.counters.InlineSent)
	require.EqualValues(t, 5, b.counters.InlineReceived, "the empty message has no bytes")
}

// TestInlineLimit: with more calls in flight, the control socket takes smaller messages.
func TestInlineLimit(t *testing.T) {
	for inFlight, want := range map[int]int{1: 1024, 31: 1024, 32: 1000, 512: 40, 65536: 0} {
		values, err := transport.ParseOptions(schema, nil)
		require.NoError(t, err)
		s, err := resolve(transport.Config{Options: values, InFlight: inFlight, MaxPayload: 4096})
		require.NoError(t, err)
		require.Equal(t, want, s.inline, "%d in flight", inFlight)
	}
}
