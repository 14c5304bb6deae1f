package calibration

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// synthetic makes experiments whose truth is known, on a machine that is near or far.
type synthetic struct {
	*rand.Rand
	start time.Time
	// spread is the standard deviation of the log of an operation's time from launch to launch.
	spread float64
	// far is the probability that a window is far, by cell; the last entry holds for the others.
	far []float64
}

func newSynthetic(seed uint64, spread float64, far ...float64) *synthetic {
	return &synthetic{rand.New(rand.NewPCG(seed, 1)), time.Unix(1_700_000_000, 0).UTC(),
		spread, far}
}

// experiment measures rounds of one window of a cell for each known quantity. operation returns the
// samples of a window from the time of an operation without anything injected.
func (s *synthetic) experiment(name string, known []float64, rounds int,
	operation func(cell int, ns float64) map[string]float64) Experiment {
	e := Experiment{Name: name, Known: known, Set: set.New()}
	e.Set.Environments = []set.Environment{{Identity: map[string]string{"cpu": "some"},
		Volatile: map[string]string{}}}
	for range known {
		e.Set.Cells = append(e.Set.Cells, set.Cell{
			Config: map[string]string{"transport": "calibration", "profile": "echo",
				"in_flight": "1"},
			Status: set.Measured, Plugin: set.Plugin{Name: "calibration", RuntimeDigest: "d"},
			Samples: map[string][]float64{},
		})
	}
	for round := range rounds {
		for i := range known {
			ns, distance := 100.0, 50.0
			if s.Float64() < s.far[min(i, len(s.far)-1)] {
				ns, distance = 250, 200
			}
			s.start = s.start.Add(100 * time.Millisecond)
			c := &e.Set.Cells[i]
			c.Windows = append(c.Windows, set.Window{StartedAt: s.start, Launch: round,
				DistanceBefore: distance, DistanceAfter: distance})
			for metric, value := range operation(i, ns*math.Exp(s.spread*s.NormFloat64())) {
				c.Samples[metric] = append(c.Samples[metric], value)
			}
		}
	}
	return e
}

// closedLoop returns the samples of one call in flight that takes a constant time.
func closedLoop(ns float64) map[string]float64 {
	return map[string]float64{
		result.Throughput: 1e9 / ns, result.LatencyP50: ns, result.LatencyP99: 1.5 * ns,
		result.LatencyMean: ns,
	}
}

func concluded(t *testing.T, experiments ...Experiment) *Document {
	t.Helper()
	d := &Document{Alpha: 0.05, Experiments: experiments}
	require.NoError(t, Conclude(d))
	return d
}

func rowOf(t *testing.T, d *Document, quantity string, known float64) Recovery {
	t.Helper()
	for _, r := range d.Recovery {
		if r.Quantity == quantity && math.Abs(r.Known-known) <= 1e-9*math.Abs(known) {
			return r
		}
	}
	require.Failf(t, "no row", "%s of %g in %+v", quantity, known, d.Recovery)
	return Recovery{}
}

func TestBinomial(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{ // from sums of the binomial distribution
		{0, 10, 0, 0.3084971078}, {10, 10, 0.6915028922, 1}, {5, 10, 0.1870860284, 0.8129139716},
		{8, 200, 0.0174248090, 0.0772919682}, {27, 30, 0.7347115495, 0.9788828630},
		{1, 1, 0.025, 1},
	} {
		got := binomial(c.k, c.n)
		require.InDelta(t, float64(c.k)/float64(c.n), got.Value, 1e-12)
		require.InDelta(t, c.low, *got.Low, 1e-9, "%d of %d", c.k, c.n)
		require.InDelta(t, c.high, *got.High, 1e-9, "%d of %d", c.k, c.n)
	}
}

