package inbox

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// TestSlotsFitTheRun echoes payloads of every length up to a run's longest, which is at the bounds
// of a slot, and checks which of them are in slots.
func TestSlotsFitTheRun(t *testing.T) {
	for _, name := range Rings()[1:] {
		for longest, inline := range map[int]int{
			ring.InlineSize:         ring.InlineSize,
			ring.InlineSize + 1:     ring.WideInlineSize,
			ring.WideInlineSize:     ring.WideInlineSize,
			ring.WideInlineSize + 1: ring.InlineSize,
		} {
			t.Run(fmt.Sprintf("%s/%d", name, longest), func(t *testing.T) {
				a, b := connected(t, func(c *Config) { c.Ring, c.MaxPayload = name, longest })
				require.Equal(t, inline, a.settings.inlineSize())
				for size := range longest + 1 {
					payload := bytes.Repeat([]byte{byte(size + 1)}, size)
					request := pass(t, a, b, transport.Op{Kind: transport.OpCall, Payload: payload,
						Token: transport.Token(size)})
					require.True(t, bytes.Equal(payload, request.Payload), "call of %d", size)
					response := pass(t, b, a, transport.Op{Kind: transport.OpReply,
						Token: request.Token, Payload: request.Payload})
					require.True(t, bytes.Equal(payload, response.Payload), "reply of %d", size)
					require.EqualValues(t, size, response.Token)
				}
			})
		}
	}
}

// pass posts an op from one worker to the other, and returns the event that arrives.
func pass(t *testing.T, from, to *worker, op transport.Op) transport.Event {
	n, err := from.Post([]transport.Op{op})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, from.Flush())
	events := make([]transport.Event, 2)
	n, err = to.Poll(events)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return events[0]
}

// TestSlotsOfAnotherSize: workers whose runs differ in the size of slots do not connect.
func TestSlotsOfAnotherSize(t *testing.T) {
	narrow, _ := connected(t, func(c *Config) { c.MaxPayload = ring.InlineSize })
	wide, _ := connected(t, func(c *Config) { c.MaxPayload, c.Peers = ring.WideInlineSize, 2 })
	require.ErrorContains(t, wide.Connect(t.Context(), 1, narrow.Address()),
		"64 slots of 128 bytes")
}
