package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const committed = "../../../../results/"

// The committed sets show two states: processors that share a cache, and processors that do not.
func TestStatesOfCommittedSets(t *testing.T) {
	var (
		s      *set.Set
		states state.Classifier
	)
	for _, version := range []string{"v0.2.0", "v0.3.0", "v0.4.0"} {
		var err error
		s, err = set.Load(committed + version + "/amd-epyc-2core-vm")
		require.NoError(t, err)
		states = state.NewClassifier(s)
		require.Equal(t, []string{"near", "far"}, states.Names(), version)
		require.Equal(t, "near", states.Of(set.Window{DistanceBefore: 100}), version)
		require.Equal(t, "far", states.Of(set.Window{DistanceBefore: 200}), version)
		count := map[string]int{}
		for i := range s.Cells {
			c := &s.Cells[i]
			for _, w := range c.Windows {
				count[states.Of(w)]++
				if c.Transport() == "erpc" || c.Transport() == "tcpx" {
					require.Equal(t, state.Unread, states.Of(w), "sockets had no distance in 1.x")
				}
			}
		}
		t.Log(version, states, count)
		require.Greater(t, count["near"], 5)
		require.Greater(t, count["far"], 5)
		require.Less(t, count[state.Mixed], 10)
	}
	i := slices.IndexFunc(s.Cells, func(c set.Cell) bool {
		return c.Transport() == "shm" &&
			c.Config["in_flight"] == "32"
	})
	medians := states.Medians(&s.Cells[i], result.Throughput)
	require.Len(t, medians, 2)
	require.Equal(t, 7, medians[0].Metric.N)
	require.Equal(t, 3, medians[1].Metric.N)
	require.Greater(t, medians[0].Metric.Median, 1.5*medians[1].Metric.Median)
	require.Nil(t, states.Medians(&s.Cells[0], "no_such_metric"))
}

// machineState draws windows of a machine that is near or far.
type machineState struct {
	r     *rand.Rand
	start time.Time
}

func (m *machineState) window(far bool) set.Window {
	distance := 50.0
	if far {
		distance = 300
	}
	m.start = m.start.Add(time.Second)
	return set.Window{StartedAt: m.start, Launch: int(m.start.Unix()), DistanceBefore: distance,
		DistanceAfter: distance * math.Exp(0.03*m.r.NormFloat64())}
}

// side draws n windows and values: each is far with a probability, and then jump times as large.
func (m *machineState) side(n int, far, centre, jump, spread float64) set.Cell {
	c := cell(nil)
	c.Samples[result.Throughput] = nil
	for range n {
		isFar := m.r.Float64() < far
		c.Windows = append(c.Windows, m.window(isFar))
		v := centre * math.Exp(spread*m.r.NormFloat64())
		if isFar {
			v *= jump
		}
		c.Samples[result.Throughput] = append(c.Samples[result.Throughput], v)
	}
	return c
}

// without returns a copy of a cell without windows, so that nothing is stratified.
func without(c set.Cell) set.Cell {
	c.Windows = nil
	return c
}

// A machine that jumps fivefold and a side that draws the far state more often: the stratified test
// is wrong in at most alpha of the trials, and the test without states nearly always.
func TestUnequallyDrawnStatesMakeNoDifference(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(3, 1)), start: time.Unix(0, 0)}
	o := Defaults()
	o.Floor = 0
	const trials = 600
	for _, n := range []int{10, 20} {
		wrong, wrongWithout := 0, 0
		for range trials {
			a, b := m.side(n, 0.2, 1e6, 0.2, 0.02), m.side(n, 0.8, 1e6, 0.2, 0.02)
			if v := one(t, newSet(a), newSet(b), o).Verdict; v == Better || v == Worse {
				wrong++
			}
			if v := one(t, newSet(without(a)), newSet(without(b)), o).Verdict; v == Better ||
				v == Worse {
				wrongWithout++
			}
		}
		t.Logf("%d repeats: %d of %d wrong within states, %d without", n, wrong, trials,
			wrongWithout)
		// alpha and three standard deviations of the count
		require.LessOrEqual(t, float64(wrong), 0.05*trials+3*math.Sqrt(0.05*0.95*trials))
		require.Greater(t, wrongWithout, trials/2)
	}
}