// The windows without a delay are mostly far and those with one mostly near, so that medians over
// all windows would be 150 ns off. Recovery within the states is not, and its intervals cover the
// truth.
func TestRecoveryOfDelays(t *testing.T) {
	known := []float64{0, 10, 50, 200, 500, 1000}
	covered, count, bias := 0, 0, 0.0
	for seed := range uint64(40) {
		s := newSynthetic(seed, 0.1, 0.8, 0.3)
		d := concluded(t, s.experiment(ExperimentDelay, known, 100,
			func(cell int, ns float64) map[string]float64 {
				return closedLoop(ns + known[cell])
			}))
		require.Len(t, d.Recovery, 5)
		for _, delay := range known[1:] {
			r := rowOf(t, d, quantityDelayed, delay)
			require.Zero(t, r.Tolerance, "a pause costs more than its time")
			require.False(t, r.Within)
			require.InDelta(t, delay, r.Measured.Value, 40)
			bias += r.Bias().Value
			if count++; *r.Bias().Low <= 0 && *r.Bias().High >= 0 {
				covered++
			}
		}
	}
	require.InDelta(t, 0, bias/float64(count), 1.5)
	require.GreaterOrEqual(t, float64(covered), 0.9*float64(count))
}

// Each window has calls of which half are delayed. A call after a delayed one takes 100 ns longer,
// which moves the median by more than the delay.
func TestRecoveryOfHalves(t *testing.T) {
	known := []float64{200, 1000, 100_000}
	s := newSynthetic(4, 0.1, 0.5)
	d := concluded(t, s.experiment(ExperimentHalf, known, 20,
		func(cell int, ns float64) map[string]float64 {
			calls, after := make([]float64, 4000), 0.0
			for i := range calls {
				calls[i] = ns + after + 5*s.NormFloat64()
				if after = 0; s.IntN(2) == 0 {
					calls[i] += known[cell]
					after = 100
				}
			}
			return map[string]float64{LowerQuartile: quantile(calls, 0.25),
				UpperQuartile: quantile(calls, 0.75)}
		}))
	require.Len(t, d.Recovery, len(known))
	for _, delay := range known {
		r := rowOf(t, d, quantityDelay, delay)
		require.True(t, r.Within, "%+v", r)
		require.Positive(t, r.Tolerance)
	}
}

func TestTolerance(t *testing.T) {
	require.Zero(t, tolerance(199))
	require.InDelta(t, 10, tolerance(200), 1e-9)
	require.InDelta(t, 30, tolerance(1000), 1e-9)
	off := Recovery{Known: 1000, Measured: Estimate{1031, new(1020.0), new(1040.0)},
		Tolerance: tolerance(1000)}
	require.False(t, off.judged().Within)
	off.Measured.Value = 1029
	require.True(t, off.judged().Within)
	off.Measured.Low, off.Measured.High = nil, nil
	require.False(t, off.judged().Within, "too few windows for an interval")
	wide := Recovery{Known: 200, Measured: Estimate{201, new(100.0), new(202.0)},
		Tolerance: tolerance(200)}.judged()
	require.False(t, wide.Within, "the interval is wider than the tolerance")
	require.False(t, wide.Beyond())
}

// Each window has calls drawn from the distribution, so the theory of the rows is checked too.
func TestRecoveryOfDistributions(t *testing.T) {
	s := newSynthetic(3, 0.02, 0.5)
	window := func(delay func() float64) func(cell int, ns float64) map[string]float64 {
		return func(cell int, ns float64) map[string]float64 {
			if cell == 0 {
				return closedLoop(ns)
			}
			calls, sum := make([]float64, 20_000), 0.0
			for i := range calls {
				calls[i] = ns + delay()
				sum += calls[i]
			}
			return map[string]float64{
				result.Throughput:  1e9 * float64(len(calls)) / sum,
				result.LatencyMean: sum / float64(len(calls)),
				result.LatencyP50:  quantile(calls, 0.5), result.LatencyP99: quantile(calls, 0.99),
			}
		}
	}
	exponential := s.experiment(ExperimentExponential, []float64{0, 10_000}, 10,
		window(func() float64 { return 10_000 * s.ExpFloat64() }))
	bimodal := s.experiment(ExperimentBimodal, []float64{0, 2000}, 10, window(func() float64 {
		if s.IntN(20) == 0 {
			return 50_000
		}
		return 2000
	}))
	bimodal.Set.Cells[1].Config["options.slow-delay"] = "50us"
	d := concluded(t, exponential, bimodal)
	require.Len(t, d.Recovery, 5)
	for quantity, known := range map[string]float64{
		"exponential delay: mean": 10_000, "exponential delay: p50": 10_000 * math.Ln2,
		"exponential delay: p99": 10_000 * math.Log(100), "bimodal delay: p50": 2000,
		"bimodal delay: p99": 50_000,
	} {
		r := rowOf(t, d, quantity, known)
		require.InEpsilon(t, known, r.Measured.Value, 0.03, quantity)
		require.Zero(t, r.Tolerance, "a pause costs more than its time")
	}
}

