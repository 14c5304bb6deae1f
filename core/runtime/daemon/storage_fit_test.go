package daemon

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/delay"
	"transportbench/core/base/machine"
)

var (
	update = flag.Bool("update", false, "rewrite the table of the fit")
	search = flag.Int("fit", 0, "search so many steps for a storage that fits better")
)

const (
	fittedTable = "../../../docs/reproduce.md"
	kvstore     = "../../../results/published/kvstore.json"
	kvstoreRuns = "../../../results/reproduce/kvstore.yaml"
)

// fitted are the metrics that a storage decides.
var fitted = []string{"iterations", "lookup_p50", "lookup_p90", "lookup_p99", "read_p50",
	"read_p90", "read_p99"}

// weights of the metrics in the search. Nothing in the imitation makes lookups slower under load.
var weights = map[string]float64{"iterations": 3, "read_p50": 3, "read_p90": 1, "read_p99": 0.5,
	"lookup_p50": 0.2, "lookup_p99": 0.1}

// published is a row of the document's table by concurrency.
type published struct {
	inFlight int
	metrics  map[string]float64 // iterations/s, and times in ms
}

func publishedCurve(t *testing.T) (rows []published) {
	text, err := os.ReadFile(kvstore)
	require.NoError(t, err)
	var document struct {
		Rows []struct {
			Config struct {
				Transport string
				InFlight  string `json:"in_flight"`
			}
			Metrics map[string]struct{ Value float64 }
		}
	}
	require.NoError(t, json.Unmarshal(text, &document))
	for _, row := range document.Rows {
		if row.Config.Transport != "kvstore-grpc" {
			continue // a recommendation
		}
		n, err := strconv.Atoi(row.Config.InFlight)
		require.NoError(t, err)
		metrics := map[string]float64{}
		for _, name := range fitted {
			metrics[name] = row.Metrics[name].Value
			if name != "iterations" {
				metrics[name] /= 1e6
			}
		}
		rows = append(rows, published{n, metrics})
	}
	return rows
}

// storageOf returns the storage of the sweep that measures the document again.
func storageOf(t *testing.T) config.Config {
	text, err := os.ReadFile(kvstoreRuns)
	require.NoError(t, err)
	values := map[string]string{"profile": "kvcache"}
	for _, line := range regexp.MustCompile(`(?m)^  ([a-z]+-(?:delay|lanes)): (\S+)$`).
		FindAllStringSubmatch(string(text), -1) {
		values[line[1]] = line[2]
	}
	cfg, _, err := config.Resolve(config.Layer{Values: values})
	require.NoError(t, err)
	cfg.Transport = "grpc"
	require.NotEmpty(t, cfg.ReadDelay)
	return cfg
}

// imitate runs the storage with so many callers, each of which repeats 7 lookups, 6 reads and 3
// writes, one after the other, in a simulated time. The network takes nothing.
func imitate(cfg config.Config, callers int, seconds float64) map[string]float64 {
	clock := machine.Calibrated()
	s := newStorage(clock, cfg, 0, callers)
	cycle := slices.Concat(slices.Repeat([]uint8{storedLookup}, 7),
		slices.Repeat([]uint8{storedRead}, 6), slices.Repeat([]uint8{storedWrite}, 3))
	end := clock.Ticks(time.Duration(seconds * float64(time.Second)))
	next := make([]int, callers)
	random := rand.New(rand.NewPCG(1, 2))
	issue := func(caller int, now uint64) {
		s.add(stored{kind: cycle[next[caller]], peer: 0, header: [len(stored{}.header)]byte{
			byte(caller)}}, now)
		next[caller] = (next[caller] + 1) % len(cycle)
	}
	for caller := range callers {
		next[caller] = random.IntN(len(cycle))
		issue(caller, 1)
	}
	var times [storageKinds][]float64
	done := 0
	for {
		now := s.active[0].due
		if now > end {
			break
		}
		r, _ := s.next(now)
		if now > end/10 { // warm
			times[r.kind] = append(times[r.kind], float64(clock.Nanos(now-r.arrived))/1e6)
			done++
		}
		issue(int(r.header[0]), now)
	}
	out := map[string]float64{"iterations": float64(done) / float64(len(cycle)) / seconds / 0.9}
	for kind, name := range map[int]string{storedRead: "read", storedLookup: "lookup"} {
		slices.Sort(times[kind])
		for _, p := range []int{50, 90, 99} {
			out[fmt.Sprintf("%s_p%d", name, p)] = times[kind][len(times[kind])*p/100]
		}
	}
	return out
}