// A true shift of 5% under a fivefold jump of the state: the stratified test finds it nearly
// always, and the test without states less than half as often. The estimate is that of the shift.
func TestPowerWithinStates(t *testing.T) {
	o := Defaults()
	o.Floor = 0
	m := &machineState{r: rand.New(rand.NewPCG(4, 1)), start: time.Unix(0, 0)}
	const trials = 200
	found, foundWithout, inside := 0, 0, 0
	for range trials {
		a, b := m.side(10, 0.4, 1e6, 0.2, 0.02), m.side(10, 0.4, 1.05e6, 0.2, 0.02)
		c := one(t, newSet(a), newSet(b), o)
		if c.Verdict == Better {
			found++
		}
		if c.Low != nil && *c.Low <= 0.05 && 0.05 <= *c.High {
			inside++
		}
		if one(t, newSet(without(a)), newSet(without(b)), o).Verdict == Better {
			foundWithout++
		}
	}
	t.Logf("found %d of %d within states, %d without; the interval holds the shift in %d", found,
		trials, foundWithout, inside)
	require.Greater(t, found, trials*85/100)
	require.Less(t, foundWithout, trials/2)
	require.GreaterOrEqual(t, inside, trials*92/100)
}

// Interleaved sides are compared within about five rounds each, so a drift that is far larger than
// the change does not hide it.
func TestRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	start := time.Unix(0, 0)
	o := Defaults()
	o.Floor = 0
	found, foundWithout := 0, 0
	const trials = 60
	for range trials {
		a, b := cell(nil), cell(nil)
		a.Samples[result.Throughput], b.Samples[result.Throughput] = nil, nil
		for round := range 20 {
			for i, c := range []*set.Cell{&a, &b} {
				start = start.Add(time.Second)
				c.Windows = append(c.Windows, set.Window{StartedAt: start, Launch: round})
				v := 1e6 * math.Exp(0.015*float64(round)+0.03*float64(i)+0.01*r.NormFloat64())
				c.Samples[result.Throughput] = append(c.Samples[result.Throughput], v)
			}
		}
		within := newComparison(newSample(&a, result.Throughput), newSample(&b, result.Throughput),
			state.Classifier{})
		require.Len(t, within.blocks, 4)
		require.Len(t, within.blocks[0].A, roundsPerBlock)
		if one(t, newSet(a), newSet(b), o).Verdict == Better {
			found++
		}
		if one(t, newSet(without(a)), newSet(without(b)), o).Verdict == Better {
			foundWithout++
		}
	}
	t.Logf("found %d of %d within rounds, %d without", found, trials, foundWithout)
	require.Greater(t, found, foundWithout+trials/4)

	// Sides that were measured one after the other share no rounds.
	m := &machineState{r: r, start: start}
	a, b := m.side(10, 0, 1, 1, 0.01), m.side(10, 0, 1, 1, 0.01)
	require.False(t, shareRounds(newSample(&a, result.Throughput),
		newSample(&b, result.Throughput)))
	require.False(t, shareRounds(sample{}, sample{}))
}

