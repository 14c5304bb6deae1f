package trial

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// setsOf returns sets of six transports on a machine that moves between them by as much, and a
// transport that does not follow it by own.
func setsOf(n int, moves, own float64) (sets []*set.Set) {
	r := rand.New(rand.NewPCG(1, 1))
	for s := range n {
		one := set.New()
		one.Source = fmt.Sprint("set ", s)
		one.Environments = []set.Environment{{Identity: map[string]string{"cpu": "some"}}}
		level := moves * r.NormFloat64()
		for i := range 6 {
			c := set.Cell{Config: map[string]string{"transport": fmt.Sprint("t", i),
				"in_flight": "1"}, Tool: &result.Tool{Revision: "1234"},
				Status: set.Measured, Samples: map[string][]float64{}}
			shift := 0.0
			if i == 0 {
				shift = own * r.NormFloat64()
			}
			for round := range 10 {
				v := math.Exp(level + shift + 0.01*r.NormFloat64())
				c.Samples[result.Throughput] = append(c.Samples[result.Throughput], 1e6/v)
				c.Samples[result.LatencyP50] = append(c.Samples[result.LatencyP50], 1000*v)
				c.Windows = append(c.Windows,
					set.Window{Launch: round, StartedAt: time.Date(2026, 1, 2,
						s, round, i, 0, time.UTC)})
			}
			c.StartedAt = c.Windows[0].StartedAt
			one.Cells = append(one.Cells, c)
		}
		sets = append(sets, one)
	}
	return sets
}

func TestTrial(t *testing.T) {
	trial, err := Of(setsOf(8, 0.05, 0), nil, compare.Defaults(), 0.1)
	require.NoError(t, err)
	require.Equal(t, 28, trial.Pairs)
	require.LessOrEqual(t, trial.False.Share, 0.05)
	require.Greater(t, trial.Found.Share, 0.9)
	require.Equal(t, 28*6, trial.Found.Count)
	require.Len(t, trial.Metrics, 2)
	for _, m := range trial.Metrics {
		require.Less(t, m.Machine[1], 0.12)
		require.Greater(t, m.Machine[3], 0.05)
		require.Zero(t, m.Withheld.Share)
		require.LessOrEqual(t, m.Unadjusted.Low, 0.05)
		require.Greater(t, m.Found.Share, 0.9)
	}

	require.Less(t, trial.Limit, 0.02, "no more than the minimum effect of 2% is claimed")
	require.Equal(t, []float64{3 * 3600, 10}, []float64{trial.ApartS, float64(trial.Repeats)})
	require.Nil(t, trial.Quiet)
	require.Equal(t, "1234", trial.Revision)
	require.Equal(t, trial.Verdicts, trial.Cells)
	require.Zero(t, trial.Transports.Found.Share, "there is one load")

	wild, err := Of(setsOf(6, 1, 0), nil, compare.Defaults(), 0.1)
	require.NoError(t, err)
	require.Greater(t, wild.Metrics[0].Withheld.Share, 0.5)
	odd, err := Of(setsOf(6, 0.05, 0.3), nil, compare.Defaults(), 0.1)
	require.NoError(t, err)
	require.Greater(t, odd.False.Share, 0.5, "a transport that goes its own way is a difference")
	require.Greater(t, odd.Limit, 0.1)
	o := compare.Defaults()
	o.Floor = odd.Limit
	within, err := Of(setsOf(6, 0.05, 0.3), nil, o, 0.1)
	require.NoError(t, err)
	require.LessOrEqual(t, within.False.Share, o.Alpha, "with the limit, diff claims no more")
	o.Floor = 0.9 * odd.Limit
	within, err = Of(setsOf(6, 0.05, 0.3), nil, o, 0.1)
	require.NoError(t, err)
	require.Greater(t, within.False.Share, o.Alpha, "and the limit is the smallest")

	// The quiet sets are three of which the odd one is none.
	sets := setsOf(4, 0.02, 0)
	sets[3].Cells[0].Tool = &result.Tool{Revision: "5678"}
	for i, v := range sets[3].Cells[0].Samples[result.LatencyP50] {
		sets[3].Cells[0].Samples[result.LatencyP50][i] = 1.5 * v
	}
	both, err := Of(sets, []bool{true, true, true, false}, compare.Defaults(), 0.1)
	require.NoError(t, err)
	require.InDelta(t, 0.5, both.False.Share, 1e-9, "the pairs of the odd set")
	require.Equal(t, []int{6, 3, 3}, []int{both.Pairs, both.Quiet.Sets, both.Quiet.Pairs})
	require.Zero(t, both.Quiet.False.Share)
	require.Empty(t, both.Revision, "one set is of another")
	kept := both.Kept()
	require.Equal(t, []int{4, 3}, []int{kept.Sets, kept.QuietPairs.Sets})
	require.Equal(t, both.Cells.False.Share, kept.FalseOnCells.Value)
	require.Zero(t, kept.FalseOnTransports.Value)
	require.Zero(t, kept.QuietPairs.FalseOnCells.Value)
	require.Equal(t, both.Quiet.Found.Share, kept.QuietPairs.Found.Value)
	_, err = Of(sets, []bool{true, false, true, false}, compare.Defaults(), 0.1)
	require.ErrorContains(t, err, "2 quiet sets are too few")
	_, err = Of(setsOf(2, 0, 0), nil, compare.Defaults(), 0.1)
	require.ErrorContains(t, err, "2 sets are too few")
}

