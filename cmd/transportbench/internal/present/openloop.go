package present

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// writeOpen writes one row for each open loop, by load, and within a load the lowest p99 first.
func writeOpen(w io.Writer, rows []*set.Cell, loads loads) {
	slices.SortStableFunc(rows, func(a, b *set.Cell) int {
		return cmp.Or(cmp.Compare(loads.position(a), loads.position(b)), cmp.Compare(medianOf(a, result.ResponseP99), medianOf(b, result.ResponseP99)))
	})
	fmt.Fprintln(w, "open loop: response times from when operations were due, all windows together")
	writeRows(w, rows, []column{
		{"load", loads.name},
		{"transport", (*set.Cell).Transport},
		{"provider", func(c *set.Cell) string { return c.Plugin.Provider }},
		{">rate", offered},
		{">p50", metricColumn(result.ResponseP50, format.Value)},
		{">p99", metricColumn(result.ResponseP99, format.Value)},
		{">95% interval", func(c *set.Cell) string {
			text := sampled(c, result.ResponseP99, interval)
			if text != "-" && c.Launches() == 1 {
				text += " within one launch"
			}
			return text
		}},
		{">p99.9", metricColumn(result.ResponseP999, format.Value)},
		{">samples", pooledSamples},
		{">CPU/op", metricColumn(result.ProcessCPUPerOp, format.Value)},
		{">kernel/op", metricColumn(result.KernelPerOp, format.Value)},
		{">busy/op", metricColumn(result.BusyPerOp, format.Value)},
		{"checks", cellChecks},
	})
	for _, c := range rows {
		if c.Capacity != nil {
			fmt.Fprintln(w, "the capacity of a transport is the lower end of the 95% interval of its throughput at rate=max")
			break
		}
	}
}

// offered returns the rate of an open loop.
func offered(c *set.Cell) string {
	if c.Capacity != nil {
		return format.Rate(c.Capacity.Rate)
	}
	if rate, err := strconv.ParseFloat(c.Config["rate"], 64); err == nil {
		return format.Rate(rate)
	}
	return "-"
}

func medianOf(c *set.Cell, metric string) float64 {
	m, _ := c.Metric(metric)
	return m.Median
}

// pooledSamples returns the number of response times behind a cell's percentiles.
func pooledSamples(c *set.Cell) string {
	p, pooled := c.Pooled[result.ResponseP50]
	if !pooled {
		return "-"
	}
	return magnitude(float64(p.Samples))
}
