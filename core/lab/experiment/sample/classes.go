package sample

import (
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// Parts adds the metrics of each part of the load to a repeat. alone has the reports of the windows
// in which a class or a pair of ranks called alone, if there were any. Their wrong responses count
// as the repeat's.
func Parts(cfg *config.Config, repeat *result.Repeat, windows []record.Window,
	alone [][]record.Report) error {
	for at, w := range windows {
		addFailures(repeat.Ranks, alone[at])
		if w.Pair == nil {
			continue
		}
		for i := range alone[at][w.Pair.From].Clients {
			c := &alone[at][w.Pair.From].Clients[i]
			repeat.PairsAlone = append(repeat.PairsAlone, result.PairAlone{From: w.Pair.From,
				ElapsedNS: c.ElapsedNS, PeerReport: c.Peers[w.Pair.To]})
		}
	}
	if len(windows) == 0 || windows[0].Only == 0 {
		alone = nil
	}
	return classes(cfg, repeat, alone)
}

// classes adds the metrics of the classes of traffic. alone begins with the reports of the windows
// of each, or is empty.
func classes(cfg *config.Config, repeat *result.Repeat, alone [][]record.Report) error {
	step := repeat.ClockStep()
	for i, class := range cfg.Classes {
		together, err := classSamples(cfg, repeat.Ranks, i, step)
		if err != nil {
			return err
		}
		for metric, value := range together {
			repeat.Samples[result.ClassMetric(class.Name, result.ClassTogether, metric)] = value
		}
		if len(alone) == 0 {
			continue
		}
		own, err := classSamples(cfg, alone[i], i, step)
		if err != nil {
			return err
		}
		for metric, value := range own {
			repeat.Samples[result.ClassMetric(class.Name, result.ClassAlone, metric)] = value
			if ratio, ok := slowdown(metric, together[metric], value); ok {
				repeat.Samples[result.ClassMetric(class.Name, result.ClassSlowdown, metric)] = ratio
			}
		}
	}
	return nil
}

// addFailures adds the wrong and the lost responses of another window of the same ranks.
func addFailures(to, from []record.Report) {
	for r := range from {
		for i := range from[r].Clients {
			client, other := &to[r].Clients[i], &from[r].Clients[i]
			client.Lost += other.Lost
			for what, n := range other.Failures {
				if client.Failures == nil {
					client.Failures = map[string]uint64{}
				}
				client.Failures[what] += n
			}
		}
	}
}

// slowdown returns how much worse a metric is together than alone: above 1 if it is worse.
func slowdown(metric string, together, alone float64) (ratio float64, ok bool) {
	if together <= 0 || alone <= 0 || metric == result.SLOAttainment {
		return 0, false
	}
	if result.Define(metric).Better == result.Higher {
		return alone / together, true
	}
	return together / alone, true
}

// classSamples returns the metrics of the clients of one class, except those that have no sample.
func classSamples(cfg *config.Config, reports []record.Report, class int,
	step float64) (map[string]float64, error) {
	samples := map[string]float64{}
	var latencies, responses []string
	var ops, due uint64
	for _, r := range reports {
		for i := range r.Clients {
			c := &r.Clients[i]
			if cfg.ClassOf(i) != class {
				continue
			}
			samples[result.Throughput] += result.PerSecond(c.Ops(), c.ElapsedNS)
			samples[result.Goodput] += result.PerSecond(c.PayloadBytes, c.ElapsedNS)
			latencies = append(latencies, c.Latency)
			ops += c.Ops()
			if c.Open != nil {
				responses = append(responses, c.Open.Response.Histogram)
				due += c.Open.Scheduled - min(c.Open.Scheduled, c.Drained)
			}
		}
	}
	latency, err := result.Histograms(latencies...)
	if err != nil {
		return nil, err
	}
	response, err := result.Histograms(responses...)
	if err != nil {
		return nil, err
	}
	timed := latency
	if len(responses) > 0 {
		timed = response
	}
	for _, p := range []struct {
		metric string
		h      *record.Histogram
		q      float64
	}{
		{result.LatencyP50, latency, 0.5}, {result.LatencyP99, latency, 0.99},
		{result.ResponseP50, response, 0.5}, {result.ResponseP99, response, 0.99},
	} {
		if p.h.Count() > 0 {
			samples[p.metric] = p.h.Interpolate(p.q, step)
		}
	}
	// Operations that were due and not even issued have missed the objective, too, and so have all
	// of a class of which none was answered in the window.
	starved := ops == 0 && (due > 0 || cfg.Classes[class].Rate == 0)
	if objective := cfg.Classes[class].Objective; objective > 0 && (timed.Count() > 0 || starved) {
		samples[result.SLOAttainment] = timed.Within(uint64(objective)) * float64(ops) /
			float64(max(ops, due, 1))
	}
	return samples, nil
}