func TestVerdictsNeedCommonStates(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(8, 1)), start: time.Unix(0, 0)}
	near, far := m.side(10, 0, 1e6, 0.2, 0.01), m.side(10, 1, 1e6, 0.2, 0.01)
	c := one(t, newSet(near), newSet(far), Defaults())
	require.Equal(t, Ambiguous, c.Verdict)
	require.Nil(t, c.P)
	require.InDelta(t, -0.8, *c.Change, 0.02)
	require.Equal(t,
		"no state of the machine in common: near 10 and 0 windows, far 0 and 10 windows", c.Note)
	require.False(t, c.TooLittle)
	require.True(t, c.StatesApart)

	// Nor is it a tie: neither has a letter.
	far.Config["transport"] = "erpc"
	ranking, err := Along(newSet(near, far), "transport", Defaults())
	require.NoError(t, err)
	require.True(t, ranking.Groups[0].StatesApart)
	require.Empty(t, ranking.Groups[0].List[0].Group+ranking.Groups[0].List[1].Group)
	far.Config["transport"] = near.Config["transport"]

	// One window in common decides nothing, and the note says so.
	near.Windows[0].DistanceBefore, near.Windows[0].DistanceAfter = 300, 300
	c = one(t, newSet(near), newSet(far), Defaults())
	require.Equal(t, Ambiguous, c.Verdict)
	require.Contains(t, c.Note,
		"only 1 of 10 and 10 of 10 windows are in states of the machine that both sides had")
	for i := range far.Windows {
		far.Windows[i].Launch = 0
	}
	report, err := Diff(newSet(near), newSet(far), Defaults())
	require.NoError(t, err)
	require.Equal(t, FewWindows, report.Seen.Why, "10 repeats a side are enough")

	// Without readings on one side nothing can be divided.
	c = one(t, newSet(without(near)), newSet(m.side(10, 0.5, 1e6, 0.2, 0.01)), Defaults())
	require.Empty(t, c.States)
	require.Equal(t, "not compared within states of the machine: no readings of them for old",
		c.Note)

	// Other machines have other states.
	other := newSet(m.side(10, 0.5, 1e6, 0.2, 0.01))
	other.Environments[0].Identity["cpu"] = "another"
	o := Defaults()
	o.Across = []string{"cpu"}
	report, err = Diff(newSet(m.side(10, 0.5, 1e6, 0.2, 0.01)), other, o)
	require.NoError(t, err)
	require.Empty(t, report.States)
	require.Contains(t, report.Notes,
		"not compared within states of the machine, because the machines differ in cpu")
}

// The leader is the value that is best within the states, not the one that drew the near cores more
// often.
func TestAlongWithinStates(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(9, 1)), start: time.Unix(0, 0)}
	lucky, better, third := m.side(20, 0, 1e6, 0.2, 0.01), m.side(20, 0, 1.1e6, 0.2, 0.01),
		m.side(20, 0, 0.9e6, 0.2, 0.01)
	for i := range 20 { // 12 of 20 windows of the better one are far, 2 of the lucky one
		spoil := func(c *set.Cell) {
			c.Windows[i].DistanceBefore, c.Windows[i].DistanceAfter = 300, 300
			c.Samples[result.Throughput][i] *= 0.2
		}
		if i < 12 {
			spoil(&better)
		}
		if i < 2 {
			spoil(&lucky)
		}
	}
	lucky.Config["options.ring"], better.Config["options.ring"],
		third.Config["options.ring"] = "lucky", "better", "third"
	s := newSet(lucky, third, better)
	ranking, err := Along(s, "ring", Defaults())
	require.NoError(t, err)
	group := ranking.Groups[0]
	require.Equal(t, []string{"near", "far"}, ranking.States)
	require.Equal(t, []string{"better", "lucky", "third"},
		[]string{group.List[0].Value, group.List[1].Value, group.List[2].Value})
	require.Equal(t, "better", group.Leader)
	require.InDelta(t, 0.1, *group.List[1].Behind, 0.02)
	all := func(value string) float64 { // the median over all windows
		for i := range s.Cells {
			if s.Cells[i].Config["options.ring"] == value {
				return result.Summarize(result.Throughput,
					s.Cells[i].Samples[result.Throughput]).Median
			}
		}
		return 0
	}
	require.Greater(t, all("lucky"), all("better"), "its windows were nearer")
	require.Greater(t, group.List[0].Metric.Median, group.List[1].Metric.Median,
		"shown in the state that all saw most")
	require.Equal(t, "near", group.List[0].State)

	for i := range s.Cells {
		s.Cells[i].Windows = nil
	}
	ranking, err = Along(s, "ring", Defaults())
	require.NoError(t, err)
	require.Equal(t, "lucky", ranking.Groups[0].List[0].Value)
}

