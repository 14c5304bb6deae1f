package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const shares = "repeats: 6\nbase: {in-flight: 8}\naxes: {transport: [shm, erpc], rate: [50%, " +
	"90%, 2000]}\n"

// capacities measures capacities of 1000, 1100, ... op/s, those of erpc a tenth of that. Other
// loads are reached.
type capacities struct {
	fail   map[string]error // of capacities, by transport
	far    map[string]int   // how many of the first capacities are of the far state, by transport
	starts map[string]int
	rates  map[string]bool
	order  []string
}

func (m *capacities) measure(_ context.Context, c config.Config, _ runner.Observer) (*result.Result,
	error) {
	if c.Rate.Offers() {
		m.order = append(m.order, "open")
		m.rates[fmt.Sprintf("%s %v", c.Transport, c.Rate)] = true
		return measured(c, float64(c.Rate)), nil
	}
	m.order = append(m.order, "capacity")
	if err := m.fail[c.Transport]; err != nil {
		return nil, err
	}
	throughput, distance := 1000+100*float64(m.starts[c.Transport]), 50.0
	if m.starts[c.Transport]++; m.starts[c.Transport] <= m.far[c.Transport] {
		throughput, distance = throughput/4, 300
	}
	if c.Transport == "erpc" {
		throughput /= 10
	}
	r := measured(c, throughput)
	r.Repeats[0].Before.CoreDistance, r.Repeats[0].After.CoreDistance = distance, distance
	return r, nil
}

func newCapacities() *capacities {
	return &capacities{fail: map[string]error{}, starts: map[string]int{}, rates: map[string]bool{}}
}

