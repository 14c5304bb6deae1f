package compare

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// openLoop returns a cell of an open loop with response times about p50. With a share, its rate is
// that of a capacity of two windows with this distance.
func openLoop(r *rand.Rand, transport string, rate, share, distance, p50 float64) set.Cell {
	c := cell(map[string]string{"transport": transport, "rate": "20000"},
		noisy(r, 10, rate, 0.0001)...)
	c.Samples[result.ResponseP50] = noisy(r, 10, p50, 0.01)
	if share > 0 {
		c.Config["rate"] = result.FormatShare(share)
		value := rate / share
		c.Capacity = &result.Capacity{Value: value, Share: share, Rate: rate, State: "near",
			Throughput: result.Metric{Median: value, N: 2}}
		c.Capacity.Windows = []result.Window{
			{Throughput: value, DistanceBefore: distance, DistanceAfter: distance},
			{Throughput: value, DistanceBefore: distance, DistanceAfter: distance},
			{Throughput: 3 * value, DistanceBefore: 20, DistanceAfter: 900}, // mixed
		}
	}
	return c
}

// changesOf returns the changes of a report by metric.
func changesOf(r *Report) map[string]Change {
	by := map[string]Change{}
	for _, c := range r.Changes {
		by[c.Metric] = c
	}
	return by
}

// A share of the capacity is another rate if the capacities were measured in different states of
// the machine.
func TestPairsOfDifferentRates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	windows := func(c set.Cell) set.Cell { // five near, and five far
		for i := range 10 {
			distance := 50 + 250*float64(i%2)
			c.Windows = append(c.Windows, set.Window{Launch: i, DistanceBefore: distance,
				DistanceAfter: distance})
		}
		return c
	}
	old := newSet(windows(openLoop(r, "shm", 2e6, 0.5, 50, 1000)))
	new := newSet(windows(openLoop(r, "shm", 0.8e6, 0.5, 300, 700)))
	c := one(t, old, new, Defaults())
	require.Equal(t, Incomparable, c.Verdict)
	require.Nil(t, c.Change)
	require.Equal(t, "the rates differ: 2.00 M op/s (50% of 4.00 M op/s, near) in old and 800 K "+
		"op/s (50% of 1.60 M op/s, far) in new; "+
		"--across rate compares them", c.Note)

	for _, asked := range []func(o *Options){
		func(o *Options) { o.Across = []string{"rate"} },
		func(o *Options) { o.Across = []string{"all"} },
		func(o *Options) { o.Ignore = []string{"rate"} },
	} {
		o := Defaults()
		asked(&o)
		report, err := Diff(old, new, o)
		require.NoError(t, err)
		require.Equal(t, Better, changesOf(report)[result.ResponseP50].Verdict)
		require.Equal(t, Ambiguous, changesOf(report)[result.Throughput].Verdict)
	}

	near := newSet(windows(openLoop(r, "shm", 2.08e6, 0.5, 50, 700)))
	report, err := Diff(old, near, Defaults())
	require.NoError(t, err)
	require.Equal(t, Better, changesOf(report)[result.ResponseP50].Verdict,
		"the rates differ by 4%")
	report, err = Pairwise(old, new, Defaults())
	require.NoError(t, err)
	require.Equal(t, Better, changesOf(report)[result.ResponseP50].Verdict,
		"the sides of ab were given")
}

// The throughput of an open loop is that of its schedule, unless a side fell behind.
func TestThroughputOfTheSchedule(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	old, new := newSet(openLoop(r, "shm", 2.08e6, 0.5, 50, 1000)),
		newSet(openLoop(r, "shm", 2e6, 0.5, 50, 700))
	compared := func() *Report {
		o := Defaults()
		threshold, err := ParseThreshold("throughput<-3%")
		require.NoError(t, err)
		o.Thresholds = []Threshold{threshold}
		report, err := Diff(old, new, o)
		require.NoError(t, err)
		return report
	}
	report := compared()
	c := changesOf(report)[result.Throughput]
	require.Equal(t, Ambiguous, c.Verdict)
	require.True(t, c.Scheduled)
	require.Nil(t, c.P)
	require.InDelta(t, -0.038, *c.Change, 0.001)
	require.Equal(t, Better, changesOf(report)[result.ResponseP50].Verdict)
	require.Equal(t, 1, report.Tests, "there is no test of the throughput")
	require.Len(t, report.Means, 1)
	require.Empty(t, report.Broken)
	require.Contains(t, report.Notes, scheduledNote)

	new.Cells[0].Warnings = []result.Finding{{Name: "rate", Severity: result.Warning}}
	report = compared()
	require.Equal(t, Worse, changesOf(report)[result.Throughput].Verdict, "it fell behind")
	require.Len(t, report.Broken, 1)
	require.NotContains(t, report.Notes, scheduledNote)
}

