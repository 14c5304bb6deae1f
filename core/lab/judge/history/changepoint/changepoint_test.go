package changepoint

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the rates of false alarms into docs/history.md")

// series has levels, each for a number of values, with normal noise of deviation 1.
func series(r *rand.Rand, parts ...[2]float64) []float64 {
	var list []float64
	for _, p := range parts {
		for range int(p[0]) {
			list = append(list, p[1]+r.NormFloat64())
		}
	}
	return list
}

func TestKnownSteps(t *testing.T) {
	for name, c := range map[string]struct {
		parts [][2]float64
		want  []int
	}{
		"one":                {[][2]float64{{15, 100}, {15, 106}}, []int{15}},
		"the last three":     {[][2]float64{{30, 100}, {3, 106}}, []int{30}},
		"up and down":        {[][2]float64{{20, 100}, {10, 108}, {20, 100}}, []int{20, 30}},
		"several in one way": {[][2]float64{{20, 100}, {20, 106}, {20, 112}}, []int{20, 40}},
		"a short series":     {[][2]float64{{4, 100}, {4, 120}}, []int{4}},
		"none":               {[][2]float64{{60, 100}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, places := 0, 0
			const trials = 200
			r := rand.New(rand.NewPCG(1, 2))
			for range trials {
				got := Find(series(r, c.parts...))
				if len(got) == len(c.want) {
					found++
					for i, at := range got {
						if math.Abs(float64(at-c.want[i])) <= 1 {
							places++
						}
					}
				}
			}
			require.GreaterOrEqual(t, found, trials*9/10, "series with the right number of changes")
			require.GreaterOrEqual(t, places, len(c.want)*found*9/10, "changes at their place")
		})
	}
}

// A single value far from the others is no change, and neither is one of a constant series.
func TestOutliers(t *testing.T) {
	r, alarms := rand.New(rand.NewPCG(3, 4)), 0
	for range 200 {
		values := series(r, [2]float64{40, 100})
		values[r.IntN(40)] = 200
		alarms += min(1, len(Find(values)))
	}
	require.LessOrEqual(t, alarms, 10)
	constant := make([]float64, 20)
	require.Empty(t, Find(constant))
	constant[7] = 1
	require.Empty(t, Find(constant))
	for i := 10; i < 20; i++ {
		constant[i] = 5
	}
	require.Equal(t, []int{10}, Find(constant))
	require.Empty(t, Find([]float64{1, 1, 1, 9, 9, 9, 9}), "too short")
}

// A slow drift is one or more changes in its direction, which add up to it.
func TestDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		values := series(r, [2]float64{100, 100})
		for i := range values {
			values[i] += float64(i) / 10
		}
		at := append(append([]int{0}, Find(values)...), len(values))
		require.Greater(t, len(at), 2, "a drift of ten deviations is found")
		last := math.Inf(-1)
		for i := range len(at) - 1 {
			level := 0.0
			for _, v := range values[at[i]:at[i+1]] {
				level += v / float64(at[i+1]-at[i])
			}
			require.Greater(t, level, last, "all changes go up: %v", at)
			last = level
		}
	}
}

// The pruning changes nothing.
func TestPruning(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		values := series(r, [2]float64{10, 0}, [2]float64{float64(2 + r.IntN(20)), 3 * r.Float64()},
			[2]float64{10, 1})
		cost := func(from, to int) float64 {
			mean, sum := 0.0, 0.0
			for _, v := range values[from:to] {
				mean += v / float64(to-from)
			}
			for _, v := range values[from:to] {
				sum += (v - mean) * (v - mean)
			}
			return sum
		}
		const perSegment = 12.0
		best := make([]float64, len(values)+1)
		for end := 1; end <= len(values); end++ {
			best[end] = math.Inf(1)
			for from := range end {
				if end-from >= shortest && (from == 0 || from >= shortest) {
					before := -perSegment
					if from > 0 {
						before = best[from]
					}
					best[end] = min(best[end], before+cost(from, end)+perSegment)
				}
			}
		}
		total, from := -perSegment, 0
		for _, at := range append(partition(values, perSegment), len(values)) {
			total += cost(from, at) + perSegment
			from = at
		}
		require.InDelta(t, best[len(values)], total, 1e-6)
	}
}

// The document has the false alarms on series without a change, by the kind of the noise.
func TestFalseAlarms(t *testing.T) {
	noises := []struct {
		name string
		draw func(*rand.Rand) float64
	}{
		{"normal", (*rand.Rand).NormFloat64},
		{"heavy tails (Student's t, 3 degrees of freedom)", func(r *rand.Rand) float64 {
			chi := 0.0
			for range 3 {
				x := r.NormFloat64()
				chi += x * x
			}
			return r.NormFloat64() / math.Sqrt(chi/3)
		}},
		{"skewed (exponential)", (*rand.Rand).ExpFloat64},
		{"one value in ten 10 deviations slower", func(r *rand.Rand) float64 {
			x := r.NormFloat64()
			if r.IntN(10) == 0 {
				x += 10
			}
			return x
		}},
	}
	var table strings.Builder
	table.WriteString("| noise | 10 sets | 30 sets | 100 sets |\n|---|---|---|---|\n")
	for _, noise := range noises {
		fmt.Fprintf(&table, "| %s |", noise.name)
		for _, n := range []int{10, 30, 100} {
			const trials = 1000
			r, alarms := rand.New(rand.NewPCG(9, uint64(n))), 0
			values := make([]float64, n)
			for range trials {
				for i := range values {
					values[i] = noise.draw(r)
				}
				alarms += min(1, len(Find(values)))
			}
			fmt.Fprintf(&table, " %.1f |", 100*float64(alarms)/trials)
		}
		table.WriteString("\n")
	}
	const document, mark = "../../../../../docs/history.md", "<!-- false alarms -->\n"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), mark)
	require.True(t, found)
	old, after, found := strings.Cut(rest, mark)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(before+mark+table.String()+mark+after),
			0o644))
		return
	}
	require.Equal(t, table.String(), old,
		"run go test ./core/lab/judge/history/changepoint -run FalseAlarms -update")
}

func BenchmarkFind(b *testing.B) {
	values := series(rand.New(rand.NewPCG(1, 2)), [2]float64{500, 100}, [2]float64{500, 105})
	for b.Loop() {
		Find(values)
	}
}
