package calibration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// seen returns a calibration of a machine on which changes of that size were found.
func seen(share float64, quick bool) Found {
	d := &Document{StartedAt: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), Quick: quick}
	d.Power = []Power{
		{Class: "memory", Repeats: 10, Trials: []Trials{{Known: share, Count: 30, Found: 30,
			Share: Estimate{Value: 1}}}}}
	return Found{Identity: map[string]string{"cpu": "some", "kernel": "6.2"}, Document: d,
		Path: "calibration.json"}
}

// Of several machines, the one that sees least decides. A change below the default never counts.
// The text names the calibrations of all machines.
func TestMinEffectOfMachines(t *testing.T) {
	unseen, stale := seen(0.05, false), seen(0.05, false)
	unseen.Document.Power[0].Trials[0].Share.Value = 0.5
	stale.Stale = "10 days old, made with version 1, and this is 2"
	other := Found{Identity: map[string]string{"cpu": "another", "kernel": "6.1"}}
	const none = "the default; no full calibration of this machine"
	for _, c := range []struct {
		found []Found
		share float64
		from  string
	}{
		{nil, 0.02, none},
		{[]Found{{}}, 0.02, none},
		{[]Found{seen(0.05, true)}, 0.02, none},
		{[]Found{seen(0.05, false)}, 0.05, "found in 30 of 30 trials of memory with 10 repeats " +
			"(calibration of 2026-03-04, calibration.json)"},
		{[]Found{stale}, 0.05,
			"found in 30 of 30 trials of memory with 10 repeats (calibration of " +
				"2026-03-04, calibration.json, 10 days old, made with version 1, and this is 2)"},
		{[]Found{unseen}, 0.05, "the largest change tried, and not even that was found in 90% of " +
			"the trials of memory with 10 repeats (calibration of 2026-03-04, calibration.json)"},
		{[]Found{seen(0.01, false)}, 0.02,
			"the default; seen: 1%, found in 30 of 30 trials of memory with " +
				"10 repeats (calibration of 2026-03-04, calibration.json)"},
		{[]Found{seen(0.05, false), other, seen(0.1, false)}, 0.1, "found in 30 of 30 trials " +
			"of memory with 10 repeats (calibration of some, kernel 6.2 of 2026-03-04, " +
			"calibration.json)" +
			"; seen: 5%, found in 30 of 30 trials of memory with 10 repeats (calibration of " +
			"some, kernel " +
			"6.2 of 2026-03-04, calibration.json)" +
			"; no full calibration of another, kernel 6.1"},
	} {
		share, from := minEffectOf(c.found, "", 10, 0.02)
		require.Equal(t, c.share, share)
		require.Equal(t, c.from, from)
	}
	_, from := minEffectOf([]Found{seen(0.05, false)}, "", 5, 0.02)
	require.Contains(t, from, "with 10 repeats, not measured below 10 repeats (calibration")
}

// A cell has the minimum effect of its class of operations, if its whole path is of that class.
func TestClassOf(t *testing.T) {
	for want, paths := range map[string][][]string{
		classMemory: {{"memory"}, {"memory, device soft, port_mtu 4096"}},
		classSockets: {{"unix"}, {"tcp over lo, mtu 65536"},
			{"tcp over lo, mtu 65536", "udp over lo, gro on"}},
		"": {nil, {"memory", "tcp over lo"}, {"tcp over eth0, mtu 1500"}, {"verbs over mlx5_0/1"},
			{"udp over lo", "impaired by netem"}},
	} {
		for _, path := range paths {
			require.Equal(t, want, classOf(&set.Cell{Plugin: set.Plugin{Path: path}}), path)
		}
	}
}

