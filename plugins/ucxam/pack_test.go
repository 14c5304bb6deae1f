package ucxam

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestPacked posts calls of many sizes in one flush, over a lane on which each of UCX's messages is
// a system call. Those that fit share messages with others, and all come back as they were sent.
func TestPacked(t *testing.T) {
	needUCX(t)
	sizes := []int{0, 1, 7, 8, 9, 48, 1000, 4000, 4001, 3000, 8192, 9000, 0, 31, 20000, 5, 64, 64}
	_, w, _ := fabrictest.Connect(t, Driver{}, fabrictest.Rank{InFlight: len(sizes),
		MaxPayload: 20000, Options: map[string]string{optionTLS: "tcp"}})
	calls := make([]transport.Op, len(sizes))
	for i, size := range sizes {
		payload := bytes.Repeat([]byte{byte(i + 1)}, size)
		calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: payload}
	}
	events := make([]transport.Event, len(calls))
	for range 3 { // the first calls wait for the connection
		n, err := w.Post(calls)
		require.NoError(t, err)
		require.Len(t, calls, n)
		require.NoError(t, w.Flush())
		answered := map[transport.Token]bool{}
		for end := time.Now().Add(time.Minute); len(answered) < len(calls); {
			require.True(t, time.Now().Before(end), "%d of the calls were answered", len(answered))
			n, err := w.Poll(events)
			require.NoError(t, err)
			for _, e := range events[:n] {
				require.Equal(t, transport.EventResponse, e.Kind)
				require.True(t, bytes.Equal(calls[e.Token].Payload, e.Payload), "call %d", e.Token)
				answered[e.Token] = true
			}
			require.NoError(t, w.Flush())
		}
		require.Len(t, answered, len(calls))
	}
	stats := w.(transport.StatsReader).ReadStats(nil)
	require.EqualValues(t, 3*15, transport.StatValue(stats, "packed"),
		"all but the three that fill a message or have none beside them")
}
