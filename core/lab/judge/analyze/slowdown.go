package analyze

import (
	"fmt"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Slowdown compares a mesh of several ranks with one rank under the same load of each rank, whose
// requests are all local.
type Slowdown struct {
	Cell  string        `json:"cell"`
	Alone result.Metric `json:"alone"` // the throughput of the one rank
	All   result.Metric `json:"all"`   // the throughput of all ranks together
	// Ratio is the median of Alone over that of All, above 1 if the ranks are slower together than
	// the one. Low and High are its 95% interval, absent if there are too few values for one. All
	// windows count, as they do for the rates and for reproduce, whatever the state of the machine.
	Ratio float64  `json:"ratio"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// ratioAlpha is the error of the intervals of ratios.
const ratioAlpha = 0.05

// SlowdownsOf returns the slowdown of each closed loop on a mesh of several ranks that the set also
// has with one rank. The share of remote requests may differ: one rank has none.
func SlowdownsOf(s *set.Set) []Slowdown {
	labels := set.LabelsOf(s.Cells)
	alone := map[string]*set.Cell{}
	key := func(c *set.Cell) string {
		return fmt.Sprintf("%d %s %s %s", c.Environment, c.Plugin.Provider, c.Plugin.RuntimeDigest,
			c.Key("ranks", "remote_share"))
	}
	mesh := func(c *set.Cell) bool {
		return c.Run != nil && c.Run.Mesh() && !c.OpenLoop() &&
			len(c.Samples[result.Throughput]) > 0
	}
	for i := range s.Cells {
		if c := &s.Cells[i]; mesh(c) && c.Run.Ranks == 1 {
			alone[key(c)] = c
		}
	}
	var list []Slowdown
	for i := range s.Cells {
		c := &s.Cells[i]
		one := alone[key(c)]
		if !mesh(c) || one == nil || one == c {
			continue
		}
		shift, ok := compare.NewShift(compare.Values{Cell: c, Metric: result.Throughput},
			compare.Values{Cell: one, Metric: result.Throughput},
			ranktest.Ratio, state.Classifier{}, ratioAlpha)
		if !ok {
			continue
		}
		rate := func(c *set.Cell) result.Metric {
			return result.Summarize(result.Throughput, c.Samples[result.Throughput])
		}
		d := Slowdown{Cell: labels.Of(c.Config), Alone: rate(one), All: rate(c)}
		d.Ratio = d.Alone.Median / d.All.Median
		if shift.Low != nil { // of the shift, which may be another estimate than the medians' ratio
			low, high := min(*shift.Low, d.Ratio), max(*shift.High, d.Ratio)
			d.Low, d.High = &low, &high
		}
		list = append(list, d)
	}
	return list
}
