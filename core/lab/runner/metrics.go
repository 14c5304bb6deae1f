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

// fillSamples merges a repeat's histograms and takes its samples of the
// metrics. What cannot be told, such as a ratio to a floor that was not
// measured, is left out.
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
	if err := putOperations(clients, put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	if err := putOpen(repeat, clients, put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	if floor, ok := meanFloor(repeat.FloorBefore, repeat.FloorAfter); ok {
		put(result.Floor, floor)
		put(result.OpTimeRatio, 1e9/throughput/floor)
		if p50, sampled := samples[result.LatencyP50]; sampled {
			put(result.FloorRatio, p50/floor)
		}
	}
	return nil
}

// mergeLatencies merges the clients' histograms and reads the percentiles.
func mergeLatencies(repeat *result.Repeat, clients []record.ClientReport, put func(string, float64)) error {
	for _, part := range []struct {
		merged *string
		of     func(record.ClientReport) string
	}{
		{&repeat.ReadLatency, func(c record.ClientReport) string { return c.ReadLatency }},
		{&repeat.WriteLatency, func(c record.ClientReport) string { return c.WriteLatency }},
		{&repeat.Latency, func(c record.ClientReport) string { return c.Latency }},
	} {
		encoded := make([]string, len(clients))
		for i, c := range clients {
			encoded[i] = part.of(c)
		}
		merged, err := result.Histograms(encoded...)
		if err != nil {
			return err
		}
		if *part.merged, err = merged.Encode(); err != nil {
			return err
		}
		if part.merged != &repeat.Latency || merged.Count() == 0 {
			continue
		}
		put(result.LatencyP50, merged.Quantile(0.5))
		put(result.LatencyP90, merged.Quantile(0.9))
		put(result.LatencyP99, merged.Quantile(0.99))
		put(result.LatencyP999, merged.Quantile(0.999))
		put(result.LatencyMax, float64(merged.Max()))
	}
	return nil
}

// putOperations takes the percentiles of each operation and of iterations, where
// clients tell them apart.
func putOperations(clients []record.ClientReport, put func(string, float64)) error {
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
		if merged.Count() == 0 {
			continue
		}
		put(name+"_p50", merged.Quantile(0.5))
		put(name+"_p90", merged.Quantile(0.9))
		put(name+"_p99", merged.Quantile(0.99))
	}
	if iterations > 0 {
		put(result.IterationRate, iterations)
	}
	return nil
}

// putMesh takes the means of local and remote requests.
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

// meanOf is the mean of all samples, and no number where there are none.
func meanOf(timings []*record.TimingReport) float64 {
	sum, samples := 0.0, 0.0
	for _, t := range timings {
		sum += t.MeanNS * float64(t.Samples)
		samples += float64(t.Samples)
	}
	return sum / samples
}

// putOpen takes the samples of an open-loop load.
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
	response, err := result.Histograms(responses...)
	if err != nil {
		return err
	}
	lag, err := result.Histograms(lags...)
	if err != nil {
		return err
	}
	if repeat.Response, err = response.Encode(); err != nil {
		return err
	}
	if repeat.Lag, err = lag.Encode(); err != nil {
		return err
	}
	put(result.OfferedLoad, offered)
	if response.Count() > 0 {
		put(result.ResponseP50, response.Quantile(0.5))
		put(result.ResponseP90, response.Quantile(0.9))
		put(result.ResponseP99, response.Quantile(0.99))
		put(result.ResponseP999, response.Quantile(0.999))
		put(result.ResponseMax, float64(response.Max()))
		put(result.ScheduleLagP99, lag.Quantile(0.99))
	}
	return nil
}

// emptyLoops is the share of the daemons' loops that found nothing.
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

// cpuTime is the processor time of all polling threads, in nanoseconds.
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

// fairness is the slowest client's rate over the median client's; 1 is even.
// It is 0 where there is no client, or half of them did nothing.
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

// meanFloor is the geometric mean of the round trips before and after, since
// distances between cores differ by factors.
func meanFloor(before, after *transport.Floor) (ns float64, ok bool) {
	if before == nil || after == nil {
		return 0, false
	}
	return math.Sqrt(before.RoundTrip * after.RoundTrip), true
}
