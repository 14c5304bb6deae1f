package consistency

import (
	"fmt"

	"transportbench/core/base/grouped"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// Result applies [Check] to every repeat of a result, and compares its percentiles with its
// histograms. It reports a rule that several repeats violate once, for the first of them.
func Result(r *result.Result) []result.Finding {
	var list []result.Finding
	load := LoadOf(&r.Config)
	for i := range r.Repeats {
		repeat := &r.Repeats[i]
		found := Check(Figures{Load: load, Values: repeat.Samples})
		for _, c := range append(found, merged(repeat)...) {
			list = append(list, about(c, fmt.Sprintf("repeat %d", repeat.Index+1)))
		}
	}
	return bySeverity(first(list))
}

// about returns a finding with its subject.
func about(c result.Finding, subject string) result.Finding {
	c.Subject, c.Message = subject, subject+": "+c.Message
	return c
}

// first keeps the first check of each name.
func first(list []result.Finding) (kept []result.Finding) {
	for _, group := range grouped.By(list, func(c result.Finding) string { return c.Name }) {
		c := group[0]
		if more := len(group) - 1; more > 0 {
			c.Message += fmt.Sprintf(" (and %d more like it)", more)
		}
		kept = append(kept, c)
	}
	return kept
}

// merged compares a repeat's percentiles with its merged histogram, and detects averages of the
// clients' percentiles.
func merged(repeat *result.Repeat) []result.Finding {
	all, err := result.Histograms(repeat.Latency)
	if err != nil {
		return failed("percentiles", result.Error, 1, 0, "%v", err)
	}
	if all.Count() == 0 {
		return nil
	}
	for _, q := range quantiles[:len(quantiles)-1] {
		name := "latency_" + q.name
		v, has := repeat.Samples[name]
		real := all.Quantile(q.at)
		// Files of 1.x have steps of the clock, later ones interpolate within a step.
		if !has || apart(v, real) <= recorded ||
			apart(v, all.Interpolate(q.at, repeat.ClockStep())) <= recorded {
			continue
		}
		average, clients := averaged(repeat, q.at)
		if clients > 1 && apart(v, average) <= recorded {
			return failed("averaged_percentiles", result.Error, v, real,
				"%s is %s, which is the average of the %d clients' percentiles; by the merged "+
					"histogram, that of all calls is %s",
				name, format.Time(v), clients, format.Time(real))
		}
		return failed("percentiles", result.Error, v, real,
			"%s is %s, but the merged histogram has %s", name, format.Time(v), format.Time(real))
	}
	return nil
}

func averaged(repeat *result.Repeat, quantile float64) (mean float64, clients int) {
	for _, c := range repeat.Clients() {
		if h, err := record.DecodeHistogram(c.Latency); err == nil && h.Count() > 0 {
			mean += h.Quantile(quantile)
			clients++
		}
	}
	return mean / float64(max(clients, 1)), clients
}
