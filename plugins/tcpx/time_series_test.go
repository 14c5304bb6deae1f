package tcpx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// byName returns a worker's series by name.
func byName(w *worker) map[string]transport.Series {
	found := map[string]transport.Series{}
	for _, s := range w.ReadRecording().Series {
		found[s.Name] = s
	}
	return found
}

// TestTrace: each series has a value per part, and shares do not exceed 1.
func TestTrace(t *testing.T) {
	const parts = 8
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 1 << 20}, nil)
	require.Empty(t, a.ReadRecording().Series, "before anything was traced")
	// all is in the first part
	a.StartRecording(transport.Recording{Parts: parts, Window: time.Hour})
	b.StartRecording(transport.Recording{Parts: parts, Window: time.Nanosecond})
	for range 20 {
		oneCall(t, a, b, 1<<20)
	}
	trace := byName(a)
	for name, s := range trace {
		require.NotEmpty(t, s.Help, name)
		require.Len(t, s.Values, parts, name)
		require.Positive(t, s.Values[0], name)
		for _, v := range s.Values[1:] {
			require.Zero(t, v, name)
		}
		if s.Remedy != "" {
			require.LessOrEqual(t, s.Values[0], 1.0, name)
		}
	}
	for _, name := range []string{"busy", "send_window", "sending", "receiving", "unpacking"} {
		require.Contains(t, trace, name)
	}
	require.LessOrEqual(t, trace["send_window"].Values[0], float64(requests))
	require.Empty(t, byName(b), "after its end")
}

// TestTimeIsBookedOnce: work and stalls of a direction together do not exceed the time that
// passed.
func TestTimeIsBookedOnce(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 1 << 20}, nil)
	for range 50 {
		oneCall(t, a, b, 1<<20)
	}
	for _, w := range []*worker{a, b} {
		k := &w.counters.time
		require.Positive(t, k[busyTime])
		require.Positive(t, k[reasonSending])
		worked := k[reasonSending] + k[reasonReceiving] + k[reasonUnpacking]
		sending, receiving := worked, worked
		for c := reasonWindow; c <= reasonNoBuffers; c++ {
			sending += k[c]
		}
		for c := reasonPages; c < breakdownCount; c++ {
			receiving += k[c]
		}
		require.LessOrEqual(t, sending, k[busyTime])
		require.LessOrEqual(t, receiving, k[busyTime])
	}
}

// TestTraceParts: time is booked to the parts in which it passed, however late it is booked, and
// time outside of all parts is dropped.
func TestTraceParts(t *testing.T) {
	var none timeSeries
	none.add(5, &timeBreakdown{busyTime: 5})
	of := func(passed uint64) *timeBreakdown {
		part := &timeBreakdown{busyTime: passed, sendOccupancy: 3 * passed, sendFullTime: passed}
		part[reasonCredit] = passed
		return part
	}
	for name, c := range map[string]struct {
		booked [][2]int64 // from, to
		busy   [3]uint64
	}{
		"within a part":         {[][2]int64{{100, 104}, {106, 109}}, [3]uint64{7}},
		"until the end of one":  {[][2]int64{{105, 110}}, [3]uint64{5}},
		"over an end":           {[][2]int64{{108, 113}, {113, 114}}, [3]uint64{2, 4}},
		"over a whole part":     {[][2]int64{{109, 124}}, [3]uint64{1, 10, 4}},
		"from before the first": {[][2]int64{{60, 105}}, [3]uint64{5}},
		"until after the last":  {[][2]int64{{127, 1000}, {1000, 1001}}, [3]uint64{0, 0, 3}},
		"over all":              {[][2]int64{{0, 1000}}, [3]uint64{10, 10, 10}},
		"after a pause":         {[][2]int64{{101, 102}, {125, 126}}, [3]uint64{1, 0, 1}},
		"just behind an end":    {[][2]int64{{110, 112}}, [3]uint64{0, 2}},
		"other connections": {[][2]int64{{101, 123}, {108, 123}, {95, 123}},
			[3]uint64{21, 30, 9}},
	} {
		tr := timeSeries{parts: make([]timeBreakdown, 3), length: 10, next: 110}
		for _, b := range c.booked {
			tr.add(b[1], of(uint64(b[1]-b[0])))
		}
		for i, busy := range c.busy {
			part := &tr.parts[i]
			for _, n := range []uint64{part[sendOccupancy] / 3, part[sendFullTime],
				part[reasonCredit]} {
				// divided in whole nanoseconds
				require.InDelta(t, busy, n, 1, "%s: part %d", name, i)
			}
			require.Equal(t, busy, part[busyTime], "%s: part %d", name, i)
		}
	}
	tr, part := timeSeries{parts: make([]timeBreakdown, 200), length: 10, next: 10}, of(15)
	require.Zero(t, testing.AllocsPerRun(100, func() { tr.add(tr.next+5, part) }), "allocations")
	require.Positive(t, tr.current)
}