func TestWindowsThatLackTheMetric(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(11, 1)), start: time.Unix(0, 0)}
	old, new := m.side(10, 0.5, 1e6, 5, 0.01), m.side(10, 0.5, 1e6, 5, 0.01)
	require.NotContains(t, one(t, newSet(old), newSet(new), Defaults()).Note, "lack the metric")
	new.Samples[result.Throughput] = new.Samples[result.Throughput][:9]
	require.Contains(t, one(t, newSet(old), newSet(new), Defaults()).Note,
		"not compared within states of the machine: some windows of new lack the metric")
}

// The ratios of a cell are told apart by state although some windows have none.
func TestMediansWithoutSomeFloors(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(12, 1)), start: time.Unix(0, 0)}
	c := set.Cell{Samples: map[string][]float64{}}
	for i, far := range []bool{false, true, false, true, true} {
		w := m.window(far)
		w.NoFloor = i == 1
		c.Windows = append(c.Windows, w)
		if !w.NoFloor {
			c.Samples[result.FloorRatio] = append(c.Samples[result.FloorRatio],
				map[bool]float64{false: 8, true: 4}[far])
		}
	}
	medians := state.NewClassifier(&set.Set{Cells: []set.Cell{c}}).Medians(&c, result.FloorRatio)
	require.Len(t, medians, 2)
	for i, want := range []float64{8, 4} {
		require.Equal(t, 2, medians[i].Metric.N)
		require.InDelta(t, want, medians[i].Metric.Median, 0)
	}
}

func TestNoVerdictWithinOneLaunch(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(10, 1)), start: time.Unix(0, 0)}
	old, new := m.side(10, 0, 1e6, 1, 0.01), m.side(10, 0, 0.5e6, 1, 0.01)
	require.Equal(t, Worse, one(t, newSet(old), newSet(new), Defaults()).Verdict)
	for i := range new.Windows {
		new.Windows[i].Launch = 0
	}
	o := Defaults()
	threshold, err := ParseThreshold("throughput<-3%")
	require.NoError(t, err)
	o.Thresholds = []Threshold{threshold}
	report, err := Diff(newSet(old), newSet(new), o)
	require.NoError(t, err)
	c := report.Changes[0]
	require.Equal(t, Ambiguous, c.Verdict)
	require.True(t, c.OneStart)
	require.NotNil(t, c.Low, "the interval is shown, with its label")
	require.Equal(t, "new measured within one process start: the interval lacks the spread "+
		"between starts, so there is no verdict", c.Note)
	require.Zero(t, report.Tests)
	require.Empty(t, report.Broken)
	require.Equal(t, 1, report.Thresholds.TooLittle, "the threshold could not fail")
	require.False(t, c.TooLittle)

	two := m.side(10, 0, 0.5e6, 1, 0.01)
	for i := range two.Windows {
		two.Windows[i].Launch = i / 5
	}
	c = one(t, newSet(old), newSet(two), Defaults())
	require.Equal(t, Ambiguous, c.Verdict)
	require.Contains(t, c.Note, "new measured 10 repeats in 2 process starts: ")

	a, b := old, new
	a.Config, b.Config = map[string]string{"transport": "shm", "options.ring": "a"},
		map[string]string{"transport": "shm", "options.ring": "b"}
	ranking, err := Along(newSet(a, b), "ring", Defaults())
	require.NoError(t, err)
	require.Empty(t, ranking.Groups[0].Leader)
	require.Contains(t, ranking.Groups[0].List[1].Note, "b measured within one process start")
}

