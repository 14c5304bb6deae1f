package compare

import (
	"fmt"
	"slices"

	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// rateOption is the option that is the load of an open loop.
const rateOption = "rate"

// ratesApart is the difference from which the rates of two open loops are different loads.
const ratesApart = 0.05

// bySchedule lists the metrics that the schedule of an open loop sets, unless it falls behind.
var bySchedule = []string{result.Throughput, result.Goodput}

// The notes on rates, each once a report.
const (
	scheduledNote = "open loops that kept their load have no verdict on throughput and goodput, " +
		"which are their schedule's"
	sharesNote = "where a rate is a share of the capacity, each cell has its own capacity and " +
		"so its own rate: " +
		"response times are compared at the same share, not at the same rate"
)

// ratesDiffer reports whether both cells are open loops and their rates are different loads.
func (p pair) ratesDiffer() bool {
	a, b := p.old.OfferedRate(), p.new.OfferedRate()
	return a > 0 && b > 0 && max(a, b) > (1+ratesApart)*min(a, b)
}

// ratesNote describes the rates of a pair that differ.
func (p pair) ratesNote(states state.Classifier) string {
	return fmt.Sprintf("the rates differ: %s in %s and %s in %s; --across rate compares them",
		describeRate(p.old, states), p.oldName(), describeRate(p.new, states), p.newName())
}

// describeRate returns the rate of an open loop with the capacity that it is a share of.
func describeRate(c *set.Cell, states state.Classifier) string {
	text := format.Rate(c.OfferedRate())
	if c.Capacity == nil {
		return text
	}
	text += fmt.Sprintf(" (%s of %s", result.FormatShare(c.Capacity.Share),
		format.Rate(c.Capacity.Value))
	if in := states.OfCapacity(c.Capacity); in != "" {
		text += ", " + in
	}
	return text + ")"
}

// keptLoad reports whether a cell is an open loop that kept its load.
func keptLoad(c *set.Cell) bool {
	return c.OfferedRate() > 0 && !slices.ContainsFunc(c.Warnings,
		func(w result.Finding) bool { return w.Name == "rate" })
}

// scheduled reports whether a metric of a pair is that of the schedules on both sides.
func (p pair) scheduled(metric string) bool {
	return slices.Contains(bySchedule, metric) && keptLoad(p.old) && keptLoad(p.new)
}
