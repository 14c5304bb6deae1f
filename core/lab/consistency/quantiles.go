package consistency

import (
	"transportbench/core/base/config"
	"transportbench/core/lab/result"
)

// quantiles are those that metrics are named by, in order.
var quantiles = []struct {
	name string
	at   float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}}

// families are what percentiles are of.
func families() []string {
	return append(config.OpNames(), "latency", "response", result.Iteration)
}

// meanBounds are the least and the greatest mean that the percentiles of the
// latency allow; 0 where they bound nothing. Between two percentiles all values
// may be as low as the lower one or as high as the higher one.
func meanBounds(f Figures) (low, high float64) {
	before, last, complete := 0.0, 0.0, false
	for _, q := range quantiles {
		v, has := f.Values["latency_"+q.name]
		if !has {
			continue
		}
		low += (q.at - before) * last
		high += (q.at - before) * v
		before, last = q.at, v
		complete = q.at == 1
	}
	low += (1 - before) * last
	if !complete {
		high = 0
	}
	return low, high
}
