package experiment

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// pairedTest compares 1 with 2 calls in flight, of throughputs a and b with a relative spread.
func pairedTest(r *rand.Rand, a, b, spread float64) *PairedTest {
	plugins := Plugins{config.Default().Transport: {}}
	d := &PairedTest{
		A:        Side{Config: config.Default(), Plugins: plugins},
		B:        Side{Config: config.Default(), Plugins: plugins},
		StopRule: compare.StopRule{Within: 0.01, MinRepeats: 6, MaxRepeats: 100},
		Compare:  compare.Defaults(),
		Begin:    func(string, int) runner.Observer { return nil },
	}
	d.B.Config.InFlight = 2
	d.A.measure = func(_ context.Context, c config.Config, _ runner.Observer) (
		*result.Result, error) {
		centre := a
		if c.InFlight == 2 {
			centre = b
		}
		return measured(c, centre*(1+spread*r.NormFloat64())), nil
	}
	d.B.measure = d.A.measure
	return d
}

// A test takes at least the time of its fewest repeats, each of which is a run.
func TestPairedTestExpected(t *testing.T) {
	d := pairedTest(nil, 1, 1, 0)
	two := 2 * (&Cell{Config: config.Default()}).Expected(Beside{})
	require.Equal(t, 6*two, d.Expected(Beside{}))
}

func TestPairedTestEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	judged := 0
	d := pairedTest(r, 1e6, 0.9e6, 0.005)
	d.Judged = func(n int, _ *compare.Report) { judged = n }
	v, err := d.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndPrecise, v.Ended)
	require.Equal(t, compare.Worse, v.Report.Changes[0].Verdict)
	require.Less(t, len(v.A.Repeats), 30)
	require.GreaterOrEqual(t, len(v.A.Repeats), 6)
	require.Len(t, v.B.Repeats, len(v.A.Repeats))
	require.Equal(t, len(v.A.Repeats), judged)

	d = pairedTest(r, 1e6, 0.9e6, 0.005)
	asked := 0
	d.MinEffect = func(n int) func(*set.Cell, int) (float64, string) {
		asked = n
		return func(*set.Cell, int) (float64, string) { return 0.5, "seen" }
	}
	v, err = d.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, compare.Ambiguous, v.Report.Changes[0].Verdict,
		"10% is below the floor, but not the same")
	require.Equal(t, 0.5, v.Report.Floor)
	require.Equal(t, "seen", v.Report.FloorFrom)
	require.Equal(t, len(v.A.Repeats), asked)

	v, err = pairedTest(r, 1e6, 1e6, 0.3).run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndMaxRepeats, v.Ended)
	require.Len(t, v.A.Repeats, 100)

	d = pairedTest(r, 1e6, 1e6, 0.3)
	d.TimeLimit = time.Nanosecond
	v, err = d.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndTimeLimit, v.Ended)
	require.Len(t, v.A.Repeats, 1)
}

// The throughput of open loops is that of their schedules, so the next metric decides the end.
func TestPairedTestOfOpenLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d := pairedTest(r, 1e6, 1e6, 0.0001)
	d.MaxRepeats = 10
	throughput := d.A.measure
	d.A.measure = func(ctx context.Context, c config.Config, o runner.Observer) (
		*result.Result, error) {
		m, err := throughput(ctx, c, o)
		m.Repeats[0].Samples[result.LatencyP50] = 1000 * (1 + 0.3*r.NormFloat64())
		return m, err
	}
	d.B.measure = d.A.measure
	v, err := d.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndPrecise, v.Ended, "of closed loops, it is the throughput")
	d.A.Config.Rate, d.B.Config.Rate = 1e6, 1e6
	v, err = d.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndMaxRepeats, v.Ended)
	require.Equal(t, 1, v.Report.Tests)
}