func quantile(values []float64, q float64) float64 {
	sorted := append([]float64{}, values...)
	slices.Sort(sorted)
	return sorted[int(q*float64(len(sorted)))]
}

// The open loop is simulated arrival by arrival: one server that stands still for 74 ms each second
// and else needs 250 ns a call.
func TestRecoveryOfStalls(t *testing.T) {
	const stall, every, service = 74e6, 1e9, 250.0
	s := newSynthetic(5, 0.02, 0)
	e := s.experiment(ExperimentStall, []float64{0, stall, stall}, 6,
		func(cell int, _ float64) map[string]float64 {
			const ns = 400.0
			if cell < 2 {
				m := closedLoop(ns)
				m[result.LatencyMax] = float64(cell)*stall + ns
				return m
			}
			var responses []float64
			free := 0.0
			for at := 0.0; at < 2e9; at += 50_000 * s.ExpFloat64() {
				begin := max(at, free)
				if in := math.Mod(begin, every); in >= 500e6 && in < 500e6+stall {
					begin += 500e6 + stall - in
				}
				free = begin + service
				responses = append(responses, free-at)
			}
			m := closedLoop(ns)
			m[result.ResponseP99], m[result.ResponseMax] = quantile(responses, 0.99),
				slices.Max(responses)
			return m
		})
	for i := range e.Set.Cells {
		e.Set.Cells[i].Config["options.stall-every"] = "1s"
	}
	e.Set.Cells[2].Config["rate"] = "20000"
	d := concluded(t, e)
	require.Len(t, d.Recovery, 4)
	for quantity, known := range map[string]float64{
		"stall: max, closed loop": stall, "stall: max, open loop": stall,
		"stall: p99, open loop": 64e6,
	} {
		require.True(t, rowOf(t, d, quantity, known).Within, quantity)
	}
	p99 := rowOf(t, d, "stall: p99, closed loop", 600)
	require.InEpsilon(t, 600, p99.Measured.Value, 0.1, "that without stalls")
	require.Zero(t, p99.Tolerance)
}

func TestRecoveryOfRates(t *testing.T) {
	s := newSynthetic(6, 0.001, 0)
	rates := []float64{10_000, 100_000, 1_000_000}
	d := concluded(t, s.experiment(ExperimentRate, rates, 10,
		func(cell int, ns float64) map[string]float64 {
			rate := rates[cell] * ns / 100
			if cell == 2 {
				rate *= 0.98
			}
			return map[string]float64{result.Throughput: rate}
		}))
	require.True(t, rowOf(t, d, "rate", 10_000).Within)
	require.True(t, rowOf(t, d, "rate", 100_000).Within)
	require.False(t, rowOf(t, d, "rate", 1_000_000).Within, "it is 2% too low")
}

func TestObserver(t *testing.T) {
	s := newSynthetic(8, 0.05, 0.6, 0.4)
	e := s.experiment(ExperimentObserver, []float64{0, 1, 16}, 40,
		func(cell int, ns float64) map[string]float64 {
			return closedLoop(ns * []float64{1, 1.25, 1.01}[cell])
		})
	for i, every := range []int{1 << 30, 1, 16} {
		e.Set.Cells[i].Config["sample_every"] = strconv.Itoa(every)
	}
	d := concluded(t, e)
	require.Len(t, d.Observer, 2)
	require.Equal(t, 1, d.Observer[0].SampleEvery)
	require.Equal(t, 1, d.Observer[0].InFlight)
	require.InDelta(t, -0.2, d.Observer[0].Change.Value, 0.03)
	require.Less(t, *d.Observer[0].Change.High, -0.1)
	require.InDelta(t, -0.01, d.Observer[1].Change.Value, 0.03)
	require.Less(t, *d.Observer[1].Change.Low, *d.Observer[1].Change.High)
}

