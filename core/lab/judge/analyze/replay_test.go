package analyze

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/base/replay"
	"transportbench/core/lab/store/result"
)

// replayed makes a result the replay of two minutes at speed 2, whose requests of the second minute
// come three times as often. Response times are 100 us, and 5 ms in the steps slow.
func replayed(t *testing.T, slow ...int) *result.Result {
	r := measured(t)
	r.Config.Rate, r.Config.Speed, r.Config.Duration = 400, 2, config.Duration(time.Minute)
	r.Replay = &replay.Part{Summary: replay.Summary{Operations: 24_000, Length: 2 * time.Minute,
		Step: time.Minute, Rates: []uint64{6000, 18_000}}}
	each(r, func(_ *record.DaemonReport, c *record.ClientReport) {
		c.Open = &record.OpenReport{Response: always(t, 100_000)}
		for range record.Steps {
			c.Open.Steps = append(c.Open.Steps, always(t, 100_000))
		}
		for _, at := range slow {
			c.Open.Steps[at] = timing(t, map[uint64]int{100_000: 900, 5_000_000: 100})
		}
	})
	return r
}

func TestReplayTimes(t *testing.T) {
	list := []*result.Result{replayed(t, 40, 44)}
	times, err := ReplayTimesOf(list)
	require.NoError(t, err)
	times = times.Under(1e6)
	require.Len(t, times.Steps, record.Steps)
	early, late := times.Steps[10], times.Steps[40]
	require.Equal(t, 20e9, early.At, "2 seconds of the trace a step")
	require.Equal(t, 2e9, early.For)
	require.InEpsilon(t, 200, early.Rate, 1e-9, "6000 in a minute, sent within half of it")
	require.InEpsilon(t, 600, late.Rate, 1e-9)
	near(t, 100e3, early.P99)
	near(t, 5e6, late.P99)
	near(t, 100e3, late.P50)
	require.EqualValues(t, 6000, late.Samples, "of six windows")
	require.Equal(t, 1.0, *early.Within)
	require.InDelta(t, 0.9, *late.Within, 1e-9)
	w := times.Worst
	require.Equal(t, 20e9, w.For, "ten seconds of the window")
	require.Equal(t, 70e9, w.At, "the first that has both slow steps")
	require.InDelta(t, 0.98, *w.Within, 1e-9)
	require.InEpsilon(t, 600, w.Rate, 1e-9)

	a := analysed(t, func(r *result.Result) { *r = *replayed(t, 3, 4) })
	require.Nil(t, a.ReplayTimes.Steps[3].Within)
	require.Zero(t, a.ReplayTimes.Worst.At)
	near(t, 5e6, a.ReplayTimes.Worst.P99)

	for name, edit := range map[string]func(*result.Result){
		"no trace":        func(r *result.Result) { r.Replay = nil },
		"without times":   func(r *result.Result) { r.Config.Rate = config.RateMax },
		"no window":       func(r *result.Result) { r.Config.Duration = 0 },
		"negative window": func(r *result.Result) { r.Config.Duration = -1 },
		"no steps": func(r *result.Result) {
			each(r, func(_ *record.DaemonReport, c *record.ClientReport) { c.Open.Steps = nil })
		},
	} {
		r := replayed(t)
		edit(r)
		times, err := ReplayTimesOf([]*result.Result{r})
		require.NoError(t, err, name)
		require.Nil(t, times, name)
	}
	endless := replayed(t)
	endless.Config.Duration = math.MaxInt64
	times, err = ReplayTimesOf([]*result.Result{endless})
	require.NoError(t, err)
	require.Equal(t, times.Steps[0].For, times.Worst.For, "a step is longer than ten seconds")
	broken := replayed(t)
	broken.Repeats[0].Ranks[1].Clients[0].Open.Steps[5].Histogram = "x"
	_, err = Results([]*result.Result{broken})
	require.ErrorContains(t, err, "decoding histogram")
}
