package workload

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// generator returns a generator with the defaults, changed by edit.
func generator(t *testing.T, client int, edit func(*config.Config)) *Generator {
	t.Helper()
	cfg := config.Default()
	if edit != nil {
		edit(&cfg)
	}
	return New(cfg, client)
}

func zipfianKeys(keys int, theta float64) func(*config.Config) {
	return func(c *config.Config) {
		c.Distribution, c.Keys, c.Theta = config.DistributionZipfian, keys, theta
	}
}

func draw(g *Generator, n int) []Request {
	all := make([]Request, n)
	for i := range all {
		g.Next(&all[i])
	}
	return all
}

func TestUniformIsUniform(t *testing.T) {
	for _, keys := range []int{1, 2, 3, 10, 1000, 1024, 4099} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			g := generator(t, 0, func(c *config.Config) { c.Keys = keys })
			observed, probability := make([]uint64, keys), make([]float64, keys)
			for _, r := range draw(g, 200_000) {
				observed[r.Key]++
			}
			if keys == 1 {
				return // in range, or it had panicked
			}
			for i := range probability {
				probability[i] = 1 / float64(keys)
			}
			statistic, critical := chiSquared(t, observed, probability)
			require.Less(t, statistic, critical)
		})
	}
}

func TestUniformIsUniformBesideOtherOperations(t *testing.T) {
	g := generator(t, 0, func(c *config.Config) {
		c.Keys, c.Mix = 37, config.Mix{{Op: config.OpLookup, Share: 0.5},
			{Op: config.OpRMW, Share: 0.5}}
	})
	table := newTable(2, 37)
	for _, r := range draw(g, 400_000) {
		row := 0
		if r.Op == Lookup {
			row = 1
		}
		table[row][r.Key]++
	}
	statistic, critical := contingency(table)
	require.Less(t, statistic, critical, "keys are independent of operations")
	observed, probability := make([]uint64, 37), make([]float64, 37)
	for key := range observed {
		observed[key], probability[key] = table[0][key]+table[1][key], 1.0/37
	}
	statistic, critical = chiSquared(t, observed, probability)
	require.Less(t, statistic, critical)
}

func TestUniformCoversManyKeys(t *testing.T) {
	const bins = 1000
	g := generator(t, 0, func(c *config.Config) { c.Keys = config.MaxKeys })
	observed, probability := make([]uint64, bins), make([]float64, bins)
	for _, r := range draw(g, 200_000) {
		observed[r.Key*bins/config.MaxKeys]++
	}
	for i := range probability {
		probability[i] = 1.0 / bins
	}
	statistic, critical := chiSquared(t, observed, probability)
	require.Less(t, statistic, critical)
}

func TestReadRatio(t *testing.T) {
	const draws = 200_000
	for _, distribution := range []string{config.DistributionUniform, config.DistributionZipfian} {
		for _, ratio := range []float64{0, 0.05, 0.5, 0.95, 1} {
			t.Run(fmt.Sprintf("%s/%g", distribution, ratio), func(t *testing.T) {
				g := generator(t, 0, func(c *config.Config) {
					c.Distribution, c.ReadRatio = distribution, ratio
				})
				reads := 0.0
				for _, r := range draw(g, draws) {
					switch {
					case r.Op == Read && r.Size == 0:
						reads++
					case r.Op != Write || r.Size != 32:
						t.Fatalf("%v of %d bytes", r.Op, r.Size)
					}
				}
				deviation := math.Sqrt(draws * ratio * (1 - ratio)) // 0 at 0 and 1: exact
				require.InDelta(t, draws*ratio, reads, 5*deviation)
			})
		}
	}
}

func TestReadsAreIndependentOfKeys(t *testing.T) {
	for _, distribution := range []string{config.DistributionUniform, config.DistributionZipfian} {
		g := generator(t, 0, func(c *config.Config) {
			c.Distribution, c.Keys, c.ReadRatio = distribution, 37, 0.3
		})
		table := newTable(2, 37)
		for _, r := range draw(g, 400_000) {
			row := 0
			if r.Op == Read {
				row = 1
			}
			table[row][r.Key]++
		}
		statistic, critical := contingency(table)
		require.Less(t, statistic, critical, distribution)
	}
}

func TestClientsAreIndependent(t *testing.T) {
	const keys, draws = 16, 100_000
	edit := func(c *config.Config) { c.Keys = keys }
	first := draw(generator(t, 0, edit), draws)
	for _, client := range []int{1, 2, 3, 64, 1 << 20} {
		other := draw(generator(t, client, edit), draws)
		for lag := range 3 {
			table := newTable(keys, keys)
			for i := range draws - lag {
				table[first[i+lag].Key][other[i].Key]++
			}
			statistic, critical := contingency(table)
			require.Less(t, statistic, critical, "clients 0 and %d, lag %d", client, lag)
		}
	}
	// Compare a stream with itself: it passes with a lag, and must fail without one, or the test
	// cannot fail.
	for lag := range 3 {
		table := newTable(keys, keys)
		for i := range draws - lag {
			table[first[i+lag].Key][first[i].Key]++
		}
		statistic, critical := contingency(table)
		if lag == 0 {
			require.Greater(t, statistic, critical)
		} else {
			require.Less(t, statistic, critical, "lag %d", lag)
		}
	}
}

func TestSequencesFollowSeedAndClient(t *testing.T) {
	type stream struct {
		seed   uint64
		client int
	}
	seen := map[[4]Request]stream{}
	for seed := range uint64(16) {
		for client := range 16 {
			edit := func(c *config.Config) { c.Seed, c.Keys = seed, config.MaxKeys }
			sequence := draw(generator(t, client, edit), 1000)
			require.Equal(t, sequence, draw(generator(t, client, edit), 1000))
			start := [4]Request(sequence)
			require.NotContains(t, seen, start, "the same as of %v", seen[start])
			seen[start] = stream{seed, client}
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	var r Request
	for _, distribution := range config.Distributions() {
		g := generator(t, 0, func(c *config.Config) {
			c.Distribution, c.Mix = distribution, config.Mix{{Op: config.OpRead, Share: 0.5},
				{Op: config.OpInsert, Share: 0.5}}
		})
		require.Zero(t, testing.AllocsPerRun(10_000, func() { g.Next(&r) }))
	}
	g := generator(t, 0, nil)
	require.Zero(t, testing.AllocsPerRun(10_000, func() { g.Next(&r) }))
}
