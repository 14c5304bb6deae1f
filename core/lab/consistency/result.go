package consistency

import (
	"fmt"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// Result is [Check] of every repeat of a result, and asks besides whether its
// percentiles are those of its histograms. What is found in several repeats is
// told of the first.
func Result(r *result.Result) []result.Check {
	var list []result.Check
	load := LoadOf(&r.Config)
	for i := range r.Repeats {
		repeat := &r.Repeats[i]
		found := Check(Figures{Load: load, Values: repeat.Samples})
		for _, c := range append(found, merged(repeat)...) {
			c.Message = fmt.Sprintf("repeat %d: %s", repeat.Index+1, c.Message)
			list = append(list, c)
		}
	}
	return bySeverity(first(list))
}

// first keeps one of each name.
func first(list []result.Check) []result.Check {
	var kept []result.Check
	count := map[string]int{}
	for _, c := range list {
		if count[c.Name]++; count[c.Name] == 1 {
			kept = append(kept, c)
		}
	}
	for i, c := range kept {
		if more := count[c.Name] - 1; more > 0 {
			kept[i].Message += fmt.Sprintf(" (and %d more like it)", more)
		}
	}
	return kept
}

// merged compares a repeat's percentiles with those of its merged histogram,
// and says where they are the mean of the clients' own.
func merged(repeat *result.Repeat) []result.Check {
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
		if !has || apart(v, real) <= recorded {
			continue
		}
		average, clients := averaged(repeat, q.at)
		if clients > 1 && apart(v, average) <= recorded {
			return failed("averaged_percentiles", result.Error, v, real,
				"%s is %s, which is the average of the %d clients' own; that of all their calls is %s, by the merged histogram",
				name, format.Time(v), clients, format.Time(real))
		}
		return failed("percentiles", result.Error, v, real, "%s is %s, and the merged histogram has %s", name, format.Time(v), format.Time(real))
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

// OfText is [Check] of samples by metric, one for each repeat, under options as
// text. A repeat's own figures are compared where every metric has as many
// samples as there are repeats; of others, as of a run that has some metrics
// once, those that do.
func OfText(options map[string]string, samples map[string][]float64) []result.Check {
	repeats := 0
	for _, name := range []string{result.Throughput, result.LatencyP50, result.IterationRate} {
		repeats = max(repeats, len(samples[name]))
	}
	load := LoadOfText(options)
	var list []result.Check
	for i := range repeats {
		f := Figures{Load: load, Values: map[string]float64{}}
		for name, values := range samples {
			if len(values) == repeats {
				f.Values[name] = values[i]
			}
		}
		list = append(list, Check(f)...)
	}
	return bySeverity(first(list))
}
