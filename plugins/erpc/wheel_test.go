package erpc

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWheel: every entry leaves once, not before it is due, at most one bucket later, and in the
// order of time.
func TestWheel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const width, horizon, capacity = 500, 100_000, 50
		w := newWheel(width, horizon, capacity)
		now, number := rapid.Int64Range(0, 1<<40).Draw(t, "begin"), uint32(0)
		due := map[uint32]int64{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			for range rapid.IntRange(0, 4).Draw(t, "puts") {
				at := now + rapid.Int64Range(-width, horizon).Draw(t, "delay")
				taken := w.put(entry{number: number}, now, at)
				require.Equal(t, len(due) < capacity, taken, "room for %d more", capacity-len(due))
				if taken {
					due[number] = max(at, now)
					number++
				}
			}
			now += rapid.Int64Range(0, 20_000).Draw(t, "passes")
			last := int64(0)
			for e, ok := w.take(now); ok; e, ok = w.take(now) {
				at, held := due[e.number]
				require.True(t, held, "entry %d left twice", e.number)
				delete(due, e.number)
				require.LessOrEqual(t, at, now)
				require.GreaterOrEqual(t, at/width, last/width-1)
				last = at
			}
			for _, at := range due {
				require.Greater(t, at, now-width, "an entry is late")
			}
			require.Equal(t, len(due), w.count)
		}
	})
}

// TestWheelHorizon: an entry that is due beyond the horizon leaves at the horizon.
func TestWheelHorizon(t *testing.T) {
	w := newWheel(10, 1000, 4)
	require.True(t, w.put(entry{number: 1}, 0, 1<<40))
	_, due := w.take(500)
	require.False(t, due)
	e, due := w.take(2000)
	require.True(t, due)
	require.EqualValues(t, 1, e.number)
}

// TestWheelIsBounded: a long horizon makes buckets wider instead of more.
func TestWheelIsBounded(t *testing.T) {
	w := newWheel(100, 1<<40, 1)
	require.LessOrEqual(t, len(w.buckets), maxBuckets)
	require.GreaterOrEqual(t, w.width*w.mask, int64(1<<40))
	require.False(t, slices.ContainsFunc(w.buckets, func(p bucket) bool { return p.first >= 0 }))
}
