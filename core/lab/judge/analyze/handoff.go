package analyze

import (
	"fmt"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Handoff is how fast a cell hands over caches of keys and values.
type Handoff struct {
	At   int           `json:"-"` // the index of the cell in its set
	Cell string        `json:"cell"`
	Rate result.Metric `json:"rate"`
	// FirstLayer and All are the medians of the times to the first layer and to all, absent if no
	// hand-off came so far in a window.
	FirstLayer *result.Metric `json:"first_layer,omitempty"`
	All        *result.Metric `json:"all,omitempty"`
	// BulkShare is Rate over the highest rate at which the set hands over the same in bulk, within
	// states of the machine. It is absent in bulk, and if the set has no such cell. Low and High
	// are its 95% interval, absent if there are too few values for one.
	BulkShare *float64 `json:"bulk_share,omitempty"`
	Low       *float64 `json:"low,omitempty"`
	High      *float64 `json:"high,omitempty"`
}

// OfPages are the options that follow from the size of pages.
func OfPages() []string { return []string{"value_size", "in_flight", "keys", "distribution"} }

// HandoffsOf returns the measured hand-offs of a set.
func HandoffsOf(s *set.Set) (list []Handoff) {
	labels, states := set.LabelsOf(s.Cells).Without(OfPages()...), state.NewClassifier(s)
	key := func(c *set.Cell) string {
		return fmt.Sprintf("%d %s %s", c.Environment, c.Plugin.Provider,
			c.Key(append(OfPages(), "tokens_per_block")...))
	}
	rate := func(c *set.Cell) result.Metric {
		m, _ := c.Metric(result.Goodput)
		return m
	}
	bulk := map[string]*set.Cell{}
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Status != set.Measured || c.Run == nil || c.Run.Handoff == "" {
			continue
		}
		h := Handoff{At: i, Cell: labels.Of(c.Config), Rate: rate(c)}
		h.FirstLayer = metricOrNil(c, result.FirstPart+"_p50")
		h.All = metricOrNil(c, result.Iteration+"_p50")
		list = append(list, h)
		have := bulk[key(c)]
		if c.Run.Bulk() && (have == nil || rate(have).Median < h.Rate.Median) {
			bulk[key(c)] = c
		}
	}
	for i := range list {
		h := &list[i]
		c := &s.Cells[h.At]
		of := bulk[key(c)]
		if of == nil || c.Run.Bulk() {
			continue
		}
		shift, ok := compare.NewShift(compare.Values{Cell: of, Metric: result.Goodput},
			compare.Values{Cell: c, Metric: result.Goodput}, ranktest.Ratio, states, ratioAlpha)
		if ok {
			h.BulkShare, h.Low, h.High = &shift.Value, shift.Low, shift.High
		}
	}
	return list
}

// metricOrNil returns a metric of a cell, or nil if it has none.
func metricOrNil(c *set.Cell, name string) *result.Metric {
	if m, ok := c.Metric(name); ok {
		return &m
	}
	return nil
}