// What changed by 10% has a verdict over sockets, where a calibration saw 5%, and none over memory,
// where it saw 20%. The report says both; cells without a path have the larger.
func TestMinEffectOfACell(t *testing.T) {
	f := seen(0.2, false)
	f.Document.Power = append(f.Document.Power, Power{Class: classSockets, Repeats: 10,
		Trials: []Trials{{Known: 0.05, Count: 30, Found: 28, Share: Estimate{Value: 0.93}}}})
	paths := []string{"memory", "tcp over lo, mtu 65536", ""}
	of := func(factor float64, paths ...string) *set.Set {
		s := set.New()
		s.Environments = []set.Environment{{Identity: f.Identity}}
		for i, path := range paths {
			c := set.Cell{Status: set.Measured, Config: map[string]string{"transport": "shm",
				"in_flight": string(rune('1' + i))}, Samples: map[string][]float64{}}
			if path != "" {
				c.Plugin.Path = []string{path}
			}
			for n := range 10 {
				c.Samples[result.Throughput] = append(c.Samples[result.Throughput],
					factor*(1e6+float64(n)))
			}
			s.Cells = append(s.Cells, c)
		}
		return s
	}
	report, err := Diff([]Found{f}, of(1, paths...), of(0.9, paths...), compare.Defaults())
	require.NoError(t, err)
	for i := range report.Changes {
		c := &report.Changes[i]
		if c.Config["in_flight"] == "2" {
			require.Equal(t, compare.Worse, c.Verdict)
			require.Equal(t, 0.05, c.Floor)
		} else {
			require.Equal(t, compare.Ambiguous, c.Verdict, c.Cell)
			require.Equal(t, 0.2, c.Floor)
		}
	}
	require.Equal(t, []float64{0.2, 0.05}, []float64{report.Floor, report.MinFloor})
	require.Equal(t, "found in 30 of 30 trials of memory with 10 repeats (calibration of "+
		"2026-03-04, calibration.json); elsewhere 5%, found in 28 of 30 trials of sockets with 10 "+
		"repeats (calibration of 2026-03-04, calibration.json)", report.FloorFrom)
	report, err = Diff([]Found{f}, of(1, paths[1]), of(0.9, paths[1]), compare.Defaults())
	require.NoError(t, err)
	require.Equal(t, 0.05, report.Floor, "that of the cells alone")
	require.Zero(t, report.MinFloor)

	s := of(1, paths[1], paths[1])
	for i := range s.Cells[1].Samples[result.Throughput] {
		s.Cells[1].Samples[result.Throughput][i] *= 0.9
	}
	ranking, err := Along([]Found{f}, s, "in-flight", compare.Defaults())
	require.NoError(t, err)
	require.Equal(t, "1", ranking.Groups[0].Leader)
	require.Equal(t, 0.05, ranking.Groups[0].List[1].Floor)
}

// Without a control, changes count beyond the largest drift of the machines.
func TestDriftOf(t *testing.T) {
	share, from := driftOf([]Found{seen(0.05, false)})
	require.Zero(t, share)
	require.Equal(t, "no full calibration of this machine says how far it drifts", from)
	drifts, less := seen(0.05, false), seen(0.05, false)
	drifts.Document.Drift = &Drift{ApartS: 480, Comparisons: 200, Repeats: 10, Limit: 0.12}
	less.Document.Drift = &Drift{ApartS: 60, Comparisons: 200, Repeats: 10, Limit: 0.1}
	share, from = driftOf([]Found{{}, drifts, less})
	require.Equal(t, 0.12, share)
	require.Equal(t, "equal sets that were measured 8 minutes apart differ by that much "+
		"(calibration of 2026-03-04, calibration.json)", from)
}

func TestRepeats(t *testing.T) {
	of := func(repeats ...int) *set.Set { // cells with 1, 2, ... calls in flight
		s := set.New()
		for i, n := range repeats {
			s.Cells = append(s.Cells, set.Cell{
				Status: set.Measured, Config: map[string]string{"transport": "shm",
					"in_flight": string(rune('1' + i))},
				Samples: map[string][]float64{result.Throughput: make([]float64, n),
					result.HarnessOverhead: {1}},
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