// A side is judged over all its windows: a single one behind its schedule does not exclude the
// others from the comparison.
func TestPairedTestWithAWindowBehind(t *testing.T) {
	for every, comparable := range map[int]bool{7: true, 1: false} {
		d := pairedTest(rand.New(rand.NewPCG(1, 3)), 1e6, 1e6, 0.0001)
		d.MinRepeats, d.MaxRepeats, d.A.Config.Rate, d.B.Config.Rate = 7, 7, 1e6, 1e6
		throughput, n := d.B.measure, 0
		d.A.measure = func(ctx context.Context, c config.Config, o runner.Observer) (
			*result.Result, error) {
			m, err := throughput(ctx, c, o)
			require.NoError(t, err)
			m.Repeats[0].Samples[result.LatencyP50] = 1000
			client := &m.Repeats[0].Ranks[0].Clients[0]
			client.Open = &record.OpenReport{Scheduled: client.Reads}
			if c.InFlight == 2 {
				if n++; n%every == 0 {
					client.Open.Scheduled *= 2
				}
			}
			return check.Merge([]*result.Result{m})
		}
		d.B.measure = d.A.measure
		v, err := d.run(t.Context())
		require.NoError(t, err)
		require.Len(t, v.B.Repeats, 7)
		require.Equal(t, comparable, v.Report.Changes[0].Verdict != compare.Incomparable,
			v.Report.Changes[0].Note)
		require.True(t, slices.ContainsFunc(v.Report.Warnings, func(w set.GroupedWarning) bool {
			return w.Check == "rate" && slices.Equal(w.Sides, []string{"new"})
		}), v.Report.Warnings)
	}
}

// Comparing after every round does not raise the rate of false verdicts: with the floor, it is
// below alpha; without it, it is alpha within three standard deviations of the count.
func TestPairedTestOfEqualSides(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	const trials = 60
	for floor, limit := range map[float64]int{0.02: trials * 5 / 100, 0: trials*5/100 + 5} {
		wrong := 0
		for range trials {
			d := pairedTest(r, 1e6, 1e6, 0.02)
			d.Compare.Floor, d.Within = floor, 0.015
			v, err := d.run(t.Context())
			require.NoError(t, err)
			if v.Report.Count(compare.Better)+v.Report.Count(compare.Worse) > 0 {
				wrong++
			}
		}
		require.LessOrEqual(t, wrong, limit, "floor %g", floor)
	}
}

func TestPairedTestFailsOrIsInterrupted(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	d := pairedTest(r, 1e6, 1e6, 0.3)
	d.A.measure = func(context.Context, config.Config, runner.Observer) (*result.Result, error) {
		return nil, errors.New("it crashed")
	}
	d.B.measure = d.A.measure
	_, err := d.run(t.Context())
	require.ErrorContains(t, err, ": it crashed")

	ctx, cancel := context.WithCancel(t.Context())
	d = pairedTest(r, 1e6, 1e6, 0.3)
	d.Judged = func(int, *compare.Report) { cancel() }
	v, err := d.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, EndStopped, v.Ended)
	require.Len(t, v.A.Repeats, 1)
	require.Equal(t, "interrupted after 1 repeat", v.B.IncompleteReason)
}

// What was measured before a run failed is the outcome, and each side says why it ends there.
func TestPairedTestKeepsItsRounds(t *testing.T) {
	d := pairedTest(rand.New(rand.NewPCG(4, 1)), 1e6, 1e6, 0.3)
	kept := map[string][]int{}
	keep := func(side string) func(int, func() (*result.Result, error)) error {
		return func(repeats int, soFar func() (*result.Result, error)) error {
			r, err := soFar()
			require.NoError(t, err)
			require.Len(t, r.Repeats, repeats)
			require.True(t, r.Incomplete)
			kept[side] = append(kept[side], repeats)
			return nil
		}
	}
	d.A.keep, d.B.keep = keep("A"), keep("B")
	measure, n := d.B.measure, 0
	d.B.measure = func(ctx context.Context, c config.Config, o runner.Observer) (
		*result.Result, error) {
		if n++; n == 4 {
			return nil, &runner.RankError{Rank: 1, Op: "run", Err: errors.New("it crashed")}
		}
		return measure(ctx, c, o)
	}
	v, err := d.run(t.Context())
	require.ErrorContains(t, err, "B: rank 1: run: it crashed")
	require.Equal(t, EndFailed, v.Ended)
	require.Equal(t, map[string][]int{"A": {1, 2, 3}, "B": {1, 2, 3}}, kept)
	require.Equal(t, 3, v.Report.Changes[0].New.N)
	for _, r := range []*result.Result{v.A, v.B} {
		require.Len(t, r.Repeats, 3)
		require.True(t, r.Incomplete)
		require.Equal(t, "failed after 3 repeats: B: rank 1: run: it crashed", r.IncompleteReason)
	}
	require.Nil(t, v.A.Failure)
	require.Equal(t, 1, v.B.Failure.Rank)

	d.B.measure, n = measure, 0
	full := errors.New("no space left on device")
	d.B.keep = func(int, func() (*result.Result, error)) error {
		if n++; n == 2 {
			return full
		}
		return nil
	}
	v, err = d.run(t.Context())
	require.ErrorIs(t, err, full)
	require.Len(t, v.A.Repeats, 2)
}
