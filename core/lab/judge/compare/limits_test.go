package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// maxErrors is alpha of so many trials and three standard deviations of the count.
func maxErrors(alpha float64, trials int) float64 {
	n := float64(trials)
	return alpha*n + 3*math.Sqrt(alpha*(1-alpha)*n)
}

// A true change of exactly the minimum effect is called in at most alpha of the trials, in
// either direction and whether the states were drawn alike or not. One well beyond it is found, and
// is never called the wrong way.
func TestMinEffectIsTheLimitOfTheTest(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(20, 1)), start: time.Unix(0, 0)}
	o := Defaults()
	const trials = 400
	for _, true := range []float64{1.02, 0.98, 1.06, 0.94} {
		for _, farB := range []float64{0.2, 0.8} {
			better, worse, byEstimate := 0, 0, 0
			for range trials {
				c := one(t, newSet(m.side(20, 0.2, 1e6, 0.2, 0.02)),
					newSet(m.side(20, farB, true*1e6, 0.2, 0.02)), o)
				switch c.Verdict {
				case Better:
					better++
				case Worse:
					worse++
				}
				if c.outside(1+*c.Change, 0) < o.Alpha && math.Abs(*c.Change) >= o.Floor {
					byEstimate++
				}
			}
			t.Logf("%+.0f%%, far %.0f%% and 20%%: %d of %d BETTER, %d WORSE; %d with an estimate "+
				"beyond the limit that differs from zero",
				100*(true-1), 100*farB, better, trials, worse, byEstimate)
			right, wrong := better, worse
			if true < 1 {
				right, wrong = worse, better
			}
			require.Zero(t, wrong)
			if math.Abs(true-1) < 0.03 {
				require.LessOrEqual(t, float64(right), maxErrors(o.Alpha, trials))
				require.Greater(t, float64(byEstimate), 3*maxErrors(o.Alpha, trials),
					"a test against zero fails this")
			} else {
				require.Greater(t, right, trials*85/100)
			}
		}
	}
}

// A true change of exactly a threshold's limit trips it in at most alpha of the trials, also if
// there are several thresholds and cells. One well beyond it trips it.
func TestThresholdIsTestedAgainstItsLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	o := Defaults()
	for _, text := range []string{"throughput<-3%", "in_flight=1: throughput<-3%",
		"throughput>+20%"} {
		threshold, err := ParseThreshold(text)
		require.NoError(t, err)
		o.Thresholds = append(o.Thresholds, threshold)
	}
	const trials = 600
	for true, limit := range map[float64]float64{0.97: maxErrors(o.Alpha, trials), 0.9: trials} {
		tripped := 0
		for range trials {
			old, new := newSet(), newSet()
			for i := range 3 {
				config := map[string]string{"in_flight": fmt.Sprint(i + 1)}
				old.Cells = append(old.Cells, cell(config, noisy(r, 10, 1e6, 0.02)...))
				new.Cells = append(new.Cells, cell(config, noisy(r, 10, true*1e6, 0.02)...))
			}
			report, err := Diff(old, new, o)
			require.NoError(t, err)
			require.Equal(t, ThresholdTests{Tests: 7}, report.Thresholds)
			if len(report.Broken) > 0 {
				tripped++
				require.Less(t, *report.Broken[0].PHolm, o.Alpha)
			}
		}
		t.Logf("%+.0f%%: %d of %d tripped", 100*(true-1), tripped, trials)
		require.LessOrEqual(t, float64(tripped), limit)
		if true < 0.95 {
			require.Greater(t, tripped, trials*95/100)
		}
	}
}

