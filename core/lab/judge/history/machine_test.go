package history_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// drawn is a history of transports on a machine that drifts: its level is a random walk, which all
// share, and each value has noise of its own. Deviations are of logarithms.
type drawn struct {
	sets, transports int
	drift, noise     float64
	change           func(transport, set int) float64
	has              func(transport, set int) bool
}

func (d drawn) series(t *testing.T, r *rand.Rand) []history.Series {
	machine := 0.0
	sets := make([]*set.Set, d.sets)
	for at := range sets {
		machine += d.drift * r.NormFloat64()
		sets[at] = set.New()
		sets[at].Source = fmt.Sprintf("sets/%04d", at)
		for i := range d.transports {
			if d.has != nil && !d.has(i, at) {
				continue
			}
			value := machine + d.noise*r.NormFloat64()
			if d.change != nil {
				value += d.change(i, at)
			}
			sets[at].Cells = append(sets[at].Cells, set.Cell{
				Status: set.Measured, Environment: -1,
				StartedAt: time.Unix(int64(1+at), 0),
				Config: map[string]string{"transport": fmt.Sprintf("t%d", i),
					"profile": "echo", "options.own": "1"},
				Samples: map[string][]float64{result.Throughput: {1e6 * math.Exp(value)}},
			})
		}
	}
	h, err := history.Of(sets...)
	require.NoError(t, err)
	return h.Series(history.Options{Metrics: []string{result.Throughput}, Floor: 0.02})
}

// The drift of the machine is no change of a transport, and a change of one is found in spite of
// it. With four transports there is no control, and drift is taken for changes.
func TestMachine(t *testing.T) {
	const trials, change = 200, 0.10
	d := drawn{sets: 30, transports: 6, drift: 0.05, noise: 0.034}
	rates := func(d drawn) (alone, shared, found, place float64) {
		n := 0.0
		r := rand.New(rand.NewPCG(3, 4))
		for range trials {
			for _, s := range d.series(t, r) {
				changed := min(1, float64(len(s.Changes)))
				switch {
				case s.Transport == history.Shared:
					shared += changed / trials
					require.Zero(t, history.Unaccepted([]history.Series{s}))
				case s.Transport == "t0" && d.change != nil:
					found += changed / trials
					if len(s.Changes) == 1 && s.Changes[0].Set >= 14 && s.Changes[0].Set <= 16 {
						place += 1.0 / trials
					}
				default:
					alone, n = alone+changed, n+1
				}
			}
		}
		return alone / n, shared, found, place
	}
	few := d
	few.transports = 4
	raw, _, _, _ := rates(few)
	require.Greater(t, raw, 0.5, "the drift is large")

	d.change = func(transport, set int) float64 {
		if transport == 0 && set >= 15 {
			return -change
		}
		return 0
	}
	alone, shared, found, place := rates(d)
	t.Logf("false changes %.1f%% (raw %.1f%%), shared %.0f%%, "+
		"of 10%% found %.0f%%, its place %.0f%%",
		100*alone, 100*raw, 100*shared, 100*found, 100*place)
	require.Less(t, alone, 0.05)
	require.Greater(t, shared, 0.5, "what all transports share is shown as such")
	require.Greater(t, found, 0.9)
	require.Greater(t, place, 0.7)
}

// A transport that comes later moves nothing, and points without a control belong to no level.
func TestMachineOfSomeSets(t *testing.T) {
	d := drawn{sets: 20, transports: 7, drift: 0.3, noise: 0.001, has: func(transport,
		set int) bool {
		return transport < 3 || transport >= 3 && transport < 6 && set >= 8 ||
			transport == 6 && set >= 12
	}}
	for _, s := range d.series(t, rand.New(rand.NewPCG(5, 6))) {
		require.Equal(t, s.Transport != history.Shared, s.Controlled)
		if !s.Controlled {
			continue
		}
		require.Empty(t, s.Changes, s.Transport)
		judged := s.Judged()
		require.Equal(t, 19, judged[len(judged)-1].Set)
		require.Equal(t, s.Points[len(s.Points)-1].Value, judged[len(judged)-1].Value)
		for _, p := range s.Points {
			require.Equal(t, p.Set >= 8, p.Machine != nil, "%s %d", s.Transport, p.Set)
		}
		for _, p := range judged {
			require.InEpsilon(t, s.Baseline(), p.Value, 0.01)
		}
	}
}