func TestNoVerdictBelowAClockStep(t *testing.T) {
	latency := func(centre, step float64) *set.Set {
		c := cell(nil)
		values := make([]float64, 10)
		for i := range values {
			values[i] = centre * (1 + 0.001*float64(i))
		}
		c.Samples = map[string][]float64{result.LatencyP50: values, result.CPUPerOp: values}
		c.ClockStep = step
		return newSet(c)
	}
	o := Defaults()
	o.Metrics = []string{result.LatencyP50}
	require.Equal(t, Worse, one(t, latency(100, 0), latency(107, 0), o).Verdict)
	c := one(t, latency(100, 0.4), latency(107, 10), o)
	require.Equal(t, Ambiguous, c.Verdict)
	require.True(t, c.BelowClock)
	require.Less(t, *c.PHolm, 0.05)
	require.Equal(t, "the change of latency_p50 is smaller than a step of the clock (10 ns), so "+
		"there is no verdict", c.Note)
	c = one(t, latency(100, 10), latency(115, 10), o)
	require.Equal(t, Worse, c.Verdict, "more than a step")
	require.False(t, c.BelowClock)
	require.Equal(t, Same, one(t, latency(1000, 10), latency(1001, 10), o).Verdict,
		"a step is finer than the floor")
	require.Equal(t, Ambiguous, one(t, latency(100, 10), latency(100, 10), o).Verdict,
		"a step is coarser than the floor")
	c = one(t, latency(1000, 15), latency(1033, 15), o)
	require.Less(t, *c.PHolm, 0.05)
	require.Equal(t, "the change of latency_p50 is smaller than 2% and a step of the clock (15 "+
		"ns), so there is no verdict", c.Note)
	require.Equal(t, Worse, one(t, latency(1000, 15), latency(1037, 15), o).Verdict,
		"beyond the floor by more than a step")
	calibrated := o
	calibrated.Floor = 0.04958333333333333
	c = one(t, latency(1000, 15), latency(1060, 15), calibrated)
	require.Equal(t, "the change of latency_p50 is smaller than 4.96% and a step of the clock "+
		"(15 ns), so there is no verdict", c.Note)

	threshold, err := ParseThreshold("latency_p50>+1%")
	require.NoError(t, err)
	o.Thresholds = []Threshold{threshold}
	report, err := Diff(latency(100, 10), latency(107, 10), o)
	require.NoError(t, err)
	require.Empty(t, report.Broken)
	o.Thresholds, o.Metrics = nil, []string{result.CPUPerOp}
	require.Equal(t, Worse, one(t, latency(100, 10), latency(107, 10), o).Verdict,
		"a mean is finer than a step")
}

// Enough windows in all, but too few in the same states: not the number of repeats is at fault.
func TestTooFewWindowsInTheSameStates(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(11, 1)), start: time.Unix(0, 0)}
	old, new := m.side(10, 0, 1e6, 0.2, 0.01), m.side(10, 1, 2e6, 0.2, 0.01)
	for i := range 3 {
		new.Windows[i].DistanceBefore, new.Windows[i].DistanceAfter = 50, 50
		new.Samples[result.Throughput][i] *= 5
		old.Windows[i].DistanceBefore, old.Windows[i].DistanceAfter = 300, 300
		old.Samples[result.Throughput][i] /= 5
	}
	require.Equal(t, Better, one(t, newSet(old), newSet(new), Defaults()).Verdict)
	for i := range 2 {
		new.Windows[i].DistanceBefore, new.Windows[i].DistanceAfter = 300, 300
		old.Windows[i].DistanceBefore, old.Windows[i].DistanceAfter = 50, 50
	}
	o := Defaults()
	o.Alpha = 0.02
	c := one(t, newSet(old), newSet(new), o)
	require.Equal(t, Ambiguous, c.Verdict)
	require.False(t, c.TooLittle)
	require.True(t, c.StatesApart)
	require.Contains(t, c.Note, "too few windows in the same states of the machine for a verdict")
}