// Transports are compared at the same share of their own capacities, but not in throughput.
func TestAlongSharesOfCapacities(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	s := newSet(openLoop(r, "shm", 2e6, 0.5, 50, 1000), openLoop(r, "tcpx", 0.4e6, 0.5, 50, 30000))
	ranking, err := Along(s, "transport", Defaults())
	require.NoError(t, err)
	require.Len(t, ranking.Groups, 1)
	require.Equal(t, result.ResponseP50, ranking.Groups[0].Metric)
	require.Equal(t, "shm", ranking.Groups[0].Leader)
	require.Equal(t, []string{scheduledNote, sharesNote}, ranking.Notes)

	o := Defaults()
	o.Metrics = []string{result.Throughput}
	_, err = Along(s, "transport", o)
	require.EqualError(t, err, scheduledNote+"; use --metric to compare others")

	s.Cells[1].Warnings = []result.Finding{{Name: "rate", Severity: result.Warning}}
	ranking, err = Along(s, "transport", o)
	require.NoError(t, err)
	require.Equal(t, "shm", ranking.Groups[0].Leader, "the other fell behind")

	ranking, err = Along(newSet(openLoop(r, "shm", 20e3, 0, 0, 1000),
		openLoop(r, "shm", 2e6, 0.5, 50, 2000)), "rate", Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{scheduledNote}, ranking.Notes, "other rates are what is compared")
	require.Equal(t, "20k", ranking.Groups[0].Leader)

	same := newSet(openLoop(r, "shm", 20e3, 0, 0, 1000), openLoop(r, "tcpx", 20e3, 0, 0, 30000))
	ranking, err = Along(same, "transport", Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{scheduledNote}, ranking.Notes)
}

// Response times at --rate max are those of a backlog, and are not compared.
func TestResponseTimesAtRateMax(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	setOf := func(p50 float64) *set.Set {
		c := openLoop(r, "shm", 4e6, 0, 0, p50)
		c.Config["rate"] = fmt.Sprintf("%.0f", float64(config.RateMax))
		other := c
		other.Config = maps.Clone(c.Config)
		other.Config["transport"] = "tcpx"
		return newSet(c, other)
	}
	report, err := Diff(setOf(1e6), setOf(2e6), Defaults())
	require.NoError(t, err)
	require.Len(t, report.Changes, 2)
	require.Equal(t, result.Throughput, report.Changes[0].Metric)
	ranking, err := Along(setOf(1e6), "transport", Defaults())
	require.NoError(t, err)
	require.Len(t, ranking.Groups, 1)
	require.Equal(t, result.Throughput, ranking.Groups[0].Metric)
}

// A capacity has the state that the set's windows show, whatever its sweep called it.
func TestStateOfACapacity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	c := openLoop(r, "shm", 2e6, 0.5, 150, 1000)
	for i := range 9 {
		distance := []float64{50, 150, 500}[i%3]
		c.Windows = append(c.Windows, set.Window{DistanceBefore: distance, DistanceAfter: distance})
	}
	states := state.NewClassifier(newSet(c))
	require.Len(t, states.Names(), 3)
	require.Equal(t, states.Names()[1], states.OfCapacity(c.Capacity))
	c.Capacity.Throughput.N = 3
	require.Empty(t, states.OfCapacity(c.Capacity), "no state has three windows")
	require.Empty(t, state.Classifier{}.OfCapacity(c.Capacity))
}