func TestResolution(t *testing.T) {
	known := []float64{0, 10, 20, 50, 100, 200, 500}
	s := newSynthetic(9, 0.1, 0.5)
	r := concluded(t, s.experiment(ExperimentDelay, known, 100,
		func(cell int, ns float64) map[string]float64 {
			return closedLoop(ns + known[cell])
		})).Resolution
	require.Len(t, r.Trials, 6)
	require.Equal(t, 10, r.Trials[0].Count)
	require.Less(t, r.Trials[0].Found, 9, "10 ns are as much as the spread")
	require.Equal(t, 10, r.Trials[5].Found)
	require.GreaterOrEqual(t, r.Delay, 50.0)
	require.LessOrEqual(t, r.Delay, 200.0)
	for _, trial := range r.Trials {
		if trial.Known >= r.Delay {
			require.GreaterOrEqual(t, trial.Share.Value, 0.9)
		}
	}
}

// Equal cells are reported as different about as often as alpha says, although the state changes at
// random. Of 200 comparisons 20 would be wholly above 5%.
func TestFalseVerdicts(t *testing.T) {
	s := newSynthetic(10, 0.13, 0.5)
	d := concluded(t, s.experiment(ExperimentSelf, []float64{0, 0, 0}, 2000,
		func(_ int, ns float64) map[string]float64 {
			m := closedLoop(ns)
			m[result.LatencyP99] *= math.Exp(0.3 * s.NormFloat64())
			return m
		}))
	require.Len(t, d.FalseVerdicts, 3)
	for _, f := range d.FalseVerdicts {
		t.Logf("%+v", f)
		require.Equal(t, 200, f.Comparisons, f.Method)
		require.Positive(t, f.Tests, f.Method)
		require.True(t, f.Within, "%s: %d false", f.Method, f.False)
		require.LessOrEqual(t, f.Beyond, f.False, f.Method)
		require.Less(t, *f.Share.High, 0.15, f.Method)
	}
}

// Comparisons of diff use each part once, and there are as many as blocks.
func TestDiffPairs(t *testing.T) {
	for _, blocks := range []int{2, 6, 200} {
		parts := map[part]bool{}
		for n := range blocks {
			a, b, ok := diffPair(n, blocks, 3)
			require.True(t, ok)
			require.Less(t, a.block, b.block)
			parts[a], parts[b] = true, true
		}
		require.Len(t, parts, 2*blocks)
	}
	_, _, ok := diffPair(0, 1, 3)
	require.False(t, ok)
	_, _, ok = diffPair(100, 200, 2)
	require.False(t, ok, "there is no third cell")
}

// ab looks after each round, and the width of the intervals ends it, which is small by luck now and
// then: with many looks, equal cells are told apart more often than alpha, but not called
// different.
func TestFalseVerdictsOfLongAB(t *testing.T) {
	const comparisons, maxRepeats = 400, 60
	s := newSynthetic(15, 0.015, 0)
	e := s.experiment(ExperimentSelf, []float64{0, 0}, comparisons*maxRepeats,
		func(_ int, ns float64) map[string]float64 { return closedLoop(ns) })
	rule := abRule
	rule.MaxRepeats = maxRepeats
	called := compare.Defaults()
	called.Metrics = []string{result.Throughput}
	told := called
	told.Floor = 0
	foundTold, foundCalled := 0, 0
	for n := range comparisons {
		one, _, err := e.ab(rule, n*maxRepeats, told)
		require.NoError(t, err)
		if one.any {
			foundTold++
		}
		one, _, err = e.ab(rule, n*maxRepeats, called)
		require.NoError(t, err)
		if one.any {
			foundCalled++
		}
	}
	t.Logf("%d told apart, %d called different", foundTold, foundCalled)
	require.LessOrEqual(t, float64(foundTold)/comparisons, 2*called.Alpha)
	require.LessOrEqual(t, float64(foundCalled)/comparisons, called.Alpha)
}