func TestRatesRelativeToTheCapacity(t *testing.T) {
	dir := t.TempDir()
	m := newCapacities()
	p := plan(t, shares)
	require.Len(t, p.Cells, 8, "two transports at three rates, and their capacities")
	outcome, err := runSweep(t.Context(), p,
		options{Dir: dir, Measure: m.measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 8, outcome.Complete)

	require.Equal(t, strings.Repeat("capacity ", 12)+strings.Repeat("open ", 36),
		strings.Join(m.order, " ")+" ", "capacities come first")
	// Of six starts, the lowest is the lower end of the interval.
	require.Equal(t, map[string]bool{"shm 500": true, "shm 900": true, "shm 2000": true,
		"erpc 50": true, "erpc 90": true, "erpc 2000": true}, m.rates)

	s, err := set.Load(dir)
	require.NoError(t, err)
	found := map[string]*result.Capacity{}
	for i := range s.Cells {
		found[set.LabelsOf(s.Cells).Of(s.Cells[i].Config)] = s.Cells[i].Capacity
	}
	require.Len(t, found, 8)
	require.Contains(t, found, "shm rate=2k")
	require.Contains(t, found, "shm rate=max")
	require.Nil(t, found["shm rate=max"])
	require.Nil(t, found["shm rate=2k"])
	c := found["shm rate=90%"]
	require.InDelta(t, 1000, c.Value, 1e-9)
	require.InDelta(t, 900, c.Rate, 1e-9)
	require.InDelta(t, 0.9, c.Share, 1e-9)
	require.InDelta(t, 1250, c.Throughput.Median, 1e-9)
	require.InDelta(t, 1500, *c.Throughput.High, 1e-9)
	require.Equal(t, 6, c.Throughput.N)
}

// A replay at a share of the capacity is as much faster than its trace as the capacity allows.
func TestSpeedsRelativeToTheCapacity(t *testing.T) {
	spec := parse(t, "repeats: 2\nbase: {replay: trace.csv}\n"+
		"axes: {transport: [shm, erpc], speed: [50%, 2]}\n")
	spec.Profiles.Trace = func(*config.Config) (*config.Replay, error) {
		return &config.Replay{Digest: "0123456789abcdef", Length: 10 * time.Second, Keys: 10,
			ReplayPart: config.ReplayPart{Operations: 100}, ValueSize: config.FixedSize(32),
			Mix: config.Mix{{Op: config.OpRead, Share: 1}}}, nil
	}
	p, err := Expand(spec, known)
	require.NoError(t, err)
	require.Len(t, p.Cells, 6, "two transports at two speeds, and their capacities")
	m, dir := newCapacities(), t.TempDir()
	outcome, err := runSweep(t.Context(), p,
		options{Dir: dir, Measure: m.measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 6, outcome.Complete)

	s, err := set.Load(dir)
	require.NoError(t, err)
	speeds := map[string]string{}
	for i := range s.Cells {
		c := &s.Cells[i]
		speeds[set.LabelsOf(s.Cells).Of(c.Config)] = c.Run.Speed.String()
		if !c.FindsCapacity() {
			length := time.Duration(c.Run.Duration).Seconds()
			require.InDelta(t, 100, float64(c.Run.Rate)*length, 1e-3, "the whole part")
		}
	}
	require.Equal(t, map[string]string{"shm speed=max": "max", "erpc speed=max": "max",
		"shm speed=2": "2", "erpc speed=2": "2", "shm speed=50%": "50", "erpc speed=50%": "5"},
		speeds)
}

// A transport whose capacity was seen in two states of the machine runs at shares of the slower
// one. What another transport saw does not change its own capacity.
func TestCapacityOfTheSlowestState(t *testing.T) {
	m := newCapacities()
	m.far = map[string]int{"shm": 2}
	outcome, err := runSweep(t.Context(), plan(t, shares),
		options{Dir: t.TempDir(), Measure: m.measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 8, outcome.Complete)
	// Far windows of 250 and 275, and near ones of erpc from 100 to 150.
	require.Equal(t, map[string]bool{"shm 131": true, "shm 236": true, "shm 2000": true,
		"erpc 50": true, "erpc 90": true, "erpc 2000": true}, m.rates)
	labels := set.LabelsOf(outcome.Set.Cells)
	for i := range outcome.Set.Cells {
		c := &outcome.Set.Cells[i]
		switch labels.Of(c.Config) {
		case "shm rate=50%":
			require.Equal(t, "far", c.Capacity.State)
			require.Equal(t, 2, c.Capacity.Throughput.N)
			require.Len(t, c.Capacity.Windows, 6)
			require.Equal(t, 300.0, c.Capacity.Windows[0].DistanceBefore)
		case "erpc rate=50%":
			require.Equal(t, "near", c.Capacity.State)
			require.Equal(t, 6, c.Capacity.Throughput.N)
		}
	}
}

// A repeat that falls behind is an error of its own window. The merged cell has more windows and
// warns.
func TestRateOfTheMergedCell(t *testing.T) {
	m := newCapacities()
	repeat := map[string]int{}
	measure := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		r, err := m.measure(ctx, c, obs)
		if err != nil || !c.Rate.Offers() {
			return r, err
		}
		window := &r.Repeats[0]
		client := &window.Ranks[0].Clients[0]
		client.Open = &record.OpenReport{Scheduled: client.Ops()}
		if repeat[c.Transport+c.Rate.String()]++; c.Transport == "shm" && c.Rate == 900 &&
			repeat[c.Transport+c.Rate.String()] <= 2 {
			client.Open.Scheduled *= 3
		}
		return r, nil
	}
	outcome, err := runSweep(t.Context(), plan(t, shares),
		options{Dir: t.TempDir(), Measure: measure, Watcher: new(watcher)})
	require.NoError(t, err)
	labels := set.LabelsOf(outcome.Set.Cells)
	warned := map[string]result.Finding{}
	for i := range outcome.Set.Cells {
		for _, w := range outcome.Set.Cells[i].Warnings {
			if w.Name == "rate" {
				warned[labels.Of(outcome.Set.Cells[i].Config)] = w
			}
		}
	}
	require.Len(t, warned, 1)
	require.Equal(t, result.Warning, warned["shm rate=90%"].Severity)
	require.Contains(t, warned["shm rate=90%"].Message, "in 2 of 6 windows the load was not kept")
}

func TestCapacityByState(t *testing.T) {
	states := state.Find([]float64{50, 51, 52, 300, 310, 320})
	require.Equal(t, []string{"near", "far"}, states.Names())
	windows := func(distance float64, throughput ...float64) (list []result.Window) {
		for _, x := range throughput {
			list = append(list, result.Window{Throughput: x, DistanceBefore: distance,
				DistanceAfter: distance})
		}
		return list
	}
	near := windows(50, 100, 110, 120, 130, 140, 150)
	mixed := []result.Window{{Throughput: 20, DistanceBefore: 50, DistanceAfter: 300}}
	for name, c := range map[string]struct {
		windows []result.Window
		states  state.States
		value   float64
		state   string
		n       int
	}{
		"one state on this machine": {near, state.Find([]float64{50, 51}), 100, "", 6},
		"near, and others saw far":  {near, states, 100, "near", 6},
		"one far window": {slices.Concat(near, windows(300, 30)), states, 100,
			"near", 6},
		"one window in each state": {slices.Concat(near[:1], windows(300, 30)), states, 30,
			"far", 1},
		"one far window and few near": {slices.Concat(near[:3], windows(300, 30)), states, 100,
			"near", 3},
		"some far windows": {slices.Concat(near, windows(300, 30, 50, 40)), states, 40,
			"far", 3},
		"mostly far": {slices.Concat(windows(50, 100),
			windows(300, 31, 32, 33, 34, 35, 36)), states, 31, "far", 6},
		"far is not slower": {slices.Concat(near, windows(300, 160)), states, 100,
			"near", 6},
		"a mixed window is no state":   {slices.Concat(near, mixed), states, 100, "near", 6},
		"too few for an interval":      {near[:3], state.States{}, 100, "", 3},
		"nothing but a mixed window":   {mixed, states, 20, "", 1},
		"windows without any readings": {windows(0, 5, 4, 6), states, 4, "", 3},
	} {
		got := capacityOf(c.windows, c.states, 0.5)
		require.Equal(t, c.value, got.Value, name)
		require.Equal(t, math.Round(c.value/2), got.Rate, name)
		require.Equal(t, c.state, got.State, name)
		require.Equal(t, c.n, got.Throughput.N, name)
		require.Equal(t, c.windows, got.Windows, name)
	}
}

// Another machine finds another capacity, and its cells are compared by their share of it.
func TestCellsMatchByShare(t *testing.T) {
	key := func(throughput float64) string {
		r := measured(config.Default(), throughput)
		r.Config.Rate = config.Rate(throughput)
		r.Capacity = &result.Capacity{Share: 0.7, Rate: throughput, Value: throughput / 0.7}
		c, err := set.New().NewCell(r)
		require.NoError(t, err)
		return c.Key()
	}
	require.Equal(t, key(1e6), key(2e6))
	require.Contains(t, key(1e6), "rate=70%\n")
}

func TestResumedSweepHasTheSameRates(t *testing.T) {
	dir := t.TempDir()
	m := newCapacities()
	ctx, cancel := context.WithCancel(t.Context())
	interrupting := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		if len(m.order) == 20 {
			cancel()
			return nil, ctx.Err()
		}
		return m.measure(ctx, c, obs)
	}
	_, err := runSweep(ctx, plan(t, shares),
		options{Dir: dir, Measure: interrupting, Watcher: new(watcher)})
	require.ErrorIs(t, err, context.Canceled)
	_, err = runSweep(t.Context(), plan(t, shares),
		options{Dir: dir, Resume: true, Measure: m.measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Len(t, m.rates, 6)
	require.Equal(t, 6, m.starts["shm"], "capacities are not measured again")
	require.Len(t, m.order, 48)
}

func TestUnknownCapacityFailsItsCells(t *testing.T) {
	m := newCapacities()
	m.fail["erpc"] = errors.New("port in use")
	outcome, err := runSweep(t.Context(), plan(t, shares),
		options{Dir: t.TempDir(), Measure: m.measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 3, outcome.Failed)
	reasons := map[string]string{}
	for i := range outcome.Set.Cells {
		if c := &outcome.Set.Cells[i]; c.Status == set.Failed {
			reasons[set.LabelsOf(outcome.Set.Cells).Of(c.Config)], _,
				_ = strings.Cut(c.Reason, "; tried 2 times, see logs/")
		}
	}
	unknown := "the capacity is unknown, because it was not measured: port in use"
	require.Equal(t, map[string]string{"erpc rate=max": "port in use", "erpc rate=50%": unknown,
		"erpc rate=90%": unknown}, reasons)

	wrong := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		r, err := m.measure(ctx, c, obs)
		if err == nil && !c.Rate.Offers() {
			r.Checks = []result.Finding{{Name: "verified", Severity: result.Error,
				Message: "3 responses were wrong"}}
		}
		return r, err
	}
	s := &sweep{Sweep: &Sweep{Plan: plan(t, shares), Dir: t.TempDir()}, failures: map[int]Failure{}}
	s.store, err = create(s.Sweep, origin{})
	require.NoError(t, err)
	defer s.store.close()
	r, err := wrong(t.Context(), s.Plan.Cells[0].Config, nil)
	require.NoError(t, err)
	s.store.cells[0].cell, err = s.store.index.NewCell(r)
	require.NoError(t, err)
	_, _, err = s.configOf(1)
	require.EqualError(t, err, "the capacity is unknown, because repeats of it are missing")
	s.store.cells[0].complete = true
	_, _, err = s.configOf(1)
	require.EqualError(t, err, "the capacity is unknown, because its figures must not be used: "+
		"check verified failed: 3 responses were wrong")
}

func TestWrongShares(t *testing.T) {
	for _, rate := range []string{"0%", "120%", "x%", "-5%", "nan%", "%"} {
		_, err := Expand(parse(t, "axes: {rate: ["+"\""+rate+"\"]}\n"), known)
		require.EqualError(t, err, fmt.Sprintf(
			"--rate: %q is not a share of the capacity, which is above 0%% and at most 100%%",
			rate))
	}
	var rate config.Rate
	require.EqualError(t, rate.Set("70%"),
		`"70%" is a share of the capacity, which only a sweep measures; use a rate such as 5000, 200k or 1.5M`)
}
