package result

// Ratio is a ratio of two hardware events, by their names in results.
type Ratio struct{ Of, Per string }

// In returns the ratio; ok is false if one of its events was not counted.
func (r Ratio) In(counts map[string]uint64) (value float64, ok bool) {
	of, ok := counts[r.Of]
	if !ok || counts[r.Per] == 0 {
		return 0, false
	}
	return float64(of) / float64(counts[r.Per]), true
}

// CounterRatios are the ratios of hardware events that microbenchmarks have as metrics, by the
// names of these.
var CounterRatios = map[string]Ratio{
	"counters.ipc":        {"instructions", "cycles"},
	"counters.cache_miss": {"cache_misses", "cache_references"},
	"counters.l1_miss":    {"l1d_load_misses", "l1d_loads"},
	"counters.llc_miss":   {"llc_load_misses", "llc_loads"},
}