// A machine that gets 10% slower between the halves makes diff see a difference in most
// comparisons, and ab and along in few, because they compare what was measured in turns. With a
// minimum effect of about the drift, diff sees it in few, too.
func TestDrift(t *testing.T) {
	s, window := newSynthetic(15, 0.02, 0), 0
	d := concluded(t, s.experiment(ExperimentSelf, []float64{0, 0, 0}, 2000,
		func(_ int, ns float64) map[string]float64 {
			if window++; window > 3*1000 {
				ns *= 1.1
			}
			return closedLoop(ns)
		}))
	for _, f := range d.FalseVerdicts {
		require.Equal(t, f.Method != "diff", f.Within, "%+v", f)
	}
	require.NotNil(t, d.Drift)
	require.InDelta(t, 0.1, d.Drift.Limit, 0.03)
	require.Equal(t, 200, d.Drift.Comparisons)
	require.InDelta(t, 300, d.Drift.ApartS, 60)

	verdicts := 0
	for block := range 200 {
		o := compare.Defaults()
		o.Floor = d.Drift.Limit
		found, ok, err := d.experiment(ExperimentSelf).selfDiff(block, o)
		require.NoError(t, err)
		require.True(t, ok)
		if found.any {
			verdicts++
		}
	}
	require.LessOrEqual(t, verdicts, 10)
	lines := d.Summary()
	require.Contains(t, lines[len(lines)-1], "5 minutes apart, the machine drifts: with a minimum "+
		"effect of "+format.Share(d.Drift.Limit)+", at most 5% have a verdict")
}

// Cells that differ are found, so a false verdict would be counted: by diff, along and ab alike.
func TestFalseVerdictsOfDifferentCells(t *testing.T) {
	s := newSynthetic(11, 0.05, 0)
	d := concluded(t, s.experiment(ExperimentSelf, []float64{0, 0, 0}, 200,
		func(cell int, ns float64) map[string]float64 {
			return closedLoop(ns * (1 + 0.3*float64(cell)))
		}))
	require.Len(t, d.FalseVerdicts, 3)
	for _, f := range d.FalseVerdicts {
		require.Equal(t, 20, f.Comparisons, f.Method)
		require.Equal(t, 20, f.False, f.Method)
		require.Equal(t, 20, f.Beyond, f.Method)
		require.False(t, f.Within, f.Method)
	}
}

// powers returns an experiment of the power with a spread of the operation's time.
func powers(s *synthetic, name string, rounds int) Experiment {
	known := []float64{0, 0.01, 0.02, 0.05, 0.1}
	e := s.experiment(name, known, rounds, func(cell int, ns float64) map[string]float64 {
		return closedLoop(ns * (1 + known[cell]))
	})
	for i := range e.Set.Cells {
		e.Set.Cells[i].Config["options.delay"] = "0s"
	}
	return e
}

