package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
)

// TestSilences: responses that come late are silences, if they are far later than the others.
func TestSilences(t *testing.T) {
	clock := machine.Calibrated()
	ms := func(n uint64) uint64 { return n * clock.Ticks(time.Millisecond) }
	// window returns the silences in milliseconds of a window of 10 s in which responses come every
	// time in milliseconds but for two silences of that length.
	window := func(every, silence uint64, s *schedule) (list []uint64) {
		l := live{every: clock.Ticks(liveEvery), silences: newSilences(clock)}
		start := clock.Now()
		l.begin(start, s)
		ops, now := uint64(0), start
		for now-start < ms(10_000) {
			now += ms(every)
			if at := now - start; at < ms(2000) != (at+ms(silence) < ms(2000)) ||
				at < ms(6000) != (at+ms(silence) < ms(6000)) {
				now += ms(silence)
			}
			ops++
			l.publish(ops, now)
		}
		l.end(now)
		l.publish(ops, now+ms(1000)) // while it drains
		for _, g := range l.silences.report(now-start, ops, 1) {
			list = append(list, (g.ForNS+5e5)/1e6)
		}
		return list
	}
	require.Empty(t, window(10, 100, nil), "too short")
	require.Len(t, window(10, 500, nil), 2)
	for _, silence := range window(10, 500, nil) {
		require.InDelta(t, 505, silence, 6)
	}
	require.Empty(t, window(300, 500, nil), "calls take that long")
	require.Empty(t, window(10, 500, &schedule{gap: float64(ms(50))}),
		"the schedule has pauses like that")
}
