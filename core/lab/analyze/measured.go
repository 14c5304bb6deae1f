package analyze

import (
	"maps"
	"slices"
	"strings"
	"time"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// MeasuredThere returns the throughput of the cell of a set that has a cell's
// configuration but for a change as [Model.Predict] takes it, or nil where the
// set has none: what the prediction can be held against.
func MeasuredThere(s *set.Set, c *set.Cell, change string) *result.Metric {
	wanted := maps.Clone(c.Config)
	var changed []string
	for part := range strings.SplitSeq(change, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.ReplaceAll(name, "-", "_")
		if !slices.Contains([]string{"clients", "in_flight", "daemons", "remote_share", "burn"}, name) {
			return nil // which no option sets
		}
		if d, err := time.ParseDuration(value); err == nil && name == "burn" {
			value = d.String() // as results have it
		}
		wanted[name] = value
		changed = append(changed, name)
	}
	for i := range s.Cells {
		other := &s.Cells[i]
		if other.Environment == c.Environment && other.Plugin.Provider == c.Plugin.Provider && len(other.Samples[result.Throughput]) > 0 &&
			set.Key(wanted) == other.Key() && !slices.ContainsFunc(changed, func(name string) bool { return other.Config[name] != wanted[name] }) {
			return new(result.Summarize(result.Throughput, other.Samples[result.Throughput]))
		}
	}
	return nil
}