// A threshold that no change could have failed is counted.
func TestThresholdsWithTooFewRepeats(t *testing.T) {
	threshold, err := ParseThreshold("throughput<-3%")
	require.NoError(t, err)
	o := Defaults()
	o.Thresholds = []Threshold{threshold}
	few := func(n int) {
		report, err := Diff(newSet(cell(nil, noisy(rand.New(rand.NewPCG(1, 1)), n, 1e6, 0.001)...)),
			newSet(cell(nil, noisy(rand.New(rand.NewPCG(1, 2)), n, 0.5e6, 0.001)...)), o)
		require.NoError(t, err)
		require.Equal(t, n == 4, len(report.Broken) > 0)
		want := ThresholdTests{Tests: 1}
		if n < 4 {
			want.TooLittle, want.Needed = 1, 4
		}
		require.Equal(t, want, report.Thresholds)
	}
	few(3) // a one-sided test of 3 against 3 reaches 0.05, which is not below alpha
	few(4)

	// More launches do not help sides that were in different states of the machine.
	m := &machineState{r: rand.New(rand.NewPCG(26, 1)), start: time.Unix(0, 0)}
	near, far := newSet(m.side(10, 0, 1e6, 0.2, 0.02)), newSet(m.side(10, 1, 1e6, 0.2, 0.02))
	report, err := Diff(near, far, o)
	require.NoError(t, err)
	require.Equal(t, ThresholdTests{Tests: 1, StatesApart: 1}, report.Thresholds)
	// With one launch each, they do.
	for _, s := range []*set.Set{near, far} {
		for i := range s.Cells[0].Windows {
			s.Cells[0].Windows[i].Launch, s.Cells[0].Windows[i].DistanceBefore,
				s.Cells[0].Windows[i].DistanceAfter = 1, 0, 0
		}
	}
	report, err = Diff(near, far, o)
	require.NoError(t, err)
	require.Equal(t, ThresholdTests{Tests: 1, TooLittle: 1, Needed: 4}, report.Thresholds)
}

// A floor that was raised, for a machine that cannot see small changes, calls none of them SAME.
func TestRaisedFloorDoesNotWidenSame(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 1))
	equal, changed := newSet(cell(nil, noisy(r, 10, 1e6, 0.005)...)),
		newSet(cell(nil, noisy(r, 10, 1.07e6, 0.005)...))
	same := newSet(cell(nil, noisy(r, 10, 1e6, 0.005)...))
	o := Defaults()
	require.Equal(t, Better, one(t, equal, changed, o).Verdict)
	o.Floor = 0.1
	c := one(t, equal, changed, o)
	require.Equal(t, Ambiguous, c.Verdict)
	require.Less(t, *c.High, o.Floor, "within the floor")
	require.False(t, c.TooLittle)
	require.Equal(t, Same, one(t, equal, same, o).Verdict)
	report, err := Diff(equal, changed, o)
	require.NoError(t, err)
	require.Equal(t, []float64{0.1, 0.02}, []float64{report.Floor, report.Same})

	two := newSet(equal.Cells[0], changed.Cells[0])
	two.Cells[0].Config["transport"] = "tcpx"
	ranking, err := Along(two, "transport", o)
	require.NoError(t, err)
	require.Equal(t, []float64{0.1, 0.02}, []float64{ranking.Floor, ranking.Same})
	require.Equal(t, Ambiguous, ranking.Groups[0].Pairs[0].Verdict)

	// A clock step above the margin may hide a change that counts.
	o.Metrics = []string{result.LatencyP50}
	for i, s := range []*set.Set{equal, same} {
		s.Cells[0].Config["transport"], s.Cells[0].ClockStep = "shm", 4e4
		s.Cells[0].Samples = map[string][]float64{
			result.LatencyP50: noisy(rand.New(rand.NewPCG(28, uint64(i))), 10, 1e6, 0.005)}
	}
	require.Equal(t, Ambiguous, one(t, equal, same, o).Verdict)

	o = Options{Alpha: 0.05, Floor: 0.1, Metrics: DefaultMetrics}
	require.Equal(t, 0.1, o.same(), "without a margin of its own")
	o.Same = 0.2
	require.Equal(t, 0.1, o.same())
}

