package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// What a test could have found is the size from which on it does find a change: the same values,
// moved by a little more, get a verdict, and moved by a little less they do not.
func TestDetectable(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	for _, metric := range []string{result.Throughput, result.LatencyP50} {
		for _, spread := range []float64{0.005, 0.05, 0.2} {
			base, other := noisy(r, 10, 1e6, spread), noisy(r, 10, 1e6, spread)
			set := func(values []float64, factor float64) *set.Set {
				c := cell(nil)
				c.Samples = map[string][]float64{metric: nil}
				for _, v := range values {
					c.Samples[metric] = append(c.Samples[metric], v*factor)
				}
				return newSet(c)
			}
			report, err := Diff(set(base, 1), set(other, 1), Defaults())
			require.NoError(t, err)
			c := report.Changes[0]
			require.NotNil(t, c.Detectable)
			size := *c.Detectable
			require.Greater(t, size, 0.02, "changes up to the floor are not called")
			require.Equal(t, Seen{Tests: 1, Median: size, Largest: size, Cell: c.Cell,
				Metric: metric}, report.Seen)
			require.Zero(t, report.Unseen(size))
			require.Equal(t, 1, report.Unseen(size*0.99))
			sign := 1.0
			if metric == result.Throughput {
				sign = -1
			}
			moved := func(size float64) Verdict {
				return one(t, set(base, 1), set(other, (1+sign*size)/(1+*c.Change)),
					Defaults()).Verdict
			}
			require.Equal(t, Worse, moved(size*1.001), "%s %g", metric, spread)
			require.NotEqual(t, Worse, moved(size*0.999), "%s %g", metric, spread)
		}
	}
}

func TestDetectableOfThresholds(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 1))
	threshold, err := ParseThreshold("throughput<-10%")
	require.NoError(t, err)
	o := Defaults()
	o.Thresholds = []Threshold{threshold}
	base, other := noisy(r, 10, 1e6, 0.05), noisy(r, 10, 1e6, 0.05)
	report, err := Diff(newSet(cell(nil, base...)), newSet(cell(nil, other...)), o)
	require.NoError(t, err)
	require.Equal(t, 1, report.Seen.Tests)
	require.Greater(t, report.Seen.Largest, 0.1)
	for factor, broken := range map[float64]int{1.001: 1, 0.999: 0} {
		var moved []float64
		for _, v := range other {
			moved = append(moved, v*(1-report.Seen.Largest*factor)/(1+*report.Changes[0].Change))
		}
		after, err := Diff(newSet(cell(nil, base...)), newSet(cell(nil, moved...)), o)
		require.NoError(t, err)
		require.Len(t, after.Broken, broken, factor)
	}
}

// A true change of the size that one comparison could have found is found by another about half of
// the time.
func TestDetectableIsFoundHalfOfTheTime(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	sets := func(size float64) *Report {
		report, err := Diff(newSet(cell(nil, noisy(r, 10, 1e6, 0.05)...)),
			newSet(cell(nil, noisy(r, 10, 1e6*(1-size), 0.05)...)), Defaults())
		require.NoError(t, err)
		return report
	}
	const trials = 300
	found := 0
	for range trials {
		found += sets(*sets(0).Changes[0].Detectable).Count(Worse)
	}
	require.InDelta(t, 0.5, float64(found)/trials, 0.1)
}

// What more repeats could find follows from the values: sets that have as many find changes of that
// size. The minimum effect of so many repeats bounds it, and without a scatter they find no less.
func TestSeenWithMore(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 1))
	of := func(n int, spread float64, o Options) *Report {
		report, err := Diff(newSet(cell(nil, noisy(r, n, 1e6, spread)...)),
			newSet(cell(nil, noisy(r, n, 1e6, spread)...)), o)
		require.NoError(t, err)
		return report
	}
	const trials = 200
	expected, true30 := 0.0, 0.0
	for range trials {
		report := of(10, 0.05, Defaults())
		require.Equal(t, 30, report.MoreRepeats())
		more, ok := report.SeenWithMore()
		require.True(t, ok)
		expected += more / trials
		true30 += of(30, 0.05, Defaults()).Seen.Median / trials
	}
	require.InEpsilon(t, true30, expected, 0.1)
	require.Equal(t, 35, of(7, 0.05, Defaults()).MoreRepeats())
	require.Equal(t, 80, of(40, 0.05, Defaults()).MoreRepeats())

	o := Defaults()
	o.MinEffect = func(_ *set.Cell, times int) (float64, string) {
		return 0.3 / float64(times), "seen"
	}
	report := of(10, 0.001, o)
	require.InDelta(t, 0.3, report.Seen.Median, 0.01)
	more, ok := report.SeenWithMore()
	require.True(t, ok)
	require.InDelta(t, 0.1, more, 0.01)
	_, ok = of(10, 0, Defaults()).SeenWithMore()
	require.False(t, ok)
	_, ok = of(2, 0.05, Defaults()).SeenWithMore()
	require.False(t, ok, "too few repeats to say")
	more, ok = of(10, 10, Defaults()).SeenWithMore()
	require.Greater(t, more, 0.5)
	require.False(t, ok, "nothing small")
}

// A test that cannot find any change is named.
func TestNothingDetectable(t *testing.T) {
	report, err := Diff(newSet(cell(nil, 1, 2)), newSet(cell(nil, 1, 2)), Defaults())
	require.NoError(t, err)
	require.Nil(t, report.Changes[0].Detectable)
	require.Equal(t, Seen{Tests: 1, None: 1, Cell: report.Changes[0].Cell,
		Metric: result.Throughput, Why: FewRepeats}, report.Seen)
	require.Equal(t, 1, report.Unseen(100))
}