// Interleaved equal sides on a machine that drifts, keeps its state for some windows, and changes
// it within windows, too: at most alpha of the comparisons get a verdict.
func TestInterleavedEqualSides(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	o := Defaults()
	o.Floor = 0
	const trials = 600
	for _, n := range []int{10, 30} {
		wrong, mixed := 0, 0
		for range trials {
			a, b := cell(nil), cell(nil)
			a.Samples[result.Throughput], b.Samples[result.Throughput] = nil, nil
			start, far := time.Unix(0, 0), r.IntN(2) == 0
			for round := range n {
				sides := []*set.Cell{&a, &b}
				for _, i := range r.Perm(2) {
					start = start.Add(time.Second)
					w := set.Window{StartedAt: start, Launch: round, DistanceBefore: 50,
						DistanceAfter: 50}
					share := 0.0 // of the window in the far state
					if far {
						w.DistanceBefore, w.DistanceAfter, share = 300, 300, 1
					}
					if r.Float64() < 0.2 {
						if far = !far; far {
							w.DistanceAfter, share = 300, r.Float64()
						} else {
							w.DistanceAfter, share = 50, r.Float64()
						}
						mixed++
					}
					v := 1e6 * math.Pow(0.2, share) * math.Exp(0.01*float64(round)+
						0.02*r.NormFloat64())
					sides[i].Windows = append(sides[i].Windows, w)
					sides[i].Samples[result.Throughput] = append(
						sides[i].Samples[result.Throughput], v)
				}
			}
			if v := one(t, newSet(a), newSet(b), o).Verdict; v == Better || v == Worse {
				wrong++
			}
		}
		t.Logf("%d repeats: %d of %d wrong, %d windows mixed", n, wrong, trials, mixed)
		require.LessOrEqual(t, float64(wrong), 0.05*trials+3*math.Sqrt(0.05*0.95*trials))
	}
}

// The common state is that of the cells with readings, and a cell within it has the values of its
// windows only.
func TestCommonState(t *testing.T) {
	near, far := set.Window{DistanceBefore: 50, DistanceAfter: 51},
		set.Window{DistanceBefore: 300, DistanceAfter: 301}
	noFloor := near
	noFloor.NoFloor = true
	s := &set.Set{Cells: []set.Cell{
		{Windows: []set.Window{far, noFloor, near, far, far}, Samples: map[string][]float64{
			result.Throughput: {1, 7, 9, 2, 3}, result.FloorRatio: {4, 8, 4, 4},
			result.HarnessOverhead: {10}}},
		{Windows: []set.Window{near, near, near},
			Samples: map[string][]float64{result.Throughput: {5, 5, 5}}},
		{Samples: map[string][]float64{result.Throughput: {6}}}, // published
		{Windows: make([]set.Window, 3),
			Samples: map[string][]float64{result.Throughput: {6, 6, 6}}},
	}}
	states := state.NewClassifier(s)
	cells := []*set.Cell{&s.Cells[0], &s.Cells[1], &s.Cells[2], &s.Cells[3]}
	require.Equal(t, "near", states.Common(cells))
	require.Equal(t, "far", states.Common(cells[:1]))
	require.Empty(t, states.Common(cells[2:]))
	some := states.Within(cells[0], "near")
	require.Equal(t, map[string][]float64{result.Throughput: {7, 9}, result.FloorRatio: {8}},
		some.Samples)
	require.Equal(t, []set.Window{noFloor, near}, some.Windows)
	for _, c := range cells[1:] {
		require.Same(t, c, states.Within(c, "far"))
		require.Same(t, c, states.Within(c, ""))
	}
}

// disturb takes the processor of a polling thread away in a window of a cell, which then has value.
func disturb(c *set.Cell, window int, value float64) {
	c.Windows[window].Taken = 0.9
	c.Samples[result.Throughput][window] = value
}