func TestPower(t *testing.T) {
	s := newSynthetic(12, 0.03, 0.5)
	loaded := powers(s, ExperimentMemoryLoaded, 200)
	loaded.Loaded = true
	d := concluded(t, powers(s, ExperimentMemory, 600), loaded)
	require.Len(t, d.Power, 4)
	ten, twenty := d.Power[0], d.Power[1]
	require.Equal(t, []int{10, 20, 60, 30}, []int{ten.Repeats, twenty.Repeats, ten.Trials[0].Count,
		twenty.Trials[0].Count})
	require.Equal(t, "echo, 1 in flight", ten.Load)
	require.True(t, d.Power[2].Loaded && d.Power[3].Loaded)
	require.Equal(t, "memory", ten.Class)
	require.InDelta(t, 0.05, ten.Trials[2].Known, 0.01, "as all rounds measured it")
	require.NotEqual(t, 0.05, ten.Trials[2].Known)
	require.Equal(t, 0.05, ten.Trials[2].Sought)
	found := 0
	for i := range ten.Trials {
		require.GreaterOrEqual(t, twenty.Trials[i].Share.Value+0.1, ten.Trials[i].Share.Value,
			"more repeats find more")
		require.LessOrEqual(t, twenty.Trials[i].Wrong, 1)
		require.LessOrEqual(t, twenty.Trials[i].Beyond, twenty.Trials[i].Found)
		if twenty.Trials[i].Share.Value > ten.Trials[i].Share.Value {
			found++
		}
	}
	require.Positive(t, found)
	require.Less(t, twenty.Trials[1].Beyond, twenty.Trials[1].Found,
		"2% is the minimum effect")
	require.Equal(t, 30, twenty.Trials[3].Beyond, "10% is clearly above it")
	require.Less(t, twenty.Trials[0].Share.Value, 0.5)
	require.InDelta(t, 1, twenty.Trials[3].Share.Value, 0.1)
	burn := rowOf(t, d, "added time, memory", 0.05)
	require.InDelta(t, 0.05, burn.Measured.Value, 0.01)
	require.Less(t, *burn.Measured.Low, *burn.Measured.High)
	rowOf(t, d, "added time, memory, loaded", 0.05)
}

func TestMinEffect(t *testing.T) {
	trials := func(found ...int) []Trials {
		var list []Trials
		for i, n := range found {
			list = append(list, Trials{Known: []float64{0.01, 0.02, 0.05, 0.1}[i], Count: 30,
				Found: n, Share: binomial(n, 30)})
		}
		return list
	}
	d := &Document{Power: []Power{
		{Class: "memory", Repeats: 20, Trials: trials(3, 28, 30, 30)},
		// 1% is luck: 2% was not found
		{Class: "memory", Repeats: 10, Trials: trials(27, 20, 28, 30)},
		{Class: "memory", Repeats: 10, Loaded: true, Trials: trials(30, 30, 30, 30)},
	}}
	for repeats, want := range map[int]string{
		5: "5%, found in 28 of 30 trials of memory with 10 repeats, not measured below " +
			"10 repeats",
		10:  "5%, found in 28 of 30 trials of memory with 10 repeats",
		19:  "5%, found in 28 of 30 trials of memory with 10 repeats",
		20:  "2%, found in 28 of 30 trials of memory with 20 repeats",
		100: "2%, found in 28 of 30 trials of memory with 20 repeats",
	} {
		effect, ok := d.MinEffect("", repeats)
		require.True(t, ok)
		require.Equal(t, want, effect.String(), "%d repeats", repeats)
	}

	few := &Document{Power: []Power{{Class: "memory", Repeats: 20, Trials: trials(0, 1, 2, 26)},
		{Class: "memory", Repeats: 10, Trials: trials(0, 1, 2, 3)}}}
	effect, ok := few.MinEffect("", 5)
	require.True(t, ok)
	require.Equal(t, "10%, the largest change tried, and not even that was found in 90% of the "+
		"trials of memory with 10 repeats, not measured below 10 repeats", effect.String())
	effect, _ = few.MinEffect("", 100)
	require.Equal(t, "10%, the largest change tried, and not even that was found in 90% of the "+
		"trials of memory with 20 repeats", effect.String())
	few.Power[0].Trials = trials(0, 1, 2, 27)
	effect, _ = few.MinEffect("", 20)
	require.Equal(t, "10%, found in 27 of 30 trials of memory with 20 repeats", effect.String(),
		"the trials that found it decide")
	few.Power[1].Trials = trials(0, 1, 2, 28)
	effect, _ = few.MinEffect("", 20)
	require.Equal(t, 20, effect.Repeats, "of equal changes")

	d.Power = append(d.Power, Power{Class: "sockets", Repeats: 20, Trials: trials(3, 3, 3, 30)})
	effect, _ = d.MinEffect("", 20)
	require.Equal(t, "10%, found in 30 of 30 trials of sockets with 20 repeats", effect.String(),
		"the class that shows least")
	effect, _ = d.MinEffect(classMemory, 20)
	require.Equal(t, "2%, found in 28 of 30 trials of memory with 20 repeats", effect.String())
	effect, _ = d.MinEffect("another", 20)
	require.Equal(t, classSockets, effect.Class, "no trials of that class")
	padded := &Document{Power: []Power{{Repeats: 20, Trials: trials(30, 30, 30, 30)}}}
	_, ok = padded.MinEffect("", 20)
	require.False(t, ok, "of padded operations")

	d.Quick = true
	_, ok = d.MinEffect("", 20)
	require.False(t, ok)
	_, ok = new(Document).MinEffect("", 20)
	require.False(t, ok)
}

