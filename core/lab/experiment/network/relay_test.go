package network

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/netem"
	"transportbench/core/lab/store/result"
)

// pass takes n packets of 1,000 bytes, one every interval, and returns the numbers of the delivered
// ones in their order, when each was due, and the counters.
func pass(i netem.Impairments, seed uint64, n int, interval time.Duration) (order []int,
	due []time.Duration, count result.NetworkCounters) {
	s := newShaper(2, i, seed)
	for k := range n {
		frame := s.buffer()[:1000]
		binary.BigEndian.PutUint16(frame[12:], etherIPv4)
		binary.BigEndian.PutUint32(frame[20:], uint32(k))
		s.take(0, frame, time.Duration(k)*interval, &count)
	}
	for {
		p, ok := s.due(time.Hour)
		if !ok {
			return order, due, count
		}
		order, due = append(order, int(binary.BigEndian.Uint32(p.frame[20:]))), append(due, p.due)
		s.free(p.frame)
	}
}

func TestShaperLoss(t *testing.T) {
	const n = 20000
	order, _, count := pass(netem.Impairments{Loss: 0.01}, 1, n, time.Microsecond)
	require.EqualValues(t, n, count.Packets)
	require.InDelta(t, 0.01*n, count.Dropped, 60, "four standard deviations")
	require.Len(t, order, n-int(count.Dropped))
	require.True(t, slices.IsSorted(order))
	again, _, _ := pass(netem.Impairments{Loss: 0.01, Delay: time.Millisecond}, 1, n,
		time.Microsecond)
	require.Equal(t, order, again, "a seed drops the same packets, whatever else happens to them")
	other, _, _ := pass(netem.Impairments{Loss: 0.01}, 2, n, time.Microsecond)
	require.NotEqual(t, order, other)
}

func TestShaperDelay(t *testing.T) {
	order, due, _ := pass(netem.Impairments{Delay: 50 * time.Microsecond,
		Jitter: 10 * time.Microsecond}, 1, 1000, 30*time.Microsecond)
	require.True(t, slices.IsSorted(order), "jitter reorders nothing")
	low, high := time.Hour, time.Duration(0)
	for k, at := range due {
		d := at - time.Duration(order[k])*30*time.Microsecond
		low, high = min(low, d), max(high, d)
	}
	require.InDelta(t, 40*time.Microsecond, low, 500)
	require.InDelta(t, 60*time.Microsecond, high, 500)
}

func TestShaperReorder(t *testing.T) {
	order, _, _ := pass(netem.Impairments{Delay: 50 * time.Microsecond, Reorder: 0.1}, 1, 1000,
		time.Microsecond)
	require.Len(t, order, 1000)
	require.False(t, slices.IsSorted(order))
}

func TestShaperRate(t *testing.T) {
	_, due, count := pass(netem.Impairments{Rate: 8e6}, 1, 2000, 0) // 1,000 bytes take 1 ms
	require.EqualValues(t, 2000-queueLimit, count.Overflowed)
	require.Len(t, due, queueLimit)
	for k, at := range due {
		require.Equal(t, time.Duration(k+1)*time.Millisecond, at)
	}
}

// The queue of the rate is before the delay, so a long delay does not fill it.
func TestShaperRateWithDelay(t *testing.T) {
	// of 8 us each
	_, due, count := pass(netem.Impairments{Rate: 1e9, Delay: 100 * time.Millisecond}, 1, 20000,
		9*time.Microsecond)
	require.Zero(t, count.Overflowed)
	require.Len(t, due, 20000)
	s, burst := newShaper(2, netem.Impairments{Rate: 1e9, Delay: 100 * time.Millisecond}, 1),
		result.NetworkCounters{}
	for k := range 20000 { // half of the rate, in bursts of 10
		frame := s.buffer()[:1000]
		binary.BigEndian.PutUint16(frame[12:], etherIPv4)
		s.take(0, frame, time.Duration(k/10)*160*time.Microsecond, &burst)
	}
	require.Zero(t, burst.Overflowed)
}

// The delay holds a limited number of packets of each rank.
func TestShaperDelayLimit(t *testing.T) {
	s, count := newShaper(2, netem.Impairments{Delay: time.Second}, 1), result.NetworkCounters{}
	take := func(from, n int, now time.Duration) {
		for range n {
			frame := s.buffer()[:60]
			binary.BigEndian.PutUint16(frame[12:], etherIPv4)
			s.take(from, frame, now, &count)
		}
	}
	take(0, delayLimit+7, 0)
	require.EqualValues(t, 7, count.Overflowed)
	take(1, 1, 0)
	require.EqualValues(t, 7, count.Overflowed, "the other rank has packets of its own")
	for range 5 {
		_, ok := s.due(time.Second)
		require.True(t, ok)
	}
	take(0, 7, time.Second)
	require.EqualValues(t, 9, count.Overflowed, "five have left")
}
