package workload

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/base/config"
)

func TestOpsAreTheConfigurations(t *testing.T) {
	require.Len(t, config.OpNames(), NumOps)
	for op := range Op(NumOps) {
		require.Equal(t, op, opNamed(op.String()))
	}
	require.Equal(t, []string{"read", "write", "lookup", "insert", "rmw"},
		[]string{Read.String(), Write.String(), Lookup.String(), Insert.String(),
			ReadModifyWrite.String()})
	require.False(t, Read.Writes() || Lookup.Writes())
	require.True(t, Write.Writes() && Insert.Writes() && ReadModifyWrite.Writes())
}

func countOps(g *Generator, draws int) []uint64 {
	observed := make([]uint64, NumOps)
	for _, r := range draw(g, draws) {
		observed[r.Op]++
	}
	return observed
}

func TestMixIsDrawn(t *testing.T) {
	shares := []float64{0.4, 0.25, 0.2, 0.1, 0.05}
	var mix config.Mix
	for op, share := range shares {
		mix = append(mix, config.OpShare{Op: Op(op).String(), Share: share})
	}
	slices.Reverse(mix) // their order does not matter
	for _, distribution := range config.Distributions() {
		g := generator(t, 0, func(c *config.Config) { c.Distribution, c.Mix = distribution, mix })
		statistic, critical := chiSquared(t, countOps(g, 300_000), shares)
		require.Less(t, statistic, critical, distribution)
	}
	g := generator(t, 0, func(c *config.Config) { c.Mix = mix })
	statistic, critical := chiSquared(t, countOps(g, 300_000),
		[]float64{0.39, 0.26, 0.2, 0.1, 0.05})
	require.Greater(t, statistic, critical, "shares that are off by a hundredth")
}

// TestMixOverridesTheReadRatio checks that operations that the mix does not name do not occur.
func TestMixOverridesTheReadRatio(t *testing.T) {
	for op := range Op(NumOps) {
		g := generator(t, 0, func(c *config.Config) {
			c.ReadRatio, c.Mix = 0.5,
				config.Mix{{Op: op.String(), Share: 1}}
		})
		require.EqualValues(t, 10_000, countOps(g, 10_000)[op])
	}
}

func TestCutGivesNothingToThoseWithoutAShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shares [NumOps]float64
		total := 0.0
		for i := range shares {
			if rapid.Bool().Draw(t, "there") {
				shares[i] = rapid.Float64Range(1e-6, 1).Draw(t, "share")
				total += shares[i]
			}
		}
		if total == 0 {
			t.Skip("no operation")
		}
		for i := range shares {
			shares[i] /= total
		}
		bounds := cut(shares)
		low := uint64(0)
		for i, share := range shares {
			high := uint64(1 << 63)
			if i < len(bounds) {
				high = bounds[i]
			}
			require.GreaterOrEqual(t, high, low)
			require.InDelta(t, share, float64(high-low)/(1<<63), 1e-9)
			require.Equal(t, share == 0, high == low, "%v %v", shares, bounds)
			low = high
		}
	})
}

// TestPatternStart: four clients begin at four points of the pattern, and follow it from there.
func TestPatternStart(t *testing.T) {
	var first [4]Op
	for client := range first {
		g := generator(t, client, func(c *config.Config) {
			c.Clients = 4
			require.NoError(t, c.Pattern.Set("lookup:2,read:2,write:2,insert:2"))
		})
		requests := draw(g, 9)
		first[client] = requests[0].Op
		require.Equal(t, requests[0].Op, requests[8].Op)
	}
	require.Equal(t, [4]Op{Lookup, Read, Write, Insert}, first)
}

func TestPatternIsFollowed(t *testing.T) {
	g := generator(t, 0, func(c *config.Config) {
		c.Pattern = config.Pattern{{Op: config.OpLookup, Count: 2}, {Op: config.OpRead, Count: 1},
			{Op: config.OpWrite, Count: 1}, {Op: config.OpRead, Count: 1}}
	})
	want := []Op{Lookup, Lookup, Read, Write, Read}
	for i, r := range draw(g, 50) {
		require.Equal(t, want[i%5], r.Op)
		require.Equal(t, r.Op == Write, r.Size == 32)
	}
}
