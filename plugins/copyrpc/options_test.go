package copyrpc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/transport"
)

func TestRefusedOptions(t *testing.T) {
	for name, c := range map[string]struct {
		raw     map[string]string
		payload int
		want    string
	}{
		"ring not a power of two": {soft("ring", "100000"), 64,
			"100000 bytes is not a power of two; 128KiB is the next"},
		"ring too small": {soft("ring", "64KiB"), 64 << 10,
			"64KiB holds messages of up to 8192 bytes"},
		"inline": {soft("inline", "512"), 64,
			"inline size of 512 bytes: the soft device grants 360"},
		"mtu":             {soft("mtu", "1000"), 64, "1000 is not 256"},
		"mtu below 256":   {soft("mtu", "128"), 64, "128 is not 256"},
		"signal interval": {soft("signal-interval", "100"), 64, "over half of send-depth"},
		"batches":         {soft("batches", "2"), 64, "2 is below 4"},
		"payload":         {soft(), 1 << 30, "payload too large"},
		"device of soft":  {soft("device", "mlx5_0"), 64, `no device "mlx5_0"`},
		"unknown device": {map[string]string{"provider": "verbs", "device": "nosuch0"}, 64,
			"unavailable"},
		"auto with a device": {map[string]string{"device": "nosuch0"}, 64, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := transport.ParseOptions(schema, c.raw)
			require.NoError(t, err)
			tr, err := Driver{}.Open(context.Background(),
				transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: c.payload,
					Options: options})
			if err == nil {
				_ = tr.Close()
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestRingLimitsInFlight checks that a ring set by the user is kept, and lowers the limit
// of calls in flight if it is small.
func TestRingLimitsInFlight(t *testing.T) {
	options, err := transport.ParseOptions(schema, soft("ring", "64KiB"))
	require.NoError(t, err)
	s, err := resolve(transport.Config{Peers: 1, InFlight: 1000, MaxPayload: 1000,
		Options: options})
	require.NoError(t, err)
	require.EqualValues(t, 64<<10, s.ring)
	require.Equal(t, 16, s.limits().InFlight)
	options, err = transport.ParseOptions(schema, soft())
	require.NoError(t, err)
	s, err = resolve(transport.Config{Peers: 1, InFlight: 32, MaxPayload: 64, Options: options})
	require.NoError(t, err)
	require.Equal(t, 32, s.limits().InFlight)
	require.EqualValues(t, minRing, s.ring)
}

// TestCursor checks the claims of cursor for any mixture of calls and replies: batches do
// not straddle the end of the ring and do not overwrite what is not released, and a reply
// always has room.
func TestCursor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const size = 1 << 12
		space := allowance(size/ringShare - headerSize - messageHeader - unit)
		promises := size / 2 / int(space)
		largest := int(space) - headerSize - messageHeader
		var c cursor
		var peerReleased uint64  // released by the peer
		var ends []uint64        // of the messages in the ring, oldest first
		var isReply []bool       // of the same messages
		owed, unreleased := 0, 0 // promises: for open requests, and for replies in the ring
		put := func(payload int) {
			p := c.put(messageSpace(payload), size)
			require.LessOrEqual(rt, p.end()-peerReleased, uint64(size),
				"the message overwrites what is not released")
			require.Equal(rt, p.start/size, (p.next-1)/size,
				"the batch straddles the end of the ring")
			require.Zero(rt, p.start%unit)
			require.GreaterOrEqual(rt, p.message, p.start+headerSize)
			if p.padding != 0 {
				require.Zero(rt, p.start%size)
				require.Zero(rt, p.padding%unit)
			}
			c = p.cursor
			ends = append(ends, p.end())
		}
		payload := rapid.IntRange(0, largest)
		rt.Repeat(map[string]func(*rapid.T){
			"call": func(rt *rapid.T) {
				n := payload.Draw(rt, "payload")
				if c.put(messageSpace(n), size).end()-peerReleased <= size-
					uint64(promises+1)*space {
					put(n)
					isReply = append(isReply, false)
				}
			},
			"request": func(*rapid.T) {
				if owed+unreleased < promises {
					owed++
				}
			},
			"reply": func(rt *rapid.T) {
				if owed > 0 {
					put(payload.Draw(rt, "payload"))
					isReply = append(isReply, true)
					owed--
					unreleased++
				}
			},
			"flush": func(*rapid.T) {
				c.start = c.end()
				c.next = c.start
			},
			"release": func(*rapid.T) {
				if len(ends) > 0 {
					peerReleased = ends[0] &^ (unit - 1)
					if isReply[0] {
						unreleased--
					}
					ends, isReply = ends[1:], isReply[1:]
				}
			},
		})
	})
}
