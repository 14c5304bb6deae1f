package workload

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// hotspotProbabilities returns the probability of each key by definition.
func hotspotProbabilities(n, hot uint64, share float64) []float64 {
	probability := make([]float64, n)
	p := newPermutation(n)
	for index := range n {
		each := (1 - share) / float64(n-hot)
		if index < hot {
			each = share / float64(hot)
		}
		probability[p.apply(index)] = each
	}
	return probability
}

func countKeys(g *Generator, n, draws int) []uint64 {
	observed := make([]uint64, n)
	for _, r := range draw(g, draws) {
		observed[r.Key]++
	}
	return observed
}

func TestHotspotIsHotspot(t *testing.T) {
	for _, c := range []struct {
		n          int
		keys, hits float64
		hot        uint64
	}{
		{100, 0.2, 0.8, 20}, {1000, 0.2, 0.8, 200}, {1024, 0.05, 0.9, 51}, {1000, 0.2, 0.2, 200},
		{10, 0.99, 0.5, 9}, {10, 0.001, 0.5, 1}, {2, 0.5, 0.9, 1},
	} {
		t.Run(fmt.Sprint(c.n, c.keys, c.hits), func(t *testing.T) {
			g := generator(t, 1, func(f *config.Config) {
				f.Distribution, f.Keys, f.HotKeys, f.HotShare = config.DistributionHotspot, c.n,
					c.keys, c.hits
			})
			observed := countKeys(g, c.n, 500_000)
			statistic, critical := chiSquared(t, observed,
				hotspotProbabilities(uint64(c.n), c.hot, c.hits))
			require.Less(t, statistic, critical)
		})
	}
}

func TestHotspotTestCanFail(t *testing.T) {
	edit := func(share float64) func(*config.Config) {
		return func(f *config.Config) {
			f.Distribution, f.Keys, f.HotShare = config.DistributionHotspot, 100, share
		}
	}
	want := hotspotProbabilities(100, 20, 0.8)
	statistic, critical := chiSquared(t, countKeys(generator(t, 1, edit(0.79)), 100, 500_000), want)
	require.Greater(t, statistic, critical, "a share that is off by a hundredth")
	statistic, critical = chiSquared(t, countKeys(generator(t, 1, edit(0.8)), 100, 500_000),
		hotspotProbabilities(100, 21, 0.8))
	require.Greater(t, statistic, critical, "one key more is hot")
}

func TestHotspotEnds(t *testing.T) {
	g := generator(t, 0, func(f *config.Config) {
		f.Distribution, f.Keys = config.DistributionHotspot, 1
	})
	require.Equal(t, []uint64{1000}, countKeys(g, 1, 1000))
	for share, hot := range map[float64]bool{0: false, 1: true} {
		g := generator(t, 0, func(f *config.Config) {
			f.Distribution, f.Keys, f.HotShare = config.DistributionHotspot, 100, share
		})
		p := newPermutation(100)
		isHot := map[uint64]bool{}
		for index := range uint64(20) {
			isHot[p.apply(index)] = true
		}
		for _, r := range draw(g, 1000) {
			require.Equal(t, hot, isHot[r.Key])
		}
	}
}

// ages replays a client of latest and counts the ages of the keys that it reads, in its own
// insertions. It also checks the insertions.
func ages(t *testing.T, keys, client, clients, draws int, theta float64) []uint64 {
	t.Helper()
	g := generator(t, client, func(c *config.Config) {
		c.Distribution, c.Keys, c.Clients, c.Theta = config.DistributionLatest, keys, clients, theta
		c.Mix = config.Mix{{Op: config.OpRead, Share: 0.95}, {Op: config.OpInsert, Share: 0.05}}
	})
	p := newPermutation(uint64(keys))
	index := make([]int, keys)
	for i := range index {
		index[p.apply(uint64(i))] = i
	}
	newest, inserted := client-clients, 0
	observed := make([]uint64, keys)
	for _, r := range draw(g, draws) {
		switch r.Op {
		case Insert:
			newest = index[r.Key]
			if newest != (inserted*clients+client)%keys || r.Size != 32 {
				t.Fatalf("insertion %d is of number %d, with %d bytes", inserted, newest, r.Size)
			}
			inserted++
		default:
			observed[((newest-index[r.Key])%keys+keys)%keys]++
		}
	}
	require.Greater(t, inserted, keys/clients, "the insertions have wrapped around")
	return observed
}

