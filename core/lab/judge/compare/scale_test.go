package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/set"
)

func TestPairwise(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	a := newSet(cell(map[string]string{"options.ring": "x"}, noisy(r, 10, 1e6, 0.005)...))
	b := newSet(cell(map[string]string{"options.ring": "y"}, noisy(r, 10, 1.2e6, 0.005)...))
	b.Cells[0].Plugin.Provider = "other"
	report, err := Pairwise(a, b, Defaults())
	require.NoError(t, err)
	require.Equal(t, "shm ring=x -> shm ring=y", report.Changes[0].Cell)
	require.Equal(t, Better, report.Changes[0].Verdict)
	_, err = Pairwise(a, newSet(), Defaults())
	require.Error(t, err)
}

// large returns a set of many cells with twelve metrics, of which all but one have ties.
func large(cells int, seed uint64) *set.Set {
	r := rand.New(rand.NewPCG(seed, 1))
	s := newSet()
	for i := range cells {
		config := map[string]string{"in_flight": fmt.Sprint(i%100 + 1),
			"value_size": fmt.Sprint(i / 100)}
		for o := range 20 {
			config[fmt.Sprint("some_option_", o)] = "and its value"
		}
		c := cell(config, noisy(r, 10, 1e6, 0.01)...)
		for _, metric := range []string{"goodput", "latency_p50", "latency_p90", "latency_p99",
			"latency_p999", "latency_max",
			"floor", "floor_ratio", "op_time_ratio", "cpu_per_op", "client_fairness"} {
			values := noisy(r, 10, 1000, 0.01)
			for v := range values {
				values[v] = math.Round(values[v])
			}
			c.Samples[metric] = values
		}
		for repeat := range 10 {
			distance := 50 * math.Pow(6, float64(r.IntN(2)))
			c.Windows = append(c.Windows, set.Window{
				StartedAt:      time.Date(2026, 3, 4, 5, 6, 7, 100_000*repeat+i, time.UTC),
				Launch:         repeat,
				DistanceBefore: distance, DistanceAfter: distance * (1 + 0.01*r.NormFloat64()),
			})
		}
		s.Cells = append(s.Cells, c)
	}
	return s
}

// BenchmarkDiffOfTenThousand reads and compares two sets of 10,000 cells. It should take less than
// 5 s and 1 GiB.
func BenchmarkDiffOfTenThousand(b *testing.B) {
	var paths []string
	for i := range uint64(2) {
		dir := b.TempDir()
		require.NoError(b, large(10_000, i).WriteIndex(dir))
		paths = append(paths, dir)
	}
	runtime.GC()
	for b.Loop() {
		old, new, err := consistency.ReadBoth(paths[0], paths[1])
		require.NoError(b, err)
		_, err = Diff(old, new, Defaults())
		require.NoError(b, err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/5, "of-the-time-limit")
	b.ReportMetric(float64(m.Sys)/(1<<30), "of-the-memory-limit")
}
