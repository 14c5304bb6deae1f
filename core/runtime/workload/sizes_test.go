package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

func sizesOf(t *testing.T, text string) config.Sizes {
	t.Helper()
	var c config.Sizes
	require.NoError(t, c.Set(text))
	return c
}

// sizeCounts counts sizes from 0 to most, as a generator draws them and as the store starts with
// them.
func sizeCounts(t *testing.T, c config.Sizes, n int) (written, initial []uint64) {
	t.Helper()
	written, initial = make([]uint64, c.Max()+1), make([]uint64, c.Max()+1)
	g := generator(t, 0, func(f *config.Config) { f.ValueSize = c })
	for _, r := range draw(g, 2*n) {
		if r.Op == Write {
			written[r.Size]++
		} else if r.Size != 0 {
			t.Fatalf("a read of %d bytes", r.Size)
		}
	}
	sizes := NewSizes(c)
	for key := range uint64(n) {
		initial[sizes.At(key)]++
	}
	return written, initial
}

func TestSizesAreDistributed(t *testing.T) {
	exact := func(c config.Sizes) []float64 {
		probability := make([]float64, c.Max()+1)
		if h := c.Histogram(); h != nil {
			total := 0.0
			for _, w := range h {
				total += w.Weight
			}
			for _, w := range h {
				probability[w.Size] = w.Weight / total
			}
			return probability
		}
		for size := c.Min(); size <= c.Max(); size++ {
			probability[size] = 1 / float64(c.Max()-c.Min()+1)
		}
		return probability
	}
	// sizes with probability 0 must not occur, and are left out of the test
	compare := func(observed []uint64, probability []float64) (statistic, critical float64) {
		var bins []uint64
		var chances []float64
		for size, p := range probability {
			if p == 0 {
				require.Zero(t, observed[size], "%d bytes", size)
				continue
			}
			bins, chances = append(bins, observed[size]), append(chances, p)
		}
		return chiSquared(t, bins, chances)
	}
	for _, text := range []string{
		"uniform:0-1", "uniform:10-73", "uniform:64-1KiB",
		"histogram:0=1,1=1", "histogram:8=0.5,100=3,101=0.1,900=7",
		"histogram:1=1,2=2,3=3,4=4,5=5,6=6,7=7",
	} {
		t.Run(text, func(t *testing.T) {
			c := sizesOf(t, text)
			written, initial := sizeCounts(t, c, 200_000)
			for _, observed := range [][]uint64{written, initial} {
				statistic, critical := compare(observed, exact(c))
				require.Less(t, statistic, critical)
			}
		})
	}
	written, initial := sizeCounts(t, sizesOf(t, "histogram:8=50,100=50"), 200_000)
	for _, observed := range [][]uint64{written, initial} {
		statistic, critical := compare(observed, exact(sizesOf(t, "histogram:8=51,100=49")))
		require.Greater(t, statistic, critical, "weights that are off by a fiftieth")
	}
}

func TestFixedSizes(t *testing.T) {
	for _, distribution := range config.Distributions() {
		g := generator(t, 0, func(c *config.Config) {
			c.Distribution, c.ReadRatio, c.ValueSize = distribution, 0, config.FixedSize(100)
		})
		for _, r := range draw(g, 1000) {
			require.Equal(t, 100, r.Size)
		}
	}
	require.Equal(t, 77, NewSizes(config.FixedSize(77)).At(5))
	require.Equal(t, config.MaxValueSize, NewSizes(config.FixedSize(config.MaxValueSize)).At(5))
}