func TestLatestIsZipfianOverAges(t *testing.T) {
	zipf := func(n int, theta float64) []float64 {
		probability, total := make([]float64, n), zetaRange(1, uint64(n)+1, theta)
		for age := range probability {
			probability[age] = math.Pow(float64(age+1), -theta) / total
		}
		return probability
	}
	for _, c := range []struct{ keys, client, clients int }{{1000, 0, 1}, {1024, 2, 3},
		{1000, 6, 7}, {100, 63, 64}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			statistic, critical := chiSquared(t, ages(t, c.keys, c.client, c.clients, 500_000,
				0.99), zipf(c.keys, 0.99))
			require.Less(t, statistic, critical)
		})
	}
	statistic, critical := chiSquared(t, ages(t, 1000, 0, 1, 500_000, 0.97), zipf(1000, 0.99))
	require.Greater(t, statistic, critical, "a theta that is off by two hundredths")
}

func TestClientsInsertDifferentKeysUntilAllAreDone(t *testing.T) {
	for _, distribution := range config.Distributions() {
		for _, c := range []struct{ keys, clients int }{{24, 3}, {25, 3}, {64, 1}, {7, 7},
			{7, 16}} {
			seen := map[uint64]bool{}
			generators := make([]*Generator, c.clients)
			for client := range generators {
				generators[client] = generator(t, client, func(f *config.Config) {
					f.Distribution, f.Keys, f.Clients = distribution, c.keys, c.clients
					f.Mix = config.Mix{{Op: config.OpInsert, Share: 1}}
				})
			}
			for i := range c.keys {
				var r Request
				generators[i%c.clients].Next(&r)
				require.Equal(t, Insert, r.Op)
				require.False(t, seen[r.Key], "%s %v: insertion %d of key %d comes too early",
					distribution, c, i, r.Key)
				seen[r.Key] = true
			}
			require.Len(t, seen, c.keys)
		}
	}
}

func TestSequentialIsSequential(t *testing.T) {
	for _, c := range []struct{ keys, clients int }{{10, 1}, {10, 3}, {1000, 7}, {3, 5}, {1, 2}} {
		for client := range c.clients {
			g := generator(t, client, func(f *config.Config) {
				f.Distribution, f.Keys, f.Clients = config.DistributionSequential, c.keys, c.clients
			})
			key := uint64(c.keys * client / c.clients)
			for _, r := range draw(g, 3*c.keys) {
				require.Equal(t, key, r.Key)
				key = (key + 1) % uint64(c.keys)
			}
		}
	}
	// The distribution is uniform and more even than chance, with a chi-squared of 0.
	even := countKeys(generator(t, 0, func(f *config.Config) {
		f.Distribution, f.Keys = config.DistributionSequential, 100
	}), 100, 10_000)
	probability := make([]float64, 100)
	for i := range probability {
		probability[i] = 0.01
	}
	statistic, _ := chiSquared(t, even, probability)
	// arm64 fuses multiplications and additions, and so rounds elsewhere
	require.InDelta(t, 0, statistic, 1e-12)
	drawn := countKeys(generator(t, 0, func(f *config.Config) { f.Keys = 100 }), 100, 10_000)
	statistic, _ = chiSquared(t, drawn, probability)
	require.Greater(t, statistic, 50.0, "draws are not as even")
}

// TestDistributionsScatter checks that hot keys are not neighbours.
func TestDistributionsScatter(t *testing.T) {
	for _, distribution := range []string{config.DistributionZipfian, config.DistributionHotspot,
		config.DistributionLatest} {
		const keys = 1 << 12
		g := generator(t, 0, func(c *config.Config) {
			c.Distribution, c.Keys, c.HotKeys, c.HotShare = distribution, keys, 0.01, 0.99
		})
		var ranges [8]int
		seen := map[uint64]bool{}
		for _, r := range draw(g, 3000) {
			if !seen[r.Key] {
				ranges[r.Key*8/keys]++
			}
			seen[r.Key] = true
		}
		for _, n := range ranges {
			require.Positive(t, n, "%s: %v", distribution, ranges)
			require.Less(t, n, len(seen)/2, "%s: %v", distribution, ranges)
		}
	}
}
