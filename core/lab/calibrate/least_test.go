package calibrate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// seen returns a calibration of a machine on which changes of that size were found.
func seen(share float64, quick bool) Found {
	d := &Document{StartedAt: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), Quick: quick}
	d.Power = []Power{{Repeats: 10, Trials: []Trials{{Known: share, Count: 30, Found: 30, Share: Estimate{Value: 1}}}}}
	return Found{Document: d, Path: "calibration.json"}
}

// Of several machines, the one that sees least decides. A change below the default never counts.
func TestLeastChangeOfMachines(t *testing.T) {
	unseen := seen(0.05, false)
	unseen.Document.Power[0].Trials[0].Share.Value = 0.5
	for _, c := range []struct {
		found []Found
		share float64
		from  string
	}{
		{nil, 0.02, ""},
		{[]Found{{}}, 0.02, ""},
		{[]Found{seen(0.05, true)}, 0.02, ""},
		{[]Found{seen(0.05, false)}, 0.05, "what the machine was seen to find with 10 repeats (calibration of 2026-03-04, calibration.json)"},
		{[]Found{seen(0.05, false), {}, seen(0.1, false), seen(0.01, false)}, 0.1, "what the machine was seen to find with 10 repeats (calibration of 2026-03-04, calibration.json)"},
		{[]Found{unseen}, 0.05, "which the machine was not seen to find with 10 repeats (calibration of 2026-03-04, calibration.json)"},
		{[]Found{seen(0.01, false)}, 0.02, "the default; the machine was seen to find 1% with 10 repeats (calibration of 2026-03-04, calibration.json)"},
	} {
		share, from := LeastChange(c.found, 10, 0.02)
		require.Equal(t, c.share, share)
		require.Equal(t, c.from, from)
	}
}

func TestRepeats(t *testing.T) {
	of := func(repeats ...int) *set.Set { // cells with 1, 2, ... calls in flight
		s := set.New()
		for i, n := range repeats {
			s.Cells = append(s.Cells, set.Cell{
				Status: set.Measured, Config: map[string]string{"transport": "shm", "in_flight": string(rune('1' + i))},
				Samples: map[string][]float64{result.Throughput: make([]float64, n), result.HarnessOverhead: {1}},
			})
		}
		return s
	}
	require.Equal(t, 10, Repeats(nil, of(20, 10)))
	require.Equal(t, 20, Repeats(nil, of(20, 10), of(20)), "the second has no counterpart")
	require.Equal(t, 9, Repeats(nil, of(20, 10), of(20, 9)))
	require.Equal(t, 9, Repeats([]string{"in_flight"}, of(20, 9), of(20)))
	other := of(8)
	other.Cells[0].Config["transport"] = "tcpx"
	require.Equal(t, 8, Repeats(nil, of(20), other), "nothing in common")
	failed := of(3)
	failed.Cells[0].Status = set.Failed
	require.Zero(t, Repeats(nil, failed))
}
