package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// rateOption is the option that is the load of an open loop, and speedOption that of a replay.
const rateOption, speedOption = "rate", "speed"

// writeOpen writes one row for each open loop, by load, and within a load the lowest p50 first. It
// does not order by p99, which stalls of the machine can decide.
func writeOpen(out *doc.Doc, rows []*set.Cell, loads loads, states state.Classifier,
	pools map[*set.Cell][]state.Pool) {
	bestFirst(rows, loads, states, result.ResponseP50, func(c *set.Cell, state string) float64 {
		for _, p := range pools[c] {
			if p.State == state {
				return p.Percentiles[result.ResponseP50].Value
			}
		}
		return c.Median(result.ResponseP50)
	})
	order := "the lowest p50 first"
	if states.Count() > 1 {
		order += ", in the state in which all rows of a load have most windows"
	}
	if slices.ContainsFunc(rows, missedRate) {
		order += "; rows that did not reach their rate are last"
	}
	out.Line("open loop: response times from when operations were due, all windows together; " +
		order)
	writeRows(out, rows, loads.name,
		col("provider", func(c *set.Cell) string { return c.Plugin.Provider }),
		col(">rate", offered),
		col(">p50", metricColumn(result.ResponseP50, doc.Median)),
		col(">p99", metricColumn(result.ResponseP99, doc.Median)),
		col(">95% interval", func(c *set.Cell) string {
			text := sampled(c, result.ResponseP99, format.Range).Text
			if text != "-" && c.Launches() == 1 {
				text += " within one process start"
			}
			return text
		}),
		col(">p99.9", metricColumn(result.ResponseP999, doc.Median)),
		col(">samples", pooledSamples),
		col(">stalled", metricColumn(result.Stalled,
			func(m result.Metric) string { return fmt.Sprintf("%.1f%%", 100*m.Median) })),
		col(">CPU/op", metricColumn(result.ProcessCPUPerOp, doc.Median)),
		col(">kernel/op", metricColumn(result.KernelPerOp, doc.Median)),
		col(">busy/op", metricColumn(result.BusyPerOp, doc.Median)),
		col("checks", CellChecks),
	)
	help := new(doc.Doc)
	help.Line("CPU/op: of all threads, idle ones that spin included; busy/op: of the polling " +
		"threads' iterations that found work")
	writeStalled(help, rows)
	out.Fold("columns of open loops", help)
}

// writeStalled explains the column of stalls, and in which rows they make the p99.
func writeStalled(out *doc.Doc, rows []*set.Cell) {
	stalled := slices.DeleteFunc(slices.Clone(rows),
		func(c *set.Cell) bool { return !(c.Median(result.Stalled) > result.MuchStalled) })
	if len(stalled) == 0 {
		return
	}
	text := "stalled: share of the time for which something stopped the client or the daemon, or " +
		"it took far longer than it works at a time"
	limit := 0.0
	for _, c := range stalled {
		limit = max(limit, c.Median(result.GapLimit))
	}
	if limit > 0 && slices.ContainsFunc(stalled,
		func(c *set.Cell) bool { return c.Median(result.ResponseP99) > limit }) {
		text += "; above 1%, a p99 of over " + format.Time(limit) + " is a time of such stalls"
	}
	out.Line(text)
}

// writeCapacities writes the capacities that rates are shares of, each once.
func writeCapacities(out *doc.Doc, open []*set.Cell, loads loads, states state.Classifier) {
	var rows []*set.Cell
	for _, c := range open {
		same := func(other *set.Cell) bool {
			return other.Key(rateOption, speedOption) == c.Key(rateOption, speedOption)
		}
		if c.Capacity != nil && !slices.ContainsFunc(rows, same) {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b *set.Cell) int {
		return cmp.Compare(b.Capacity.Value,
			a.Capacity.Value)
	})
	labels := loads.labels.Without(rateOption, speedOption)
	out.Line("\ncapacities that rates are shares of: throughput at max in the slowest state " +
		"of the machine that had two windows there")
	writeRows(out, rows, func(c *set.Cell) string { return labels.Load(c.Config) },
		col(">capacity", func(c *set.Cell) doc.Cell { return doc.Rate(c.Capacity.Value) }),
		col("state", func(c *set.Cell) string {
			return cmp.Or(states.OfCapacity(c.Capacity), "-")
		}),
		col("windows", func(c *set.Cell) string {
			return fmt.Sprintf("%d of %d", c.Capacity.Throughput.N,
				max(len(c.Capacity.Windows), c.Capacity.Throughput.N))
		}),
		col("figure", func(c *set.Cell) string { return capacityFigure(c.Capacity) }),
	)
}

// capacityFigure returns which figure of the windows the capacity is.
func capacityFigure(c *result.Capacity) string {
	switch {
	case c.Throughput.Low != nil && c.Value == *c.Throughput.Low:
		return "lower end of the 95% interval"
	case c.Throughput.N > 1 && c.Value == c.Throughput.Median:
		return "median"
	case c.Throughput.N > 1:
		return "lowest window"
	}
	if len(c.Windows) > 1 {
		return "the only window in that state"
	}
	return "the only window"
}

// missedRate reports whether a cell completed fewer operations than were due.
func missedRate(c *set.Cell) bool {
	return slices.ContainsFunc(c.Warnings, func(w result.Finding) bool {
		return w.Name == "rate" && w.Severity == result.Error
	})
}

// offered returns the rate of an open loop, after the one reached if it was missed.
func offered(c *set.Cell) doc.Cell {
	rate := c.OfferedRate()
	if rate == 0 {
		return doc.None()
	}
	cell := doc.Rate(rate)
	if missedRate(c) {
		_, unit, _ := strings.Cut(cell.Text, " ")
		reached := doc.Rate(c.Median(result.Throughput)).Text
		cell.Text = strings.TrimSuffix(reached, " "+unit) + " of " + cell.Text
	}
	return cell
}

// pooledSamples returns the number of response times behind a cell's percentiles.
func pooledSamples(c *set.Cell) string {
	p, pooled := c.Pooled[result.ResponseP50]
	if !pooled {
		return "-"
	}
	return format.Magnitude(float64(p.Samples))
}
