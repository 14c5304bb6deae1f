package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// erpcParameters are eRPC's constants.
var erpcParameters = timelyParameters{minRTT: 2e3, low: 50e3, high: 1e6, step: 5e6, minRate: 15e6,
	linkRate: 3e9, alpha: 0.46, beta: 0.26, hyperAfter: 5}

func TestTimely(t *testing.T) {
	p := erpcParameters
	fresh := func(rate float64) timely { return timely{rate: rate, previous: 100e3} }

	v := fresh(1e9)
	require.False(t, v.update(&p, 1e6, 20e3))
	require.Equal(t, 1e9+p.step, v.rate, "below the low threshold: additive increase")

	v = fresh(1e9)
	require.True(t, v.update(&p, 1e6, 2e6))
	require.InDelta(t, 1e9*(1-p.beta/2), v.rate, 1, "twice the high threshold: half of beta")

	v = fresh(1e9)
	require.True(t, v.update(&p, 1e6, 101e3))
	require.InDelta(t, 1e9*(1-p.beta*p.alpha/2), v.rate, 1,
		"a gradient of alpha times half of minRTT")

	v = fresh(1e9)
	require.True(t, v.update(&p, 1e6, 900e3))
	require.Equal(t, 1e9/2, v.rate, "at most halved")

	v = fresh(1e9)
	for i := range 10 {
		before := v.rate
		v.update(&p, int64(i+1)*1e6, 99e3-float64(i)*1e3)
		steps := 1.0
		if i+1 >= p.hyperAfter {
			steps = hyperSteps
		}
		require.Equal(t, before+steps*p.step, v.rate, "falling round trip %d", i+1)
	}

	v = fresh(1e9)
	v.update(&p, 1e6, 20e3)
	before := v.rate
	v.update(&p, 1e6+int64(p.minRTT)/4, 20e3)
	require.InDelta(t, before+p.step/4, v.rate, 1,
		"the weight grows with the time since the last update")

	v = timely{rate: p.linkRate}
	require.True(t, v.uncongested(&p, 50e3))
	require.False(t, v.uncongested(&p, 50001))
}

// TestTimelyBounds: for all round trips the rate stays within its bounds, and one update at most
// halves it.
func TestTimelyBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := erpcParameters
		v := timely{rate: p.linkRate}
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "samples") {
			now += rapid.Int64Range(0, 1e7).Draw(t, "passes")
			before := v.rate
			fell := v.update(&p, now, float64(rapid.Int64Range(0, 1e10).Draw(t, "rtt")))
			require.Equal(t, v.rate < before, fell)
			require.GreaterOrEqual(t, v.rate, max(p.minRate, before/2))
			require.LessOrEqual(t, v.rate, p.linkRate)
		}
	})
}

// TestTimelyRecovers: after congestion the rate returns to the link's.
func TestTimelyRecovers(t *testing.T) {
	p := erpcParameters
	v := timely{rate: p.linkRate}
	now := int64(0)
	for range 100 {
		now += 5e6
		v.update(&p, now, 5e6)
	}
	require.Equal(t, p.minRate, v.rate)
	samples := 0
	for ; !v.uncongested(&p, 30e3); samples++ {
		now += 30e3
		v.update(&p, now, 30e3)
	}
	require.LessOrEqual(t, samples, int(p.linkRate/p.step))
}
