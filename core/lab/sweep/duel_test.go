package sweep

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/runner"
)

// duel is one of 1 against 2 in flight, whose throughputs have a spread.
func duel(r *rand.Rand, a, b, spread float64) *Duel {
	d := &Duel{
		A: config.Default(), B: config.Default(), Within: 0.01, Least: 6, Most: 100, Compare: compare.Defaults(),
		Begin: func(string, int) runner.Observer { return nil },
	}
	d.B.InFlight = 2
	d.Measure = func(_ context.Context, c config.Config, _ runner.Observer) (*result.Result, error) {
		centre := a
		if c.InFlight == 2 {
			centre = b
		}
		return measured(c, centre*(1+spread*r.NormFloat64())), nil
	}
	return d
}

func TestDuelEndsWhenItIsKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rounds, judged := 0, 0
	d := duel(r, 1e6, 0.9e6, 0.005)
	d.Round = func() { rounds++ }
	d.Judged = func(n int, _ *compare.Report) { judged = n }
	v, err := d.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndNarrow, v.Ended)
	require.Equal(t, compare.Worse, v.Report.Changes[0].Verdict)
	require.Less(t, len(v.A.Repeats), 30)
	require.GreaterOrEqual(t, len(v.A.Repeats), 6)
	require.Len(t, v.B.Repeats, len(v.A.Repeats))
	require.Equal(t, len(v.A.Repeats)-1, rounds)
	require.Equal(t, len(v.A.Repeats), judged)

	v, err = duel(r, 1e6, 1e6, 0.3).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndMost, v.Ended)
	require.Len(t, v.A.Repeats, 100)

	d = duel(r, 1e6, 1e6, 0.3)
	d.Limit = time.Nanosecond
	v, err = d.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, EndLimit, v.Ended)
	require.Len(t, v.A.Repeats, 1)
}

// Looking after every round does not raise the share of false verdicts: with
// the floor they are fewer than alpha allows, and without it no more than that,
// give or take three standard deviations of the count.
func TestDuelOfTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	const trials = 60
	for floor, most := range map[float64]int{0.02: trials * 5 / 100, 0: trials*5/100 + 5} {
		wrong := 0
		for range trials {
			d := duel(r, 1e6, 1e6, 0.02)
			d.Compare.Floor, d.Within = floor, 0.015
			v, err := d.Run(t.Context())
			require.NoError(t, err)
			if v.Report.Count(compare.Better)+v.Report.Count(compare.Worse) > 0 {
				wrong++
			}
		}
		require.LessOrEqual(t, wrong, most, "floor %g", floor)
	}
}

func TestDuelThatFailsOrIsInterrupted(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	d := duel(r, 1e6, 1e6, 0.3)
	d.Measure = func(context.Context, config.Config, runner.Observer) (*result.Result, error) {
		return nil, errors.New("it crashed")
	}
	_, err := d.Run(t.Context())
	require.ErrorContains(t, err, ": it crashed")

	ctx, cancel := context.WithCancel(t.Context())
	d = duel(r, 1e6, 1e6, 0.3)
	d.Round = cancel
	v, err := d.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, EndStopped, v.Ended)
	require.Len(t, v.A.Repeats, 1)
}