// A disturbed window is left out of verdicts and tables, whether the machine has several states or
// one; a low one that nothing disturbed is not.
func TestDisturbedWindows(t *testing.T) {
	for _, far := range []bool{false, true} {
		m := &machineState{r: rand.New(rand.NewPCG(9, 1)), start: time.Unix(0, 0)}
		shm, erpc := cell(map[string]string{"transport": "shm"}),
			cell(map[string]string{"transport": "erpc"})
		for _, c := range []*set.Cell{&shm, &erpc} {
			c.Samples[result.Throughput] = nil
		}
		for i := range 10 { // in rounds
			isFar := far && i >= 8
			for _, c := range []*set.Cell{&shm, &erpc} {
				c.Windows = append(c.Windows, m.window(isFar))
				v := 1e6 * (1 + 0.01*m.r.NormFloat64())
				if c == &shm {
					v *= 15
				}
				c.Samples[result.Throughput] = append(c.Samples[result.Throughput], v)
			}
		}
		leader := func() string {
			o := Defaults()
			o.Metrics = []string{result.Throughput}
			r, err := Along(newSet(shm, erpc), "transport", o)
			require.NoError(t, err)
			require.Equal(t, "shm", r.Groups[0].List[0].Value)
			return r.Groups[0].Leader
		}
		require.Equal(t, "shm", leader())
		for i := range 3 {
			disturb(&shm, i, 0.5e6)
		}
		require.Equal(t, "shm", leader())
		shown := state.ShownOf(newSet(shm, erpc))
		row, all, text := 7, 10, "7 undisturbed"
		if far {
			row, all, text = 5, 8, "5 near"
		}
		require.Len(t, shown.Cell(&shm).Windows, row)
		require.Len(t, shown.Cell(&shm).Samples[result.Throughput], row)
		require.Equal(t, text, shown.Windows(&shm))
		require.Len(t, shown.Cell(&erpc).Windows, all)
		metric, ok := shown.Cell(&shm).Metric(result.Throughput)
		require.True(t, ok)
		require.Greater(t, metric.Median, 14e6)

		for i := range shm.Windows {
			shm.Windows[i].Taken = 0
		}
		require.Empty(t, leader(), "a value alone leaves nothing out")
		for i := range shm.Windows {
			shm.Windows[i].Taken = 0.9
		}
		require.Len(t, state.ShownOf(newSet(shm, erpc)).Cell(&shm).Windows, 10,
			"nothing else is left")
	}
}

// Equal sides of which some windows are disturbed and slow: at most alpha of the verdicts are
// false, however unequally others disturbed the sides.
func TestDisturbedWindowsMakeNoDifference(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(10, 1)), start: time.Unix(0, 0)}
	o := Defaults()
	o.Floor = 0
	const trials = 400
	for _, jumps := range []float64{0, 0.3} {
		wrong, wrongWithout := 0, 0
		side := func(share float64) set.Cell {
			c := m.side(12, jumps, 1e6, 0.2, 0.02)
			for i := range c.Windows {
				if m.r.Float64() < share {
					disturb(&c, i, c.Samples[result.Throughput][i]*m.r.Float64())
				}
			}
			return c
		}
		for range trials {
			a, b := side(0.1), side(0.5)
			if v := one(t, newSet(a), newSet(b), o).Verdict; v == Better || v == Worse {
				wrong++
			}
			for _, c := range []*set.Cell{&a, &b} {
				for i := range c.Windows {
					c.Windows[i].Taken = 0
				}
			}
			if v := one(t, newSet(a), newSet(b), o).Verdict; v == Better || v == Worse {
				wrongWithout++
			}
		}
		t.Logf("jumps %v: %d of %d wrong, %d if nothing tells disturbed windows", jumps, wrong,
			trials, wrongWithout)
		require.LessOrEqual(t, float64(wrong), 0.05*trials+3*math.Sqrt(0.05*0.95*trials))
		require.Greater(t, wrongWithout, wrong)
	}
}
