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
		taken,
			err := a.Post([]transport.Op{{Kind: transport.OpCall, Token: transport.Token(i),
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
	require.EqualValues(t, 5, a.counters.inlineSent)
	require.EqualValues(t, 5, b.counters.inlineReceived, "the empty message has no bytes")
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

// TestInStream: a message has arrived when all receives that hold it are consumed, and a
// request that is not full ends with a message.
func TestInStream(t *testing.T) {
	in := inStream{request: 100, sizes: make([]int, 4)}
	arrived := func(size int, consumed uint64) bool {
		yes, err := in.arrived(size, consumed)
		require.NoError(t, err)
		return yes
	}
	require.True(t, arrived(0, 0), "an empty message needs no receive")
	require.False(t, arrived(1, 0))
	copy(in.sizes, []int{100, 100, 30})
	require.True(t, arrived(100, 1))
	require.False(t, arrived(101, 1))
	require.True(t, arrived(230, 3))
	_, err := in.arrived(231, 3)
	require.ErrorIs(t, err, errProtocol, "a message goes on behind a request that is not full")

	in.skip(99, 3)
	require.Equal(t, []uint64{0, 99}, []uint64{in.read, uint64(in.offset)})
	in.skip(101, 3)
	require.Equal(t, []uint64{2, 0}, []uint64{in.read, uint64(in.offset)})
	in.skip(30, 3)
	require.Equal(t, []uint64{3, 0}, []uint64{in.read, uint64(in.offset)})
	in.sizes[3], in.sizes[0] = 100, 10 // receives 3 and 4, in the slots behind
	require.True(t, arrived(110, 5))
	in.skip(110, 5)
	require.Equal(t, []uint64{5, 0}, []uint64{in.read, uint64(in.offset)})
}