// Verdicts on a transport over all loads, and on cells, are told apart: five windows of two loads
// are enough for the first only.
func TestVerdictsByRow(t *testing.T) {
	sets := setsOf(4, 0.05, 0)
	for _, s := range sets {
		for _, c := range s.Cells {
			c.Config, c.Windows = maps.Clone(c.Config), c.Windows[5:]
			c.Config["in_flight"], c.Samples = "2", maps.Clone(c.Samples)
			for metric, values := range c.Samples {
				c.Samples[metric] = values[5:]
			}
			s.Cells = append(s.Cells, c)
		}
		for i := range 6 {
			c := &s.Cells[i]
			c.Windows = c.Windows[:5]
			for metric, values := range c.Samples {
				c.Samples[metric] = values[:5]
			}
		}
	}
	trial, err := Of(sets, nil, compare.Defaults(), 0.1)
	require.NoError(t, err)
	require.Zero(t, trial.Cells.Found.Share)
	require.Greater(t, trial.Transports.Found.Share, 0.9)
	require.Equal(t, trial.Transports, trial.Verdicts)
}

// The jackknife counts that pairs share sets: one odd set of six is in a third of the pairs.
func TestJackknife(t *testing.T) {
	var pairs []*pair
	for old := range 6 {
		for new := old + 1; new < 6; new++ {
			pairs = append(pairs, &pair{old: old, new: new})
		}
	}
	r := jackknife(pairs, func(p *pair) share {
		s := share{trials: 1}
		if p.old == 0 {
			s.hits = 1
		}
		return s
	})
	require.InDelta(t, 1.0/3, r.Share, 1e-9)
	require.Equal(t, 15, r.Count)
	require.Zero(t, r.Low, "a binomial interval would begin at 0.12")
	require.Greater(t, r.High, 0.9)
	none := jackknife(pairs, func(*pair) share { return share{0, 1} })
	require.InDelta(t, 1-math.Pow(0.025, 1.0/3), none.High, 1e-9,
		"of three pairs that share no set")
	same := jackknife(pairs, func(*pair) share { return share{1, 2} })
	low, high := calibration.BinomialInterval(1.5, 3)
	require.Equal(t, Rate{0.5, low, high, 15 * 2}, same, "as if of three pairs")
}

// The interval holds the true share at least as often as it says, also where a trial has few hits
// and pairs have them because of a set that they share.
func TestJackknifeCovers(t *testing.T) {
	const trials = 1000
	apart := func(limit float64) func(a, b float64) bool { // of two values
		return func(a, b float64) bool { return math.Abs(a-b) > limit }
	}
	odd := func(limit float64) func(a, b float64) bool { // a set has a hit in all of its pairs
		return func(a, b float64) bool { return max(a, b) > limit }
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		hit   func(a, b float64) bool
		truth float64
	}{
		{apart(1), math.Erfc(0.5)}, {apart(2), math.Erfc(1)}, {apart(2.8), math.Erfc(1.4)},
		{odd(1.6449), 1 - 0.95*0.95}, {odd(1.2816), 1 - 0.9*0.9},
	} {
		for _, n := range []int{6, 21} {
			held := 0
			for range trials {
				values := make([]float64, n)
				for i := range values {
					values[i] = r.NormFloat64()
				}
				var pairs []*pair
				for old := range n {
					for new := old + 1; new < n; new++ {
						pairs = append(pairs, &pair{old: old, new: new})
					}
				}
				rate := jackknife(pairs, func(p *pair) share {
					s := share{trials: 1}
					if c.hit(values[p.old], values[p.new]) {
						s.hits = 1
					}
					return s
				})
				if rate.Low <= c.truth && c.truth <= rate.High {
					held++
				}
			}
			t.Logf("%d sets, true share %.3f: held in %.1f%%", n, c.truth,
				100*float64(held)/trials)
			require.Greater(t, float64(held)/trials, 0.94, "%d sets, %g", n, c.truth)
		}
	}
}

func TestSlowerLeavesTheSet(t *testing.T) {
	s := setsOf(1, 0, 0)[0]
	before := s.Cells[0].Samples[result.Throughput][0]
	changed := slower(s, "t0", 0.25)
	require.Equal(t, before, s.Cells[0].Samples[result.Throughput][0])
	require.InDelta(t, before/1.25, changed.Cells[0].Samples[result.Throughput][0], 1e-6)
	require.Equal(t, s.Cells[1].Samples, changed.Cells[1].Samples)
}