// misfit is the weighted mean square of the logarithms of the ratios to the document.
func misfit(cfg config.Config, rows []published, seconds float64) (sum float64) {
	total := 0.0
	for _, row := range rows {
		got := imitate(cfg, row.inFlight, seconds)
		for name, weight := range weights {
			d := math.Log(got[name] / row.metrics[name])
			sum, total = sum+weight*d*d, total+weight
		}
	}
	return sum / total
}

// TestStorageFits compares the storage that reproduce kvstore imitates with the document's table:
// its throughput and median reads are within 25% at each concurrency. With -fit=N it searches for a
// better one, and with -update it rewrites the table on the page.
func TestStorageFits(t *testing.T) {
	rows, cfg := publishedCurve(t), storageOf(t)
	columns := []string{"iterations", "read_p50", "read_p99"}
	if *search > 0 {
		cfg = fit(t, cfg, rows, *search)
	}
	text, err := os.ReadFile(fittedTable)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)<!-- fit -->\n.*?<!-- end of fit -->`).FindString(string(text))
	require.NotEmpty(t, block)
	var shown []float64 // the figures on the page
	for _, m := range regexp.MustCompile(`[\d.]+`).FindAllString(
		block[strings.LastIndex(block, "---|\n"):], -1) {
		value, err := strconv.ParseFloat(m, 64)
		require.NoError(t, err)
		shown = append(shown, value)
	}
	var table strings.Builder
	fmt.Fprint(&table, "<!-- fit -->\n| in flight | iterations/s |")
	for _, name := range columns[1:] {
		fmt.Fprintf(&table, " %s, ms |", strings.ReplaceAll(name, "_", " "))
	}
	fmt.Fprint(&table, "\n|", strings.Repeat("---|", len(columns)+1), "\n")
	for i, row := range rows {
		got := imitate(cfg, row.inFlight, 1000)
		fmt.Fprintf(&table, "| %d |", row.inFlight)
		for j, name := range columns {
			fmt.Fprintf(&table, " %.1f (%.1f) |", got[name], row.metrics[name])
			if name == "iterations" || name == "read_p50" {
				require.InEpsilon(t, row.metrics[name], got[name], 0.25, "%s at %d", name,
					row.inFlight)
			}
			at := i*(2*len(columns)+1) + 1 + 2*j
			if !*update {
				require.Greater(t, len(shown), at+1, "the table is short")
				require.InEpsilon(t, got[name], shown[at], 0.05, "%s at %d: -update", name,
					row.inFlight)
				require.InDelta(t, row.metrics[name], shown[at+1], 0.051)
			}
		}
		fmt.Fprintln(&table)
	}
	fmt.Fprint(&table, "<!-- end of fit -->")
	if *update {
		require.NoError(t, os.WriteFile(fittedTable,
			[]byte(strings.Replace(string(text), block, table.String(), 1)), 0o644))
	}
}

// fit changes the storage at random and keeps what fits better.
func fit(t *testing.T, cfg config.Config, rows []published, steps int) config.Config {
	random := rand.New(rand.NewPCG(3, 4))
	best := misfit(cfg, rows, 100)
	number := regexp.MustCompile(`[\d.]+ms`)
	for range steps {
		other := cfg
		for _, d := range []*delay.Delay{&other.ReadDelay, &other.WriteDelay, &other.LookupDelay} {
			*d = delay.Delay(number.ReplaceAllStringFunc(string(*d), func(text string) string {
				ms, err := strconv.ParseFloat(strings.TrimSuffix(text, "ms"), 64)
				require.NoError(t, err)
				if random.IntN(3) == 0 {
					ms *= math.Exp(random.NormFloat64() * 0.06)
				}
				return strconv.FormatFloat(ms, 'f', 2, 64) + "ms"
			}))
		}
		if err := other.Validate(); err != nil {
			continue
		}
		if m := misfit(other, rows, 100); m < best {
			cfg, best = other, m
		}
	}
	t.Logf("misfit %.4f: read %s, write %s, lookup %s, lanes %d and %d", best, cfg.ReadDelay,
		cfg.WriteDelay, cfg.LookupDelay, cfg.StorageLanes, cfg.WriteLanes)
	return cfg
}
