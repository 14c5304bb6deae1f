package delay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelay(t *testing.T) {
	for text, c := range map[string]struct {
		text string
		mean time.Duration
		half time.Duration // at a draw of one half, and at the median of the normal distribution
	}{
		"none": {"none", 0, 0},
		"0s":   {"none", 0, 0},
		"20ms": {"20ms", 20 * time.Millisecond, 20 * time.Millisecond},
		"uniform:10ms-30ms": {"uniform:10ms-30ms", 20 * time.Millisecond,
			20 * time.Millisecond},
		"exponential:10000us": {"exponential:10ms", 10 * time.Millisecond, 6931471},
		"lognormal:20ms-20ms": {"lognormal:20ms-20ms", 20 * time.Millisecond,
			20 * time.Millisecond},
		"lognormal:18.8ms-23ms": {"lognormal:18.8ms-23ms", 18870725, 18800 * time.Microsecond},
	} {
		var d Delay
		require.NoError(t, d.Set(text), text)
		require.Equal(t, c.text, d.String())
		require.InDelta(t, c.mean, d.Mean(), 2000, text)
		require.InDelta(t, c.half, d.Sampler()(0.5, 0), 2, text)
	}
	var d Delay
	require.NoError(t, d.Set("lognormal:20ms-60ms"))
	require.InDelta(t, 60*time.Millisecond, d.Sampler()(1, normal99), 2, "the 99th percentile")
	outside, held := d.Parts()
	require.Empty(t, outside)
	require.Equal(t, d, held, "a lane is held for all of it")
	require.NoError(t, d.Set("lognormal:20000us-60ms+exponential:2ms"))
	require.Equal(t, "lognormal:20ms-60ms+exponential:2ms", d.String())
	outside, held = d.Parts()
	require.EqualValues(t, "lognormal:20ms-60ms", outside)
	require.EqualValues(t, "exponential:2ms", held)
	for text, problem := range map[string]string{
		"20":                  "is not a delay such as 20ms, uniform:10ms-30ms",
		"-1ms":                "out of range",
		"2s":                  "out of range (above 0s, to 1s)",
		"lognormel:10ms-20ms": `did you mean "lognormal"?`,
		"lognormal:10ms":      "use lognormal:10ms-30ms",
		"exponential:1ms-2ms": "use exponential:20ms",
		"uniform:30ms-10ms":   "use uniform:10ms-30ms",
		"uniform:0s-10ms":     "out of range",
		"uniform:10ms-quick":  "is not a delay",
		"20ms+none":           "has a part without time",
		"+2ms":                "has a part without time",
		"20ms+2ms+1ms":        "is not a delay",
	} {
		require.ErrorContains(t, d.Set(text), problem, text)
	}
}
