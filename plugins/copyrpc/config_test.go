package copyrpc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/transport"
)

func TestOptionsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		raw     map[string]string
		payload int
		says    string
	}{
		"ring of no power of two": {soft("ring", "100000"), 64, "100000 bytes is not a power of two; 128KiB is the next"},
		"ring for less":           {soft("ring", "64KiB"), 64 << 10, "64KiB has a share of 8192 bytes"},
		"inline":                  {soft("inline", "512"), 64, "inline size of 512 bytes: the soft device grants 360"},
		"mtu":                     {soft("mtu", "1000"), 64, "1000 is not 256"},
		"signal interval":         {soft("signal-interval", "100"), 64, "over half of send-depth"},
		"batches":                 {soft("batches", "2"), 64, "2 is below 4"},
		"payload":                 {soft(), 1 << 30, "payload too large"},
		"device of soft":          {soft("device", "mlx5_0"), 64, `no device "mlx5_0"`},
		"no such device":          {map[string]string{"provider": "verbs", "device": "nosuch0"}, 64, "unavailable"},
		"auto with a device":      {map[string]string{"device": "nosuch0"}, 64, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := transport.ParseOptions(schema, c.raw)
			require.NoError(t, err)
			tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: c.payload, Options: options})
			if err == nil {
				_ = tr.Close()
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestRingShrinksWhatMayBeInFlight: a ring that is asked for is not exceeded.
func TestRingShrinksWhatMayBeInFlight(t *testing.T) {
	options, err := transport.ParseOptions(schema, soft("ring", "64KiB"))
	require.NoError(t, err)
	s, err := resolve(transport.Config{Peers: 1, InFlight: 1000, MaxPayload: 1000, Options: options})
	require.NoError(t, err)
	require.EqualValues(t, 64<<10, s.ring)
	require.Equal(t, 16, s.limits().InFlight)
	options, err = transport.ParseOptions(schema, soft())
	require.NoError(t, err)
	s, err = resolve(transport.Config{Peers: 1, InFlight: 32, MaxPayload: 64, Options: options})
	require.NoError(t, err)
	require.Equal(t, 32, s.limits().InFlight)
	require.EqualValues(t, leastRing, s.ring)
}

// TestRoom checks the arithmetic that room.go argues for, at any mixture of calls and
// replies: batches do not straddle the end, do not overlap what is not let go, and a
// reply always has room.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const size = 1 << 12
		space := allowance(size/ringShare - headerSize - messageHeader - unit)
		promises := size / 2 / int(space)
		largest := int(space) - headerSize - messageHeader
		var c cursor
		var freed uint64         // let go by the peer, as known
		var ends []uint64        // of what is in the ring, oldest first
		var kinds []bool         // of them: is a reply
		owed, unconsumed := 0, 0 // promises: of requests in hand, and of replies in the ring
		put := func(payload int) {
			p := c.put(messageSpace(payload), size)
			require.LessOrEqual(rt, p.end()-freed, uint64(size), "a message that overwrites what is not let go")
			require.Equal(rt, p.start/size, (p.next-1)/size, "a batch that straddles the end")
			require.Zero(rt, p.start%unit)
			require.GreaterOrEqual(rt, p.message, p.start+headerSize)
			if p.filler != 0 {
				require.Zero(rt, p.start%size)
				require.Zero(rt, p.filler%unit)
			}
			c = p.cursor
			ends = append(ends, p.end())
		}
		payload := rapid.IntRange(0, largest)
		rt.Repeat(map[string]func(*rapid.T){
			"call": func(rt *rapid.T) {
				n := payload.Draw(rt, "payload")
				if c.put(messageSpace(n), size).end()-freed <= size-uint64(promises+1)*space {
					put(n)
					kinds = append(kinds, false)
				}
			},
			"request": func(*rapid.T) {
				if owed+unconsumed < promises {
					owed++
				}
			},
			"reply": func(rt *rapid.T) {
				if owed > 0 {
					put(payload.Draw(rt, "payload"))
					kinds = append(kinds, true)
					owed--
					unconsumed++
				}
			},
			"flush": func(*rapid.T) {
				c.start = c.end()
				c.next = c.start
			},
			"let go": func(*rapid.T) {
				if len(ends) > 0 {
					freed = ends[0] &^ (unit - 1)
					if kinds[0] {
						unconsumed--
					}
					ends, kinds = ends[1:], kinds[1:]
				}
			},
		})
	})
}
