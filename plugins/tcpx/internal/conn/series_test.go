package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