// The interval of each change is at the level of its test, so it excludes the limits exactly where
// the verdict says so. Intervals at 95% would exclude them more often.
func TestIntervalsBelongToTheVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	o := Defaults()
	more := 0
	for range 60 {
		old, new := newSet(), newSet()
		for i := range 12 {
			config := map[string]string{"in_flight": fmt.Sprint(i + 1)}
			n := 6 + r.IntN(10)
			old.Cells = append(old.Cells, cell(config, noisy(r, n, 1e6, 0.02)...))
			new.Cells = append(new.Cells,
				cell(config, noisy(r, n, 1e6*(1+0.05*r.NormFloat64()), 0.02)...))
		}
		report, err := Diff(old, new, o)
		require.NoError(t, err)
		for _, c := range report.Changes {
			excludes := c.Low != nil && (*c.Low > o.Floor || *c.High < -o.Floor)
			require.Equal(t, c.Verdict == Better || c.Verdict == Worse, excludes, "%s %v %v %v",
				c.Verdict, *c.Low, *c.High, *c.PHolm)
			if _, low, high := ranktest.Shift(c.blocks, o.Alpha); !excludes &&
				(low > 1+o.Floor || high < 1-o.Floor) {
				more++
			}
			require.LessOrEqual(t, (*c.High-*c.Low)/2, report.Precision(&c))
		}
	}
	require.NotZero(t, more)
}

// Of five equal transports, some are told apart in at most alpha of the simulations, also if each
// drew other states. Choosing the best from the data and adjusting for the tests of the others
// against it alone errs more often.
func TestEqualTransportsAreNotToldApart(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(23, 1)), start: time.Unix(0, 0)}
	o := Defaults()
	o.Floor = 0
	const trials = 1200
	for name, far := range map[string][]float64{"one state": {0, 0, 0, 0, 0},
		"states drawn 20% and 80%": {0.2, 0.8, 0.2, 0.8, 0.2}} {
		wrong, wrongBest := 0, 0
		for range trials {
			s := newSet()
			for i, share := range far {
				c := m.side(10, share, 1e6, 0.2, 0.02)
				c.Config["transport"] = fmt.Sprint("t", i)
				s.Cells = append(s.Cells, c)
			}
			ranking, err := Along(s, "transport", o)
			require.NoError(t, err)
			group := ranking.Groups[0]
			if slices.ContainsFunc(group.changes,
				func(c Change) bool { return c.Verdict == Better || c.Verdict == Worse }) {
				wrong++
			}
			told := slices.ContainsFunc(group.List,
				func(c Candidate) bool { return strings.Trim(c.Group, "a") != "" })
			require.Equal(t, told, slices.ContainsFunc(group.changes,
				func(c Change) bool { return c.Verdict != Ambiguous }))
			var p []float64
			for _, c := range group.changes[:len(far)-1] {
				if c.P != nil {
					p = append(p, *c.P)
				}
			}
			if adjusted, _ := ranktest.Holm(p, o.Alpha); len(p) > 0 &&
				slices.Min(adjusted) < o.Alpha {
				wrongBest++
			}
		}
		t.Logf("%s: %d of %d wrong over all pairs (%.1f%%), %d against the best alone (%.1f%%)",
			name, wrong, trials,
			100*float64(wrong)/trials, wrongBest, 100*float64(wrongBest)/trials)
		require.LessOrEqual(t, float64(wrong), maxErrors(o.Alpha, trials))
		if far[0] == 0 {
			require.Greater(t, float64(wrongBest), maxErrors(o.Alpha, trials))
		}
	}
}

// BenchmarkAlongTwentyValues compares all pairs of 20 values in 20 groups.
func BenchmarkAlongTwentyValues(b *testing.B) {
	r := rand.New(rand.NewPCG(25, 1))
	s := newSet()
	for group := range 20 {
		for value := range 20 {
			c := cell(map[string]string{"in_flight": fmt.Sprint(group),
				"options.ring": fmt.Sprint(value)}, noisy(r, 10, 1e6+1e4*float64(value), 0.02)...)
			c.Samples[result.LatencyP50] = []float64{10, 10, 11, 12, 12, 13, 13, 14, 15, 15}
			s.Cells = append(s.Cells, c)
		}
	}
	for b.Loop() {
		_, err := Along(s, "ring", Defaults())
		require.NoError(b, err)
	}
}