// A quick calibration leaves out what it cannot bound.
func TestConcludeQuick(t *testing.T) {
	s := newSynthetic(13, 0.01, 0)
	delays := s.experiment(ExperimentHalf, []float64{1000}, 3,
		func(_ int, ns float64) map[string]float64 {
			return map[string]float64{LowerQuartile: ns, UpperQuartile: ns + 1000}
		})
	short := s.experiment(ExperimentDelay, []float64{0, 500}, 10,
		func(cell int, ns float64) map[string]float64 {
			return closedLoop(ns + 500*float64(cell))
		})
	self := s.experiment(ExperimentSelf, []float64{0, 0, 0}, 60,
		func(_ int, ns float64) map[string]float64 { return closedLoop(ns) })
	power := powers(s, ExperimentMemory, 10)
	d := concluded(t, delays, short, self, power)
	r := rowOf(t, d, quantityDelay, 1000)
	require.Nil(t, r.Measured.Low)
	require.Nil(t, r.Bias().High)
	require.False(t, r.Within)
	require.Equal(t, 1, d.Resolution.Trials[0].Count)
	require.Zero(t, d.Resolution.Delay, "one trial shows nothing")
	for _, f := range d.FalseVerdicts {
		require.Equal(t, 6, f.Comparisons)
		require.False(t, f.Within, "six comparisons bound nothing")
	}
	require.Len(t, d.Power, 1)
	_, ok := d.MinEffect("", 20)
	require.False(t, ok)

	empty := concluded(t)
	require.Empty(t, empty.Recovery)
	require.NotNil(t, empty.Recovery, "the document has lists")
	require.Empty(t, empty.FalseVerdicts)
}

func TestConcludeRefuses(t *testing.T) {
	s := newSynthetic(14, 0.01, 0)
	sound := func() Experiment {
		return s.experiment(ExperimentDelay, []float64{0, 500}, 20,
			func(_ int, ns float64) map[string]float64 { return closedLoop(ns) })
	}
	e := sound()
	e.Set.Cells[1].Samples[result.LatencyP50][3] = math.NaN()
	require.ErrorContains(t, Conclude(&Document{Alpha: 0.05, Experiments: []Experiment{e}}),
		`metric "latency_p50" is not finite`)
	e = sound()
	e.Known = e.Known[:1]
	require.ErrorContains(t, Conclude(&Document{Alpha: 0.05, Experiments: []Experiment{e}}),
		"known has 1 values for 2 cells")
	e = sound()
	e.Set.Cells[1].Windows = nil
	require.ErrorContains(t, Conclude(&Document{Alpha: 0.05, Experiments: []Experiment{e}}),
		"cells[1] has 0 windows")
	e.Set = nil
	require.Error(t, Conclude(&Document{Alpha: 0.05, Experiments: []Experiment{e}}))

	// Experiments without cells, and cells without what a conclusion needs, are no error.
	for _, name := range []string{
		ExperimentDelay, ExperimentHalf, ExperimentExponential, ExperimentBimodal, ExperimentRate,
		ExperimentStall,
		ExperimentObserver, ExperimentSelf, ExperimentMemory, ExperimentClients,
	} {
		for _, known := range [][]float64{nil, {0, 500, 1000}} {
			d := concluded(t, s.experiment(name, known, 30, func(int, float64) map[string]float64 {
				return map[string]float64{result.Steal: 0}
			}))
			require.Empty(t, d.Recovery, name)
			require.Empty(t, d.Observer, name)
			require.Empty(t, d.Power, name)
			require.Empty(t, d.FalseVerdicts, name)
		}
	}
}

