package runner

import (
	"fmt"
	"math"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// fillSamples merges a repeat's histograms and computes its metrics. It leaves out unknown metrics,
// such as the ratio to a floor that was not measured.
func fillSamples(cfg config.Config, repeat *result.Repeat) error {
	clients := repeat.Clients()
	samples := map[string]float64{}
	repeat.Samples = samples
	put := func(name string, value float64) {
		if !math.IsInf(value, 0) && !math.IsNaN(value) {
			samples[name] = value
		}
	}
	if err := mergeLatencies(repeat, clients, put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	throughput, goodput, blocks := 0.0, 0.0, 0.0
	for _, c := range clients {
		throughput += result.PerSecond(c.Ops(), c.ElapsedNS)
		goodput += result.PerSecond(c.PayloadBytes, c.ElapsedNS)
		blocks += result.PerSecond(c.Reads+c.Writes, c.ElapsedNS)
	}
	put(result.Throughput, throughput)
	put(result.Goodput, goodput)
	if tokens := cfg.TokensPerBlock; tokens > 0 {
		put(result.TokenRate, float64(tokens)*blocks)
	}
	put(result.CPUPerOp, float64(cpuTime(repeat))/float64(totalOps(clients)))
	put(result.ClientFairness, fairness(clients))
	put(result.EmptyLoops, emptyLoops(repeat))
	putMesh(clients, put)
	if err := putOperations(clients, repeat.ClockStep(), put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	if err := putOpen(repeat, clients, put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	if floor, ok := meanFloor(repeat.Before.Medium, repeat.After.Medium); ok {
		put(result.Floor, floor)
		if p50, sampled := samples[result.LatencyP50]; sampled {
			put(result.FloorRatio, p50/floor)
		}
	}
	return nil
}

// putPercentiles puts percentiles of h as metrics called name, unless h is empty; withTail adds the
// 99.9th percentile and the maximum. step is the resolution of the clock.
func putPercentiles(put func(string, float64), name string, h *record.Histogram, step float64, withTail bool) {
	if h.Count() == 0 {
		return
	}
	put(name+"_p50", h.Interpolate(0.5, step))
	put(name+"_p90", h.Interpolate(0.9, step))
	put(name+"_p99", h.Interpolate(0.99, step))
	if withTail {
		put(name+"_p999", h.Interpolate(0.999, step))
		put(name+"_max", float64(h.Max()))
	}
}

// merge merges encoded histograms and stores the encoded result in into.
func merge(into *string, encoded []string) (*record.Histogram, error) {
	merged, err := result.Histograms(encoded...)
	if err != nil {
		return nil, err
	}
	*into = merged.Encode()
	return merged, nil
}

// mergeLatencies merges the clients' histograms and puts the percentiles.
func mergeLatencies(repeat *result.Repeat, clients []record.ClientReport, put func(string, float64)) error {
	var reads, writes, all []string
	for _, c := range clients {
		reads, writes, all = append(reads, c.ReadLatency), append(writes, c.WriteLatency), append(all, c.Latency)
	}
	if _, err := merge(&repeat.ReadLatency, reads); err != nil {
		return err
	}
	if _, err := merge(&repeat.WriteLatency, writes); err != nil {
		return err
	}
	latency, err := merge(&repeat.Latency, all)
	if err != nil {
		return err
	}
	putPercentiles(put, "latency", latency, repeat.ClockStep(), true)
	return nil
}

// putOperations puts the percentiles of each kind of operation and of iterations, if clients
// recorded them.
func putOperations(clients []record.ClientReport, step float64, put func(string, float64)) error {
	encoded := map[string][]string{}
	iterations := 0.0
	for _, c := range clients {
		for op, r := range c.Operations {
			encoded[op] = append(encoded[op], r.Latency.Histogram)
		}
		if c.Iterations != nil {
			encoded[result.Iteration] = append(encoded[result.Iteration], c.Iterations.Histogram)
			iterations += result.PerSecond(c.Iterations.Samples, c.ElapsedNS)
		}
	}
	for name, histograms := range encoded {
		merged, err := result.Histograms(histograms...)
		if err != nil {
			return err
		}
		putPercentiles(put, name, merged, step, false)
	}
	if iterations > 0 {
		put(result.IterationRate, iterations)
	}
	return nil
}

// putMesh puts the means of local and remote requests.
func putMesh(clients []record.ClientReport, put func(string, float64)) {
	local := make([]*record.TimingReport, 0, len(clients))
	remote := make([]*record.TimingReport, 0, len(clients))
	for _, c := range clients {
		if c.Local != nil && c.Remote != nil {
			local, remote = append(local, c.Local), append(remote, c.Remote)
		}
	}
	put(result.LocalMean, meanOf(local))
	put(result.RemoteMean, meanOf(remote))
}

// meanOf returns the mean of all samples, or NaN if there are none.
func meanOf(timings []*record.TimingReport) float64 {
	sum, samples := 0.0, 0.0
	for _, t := range timings {
		sum += t.MeanNS * float64(t.Samples)
		samples += float64(t.Samples)
	}
	return sum / samples
}

// putOpen puts the metrics of an open-loop load.
func putOpen(repeat *result.Repeat, clients []record.ClientReport, put func(string, float64)) error {
	var responses, lags []string
	offered := 0.0
	for _, c := range clients {
		if c.Open == nil {
			return nil
		}
		responses, lags = append(responses, c.Open.Response.Histogram), append(lags, c.Open.Lag.Histogram)
		offered += result.PerSecond(c.Open.Scheduled, c.ElapsedNS)
	}
	if len(clients) == 0 {
		return nil
	}
	response, err := merge(&repeat.Response, responses)
	if err != nil {
		return err
	}
	lag, err := merge(&repeat.Lag, lags)
	if err != nil {
		return err
	}
	put(result.OfferedLoad, offered)
	if response.Count() > 0 {
		putPercentiles(put, "response", response, repeat.ClockStep(), true)
		put(result.ScheduleLagP99, lag.Interpolate(0.99, repeat.ClockStep()))
	}
	return nil
}

// emptyLoops returns the share of the daemons' loops that found no work.
func emptyLoops(repeat *result.Repeat) float64 {
	loops, empty := uint64(0), uint64(0)
	for _, d := range repeat.Daemons() {
		loops += d.Loops
		empty += d.EmptyLoops
	}
	return float64(empty) / float64(loops)
}

func totalOps(clients []record.ClientReport) uint64 {
	n := uint64(0)
	for _, c := range clients {
		n += c.Ops()
	}
	return n
}

// cpuTime returns the processor time of all polling threads in nanoseconds.
func cpuTime(repeat *result.Repeat) uint64 {
	total := uint64(0)
	for _, c := range repeat.Clients() {
		total += c.Thread.CPUNS
	}
	for _, d := range repeat.Daemons() {
		total += d.Thread.CPUNS
	}
	return total
}

// fairness returns the slowest client's rate over the median client's; 1 is perfectly fair. It
// returns 0 if there is no client or half of the clients did nothing.
func fairness(clients []record.ClientReport) float64 {
	if len(clients) == 0 {
		return 0
	}
	rates := make([]float64, len(clients))
	for i, c := range clients {
		rates[i] = result.PerSecond(c.Ops(), c.ElapsedNS)
	}
	slices.Sort(rates)
	median := (rates[(len(rates)-1)/2] + rates[len(rates)/2]) / 2
	if median == 0 {
		return 0
	}
	return rates[0] / median
}

// meanFloor returns the geometric mean of the round trips before and after a window, because
// distances between cores differ by factors.
func meanFloor(before, after *transport.Floor) (ns float64, ok bool) {
	if before == nil || after == nil {
		return 0, false
	}
	return math.Sqrt(before.RoundTrip * after.RoundTrip), true
}