// The summary's figures are those of the conclusions.
func TestSummary(t *testing.T) {
	require.Empty(t, new(Document).Summary())
	d := &Document{
		Alpha: 0.05,
		Recovery: []Recovery{
			// nothing is promised
			{Quantity: quantityDelay, Known: 20, Measured: Estimate{40, new(1.0), new(50.0)}},
			{Quantity: quantityDelay, Known: 200, Measured: Estimate{208, new(200.0), new(220.0)},
				Tolerance: 10, Within: true},
			{Quantity: quantityDelay, Known: 1e6, Measured: Estimate{1.05e6, new(1e6), new(1.1e6)},
				Tolerance: 30e3},
			{Quantity: quantityDelayed, Known: 20, Measured: Estimate{Value: 70}},
			{Quantity: quantityDelayed, Known: 50, Measured: Estimate{Value: 47}},
			{Quantity: "rate", Known: 10, Measured: Estimate{Value: 20}, Tolerance: 1},
		},
		FalseVerdicts: []FalseVerdicts{
			{Method: "diff", Comparisons: 200, False: 8, Share: binomial(8, 200)},
			{Method: "ab", Comparisons: 200, False: 3, Share: binomial(3, 200)}},
		Power: []Power{
			{Class: "memory", Repeats: 10, Trials: []Trials{
				{Known: 0.05, Count: 60, Found: 1, Share: binomial(1, 60)}}},
			{Class: "memory", Repeats: 20, Trials: []Trials{
				{Known: 0.02, Count: 30, Found: 2, Share: binomial(2, 30)},
				{Known: 0.049, Count: 30, Found: 27, Wrong: 1, Beyond: 11, Share: binomial(27, 30)},
			}},
			{Class: "memory", Repeats: 40, Loaded: true, Trials: []Trials{{Known: 0.05, Count: 1}}},
		},
		Resolution: Resolution{Repeats: 10, Delay: 100, FoundShare: 0.9,
			Trials: []Trials{{Known: 100, Count: 10, Found: 10, Share: binomial(10, 10)}}},
	}
	require.Equal(t, []string{
		"injected delays of 200 ns or more in half of the calls: 1 of 2 measured within 3% or 10 " +
			"ns; the largest error is 5% (of 1.00 ms)",
		"injected delays of every call, between two configurations: off by -3 to +50 ns",
		"the smallest delay that 10 repeats detect: 100 ns (in 10 of 10 trials, 69.2 to 100%)",
		"equal configurations in turns (ab): 3 of 200 differ (0.31 to 4.32%); by chance, 5% may " +
			"(alpha)",
		"one configuration at two times, without a control (diff): 8 of 200 differ (1.74 to " +
			"7.73%)",
		"operations over memory slower by 4.9%, 20 repeats in turns (ab): detected in 27 of 30 " +
			"trials (73.5 to 97.9%), called worse by more than 2% in 11",
	}, d.Summary())
	d.Recovery = []Recovery{{Quantity: quantityDelay, Known: 1e6, Measured: Estimate{Value: 1.05e6},
		Tolerance: 30e3}}
	d.Resolution.Delay = 0
	lines := d.Summary()
	require.Equal(t, "injected delays in half of the calls: the largest error is 5% (of 1.00 ms), "+
		"but too few windows bound it", lines[0])
	require.Equal(t, "no delay up to 100 ns is detected in 90% of the trials with 10 "+
		"repeats (the last in 10 of 10 trials, 69.2 to 100%)", lines[1])
	d.Resolution.Trials[0].Count = 1
	require.Equal(t, "1 trial with 10 repeats cannot show which delay is detectable",
		d.Summary()[1])
}
