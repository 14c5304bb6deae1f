package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Fill merges a repeat's histograms and computes its metrics. It leaves out unknown metrics,
// such as the ratio to a floor that was not measured, and ratios that mean nothing for the load.
func Fill(cfg config.Config, repeat *result.Repeat) error {
	clients := repeat.Clients()
	samples := map[string]float64{}
	repeat.Samples = samples
	put := func(name string, value float64) {
		if !math.IsInf(value, 0) && !math.IsNaN(value) &&
			result.RatioApplies(name, cfg.CallsPerPair()) {
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
	// Those that were timed began and ended in the window, which a short window has too few of.
	if length := cfg.Iteration(); length > 0 {
		put(result.IterationRate, throughput/float64(length))
	}
	if tokens := cfg.TokensPerOperation(); tokens > 0 {
		put(result.TokenRate, tokens*blocks)
	}
	put(result.CPUPerOp, float64(cpuTime(repeat))/float64(totalOps(clients)))
	if cfg.Load() != config.LoadClasses {
		put(result.ClientFairness, fairness(clients))
	}
	put(result.EmptyLoops, emptyLoops(repeat))
	putMesh(clients, put)
	if err := putTraffic(cfg, repeat, put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	if err := putOperations(clients, repeat.ClockStep(), put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	if err := putOpen(repeat, clients, put); err != nil {
		return fmt.Errorf("repeat %d: %w", repeat.Index, err)
	}
	putTime(cfg, repeat, put)
	putFloors(cfg, repeat, put)
	putWork(repeat, put)
	putWitness(cfg, repeat, put)
	return nil
}

// putTime puts exact means: the latency, and where the time of processors went.
func putTime(cfg config.Config, repeat *result.Repeat, put func(string, float64)) {
	clients, daemons := repeat.Clients(), repeat.Daemons()
	ops := float64(totalOps(clients))
	inFlight := cfg.InFlight
	if cfg.Load() != config.LoadClosed || cfg.Burn != 0 {
		inFlight = 0 // it varies
	}
	latency := result.ExactMean(clients, inFlight)
	put(result.LatencyMean, latency)
	if busy := busyTime(repeat); busy > 0 {
		put(result.BusyPerOp, float64(busy)/ops)
	}
	var process, system uint64
	for _, r := range repeat.Ranks {
		process += r.Process.CPUNS
		system += r.Process.SystemNS
	}
	if process > 0 {
		put(result.ProcessCPUPerOp, float64(process)/ops)
		put(result.KernelPerOp, float64(kernelTime(system, repeat.Machine))/ops)
	}
	if m := repeat.Machine; m.Processors > 0 && m.CoveredNS > 0 {
		put(result.Steal, float64(m.StealNS)/float64(m.Processors)/float64(m.CoveredNS))
	}
	if share, known := stalledShare(clients, daemons); known {
		put(result.Stalled, share)
		put(result.GapLimit, gapLimit(clients, daemons))
	}
	if o := repeat.Overhead; o != nil {
		put(result.HarnessOverhead, o.PerOpNS)
		put(result.VerifyCost, o.VerifyNS)
		put(result.HarnessShare, harnessShare(o, clients, daemons, latency))
	}
}

// busyTime returns the time of the polling threads' iterations that found work, or 0 if one of them
// did not record it.
func busyTime(repeat *result.Repeat) (total uint64) {
	for _, c := range repeat.Clients() {
		if c.BusyNS == 0 {
			return 0
		}
		total += c.BusyNS
	}
	for _, d := range repeat.Daemons() {
		if d.BusyNS == 0 && d.Requests > 0 {
			return 0
		}
		total += d.BusyNS
	}
	return total
}

// stalledShare returns the share of time for which the client or the daemon of a call was in a gap,
// as the mean over all pairs of a client and a daemon; known is false if a thread had no watch.
func stalledShare(clients []record.ClientReport, daemons []record.DaemonReport) (share float64,
	known bool) {
	pairs := float64(len(clients) * len(daemons))
	for i := range clients {
		for j := range daemons {
			c, d := &clients[i], &daemons[j]
			if c.Thread.GapLimitNS == 0 || d.Thread.GapLimitNS == 0 || c.ElapsedNS == 0 ||
				d.ElapsedNS == 0 {
				return 0, false
			}
			share += eitherStalled(&c.Thread, &d.Thread) / float64(min(c.ElapsedNS, d.ElapsedNS)) /
				pairs
		}
	}
	return min(share, 1), pairs > 0
}

// gapLimit returns the largest limit of gaps of any thread, in nanoseconds.
func gapLimit(clients []record.ClientReport, daemons []record.DaemonReport) float64 {
	limit := uint64(0)
	for i := range clients {
		limit = max(limit, clients[i].Thread.GapLimitNS)
	}
	for i := range daemons {
		limit = max(limit, daemons[i].Thread.GapLimitNS)
	}
	return float64(limit)
}

// eitherStalled returns the nanoseconds for which one of two threads was in a gap or both were. The
// times of the longest gaps are recorded. Of the others, at most the smaller sum may have been at
// the same time as the larger, and counts as if it was.
func eitherStalled(a, b *record.ThreadReport) float64 {
	listedA, listedB, both := 0.0, 0.0, 0.0
	for _, x := range a.Gaps {
		listedA += float64(x.ForNS)
		for _, y := range b.Gaps {
			from, to := max(x.AtNS, y.AtNS), min(x.AtNS+x.ForNS, y.AtNS+y.ForNS)
			both += float64(max(from, to) - from)
		}
	}
	for _, y := range b.Gaps {
		listedB += float64(y.ForNS)
	}
	return listedA + listedB - both + max(0, float64(a.GapNS)-listedA, float64(b.GapNS)-listedB)
}

// kernelTime returns the time of the kernel on the run's behalf. Kernels that account by the tick
// count soft interrupts in the process that they interrupt, others only for the processor; all
// kernel time of the processors bounds the sum.
func kernelTime(system uint64, m result.MachineTime) uint64 {
	return max(system, min(system+m.SoftIRQNS, m.KernelNS))
}

// harnessShare returns the part of an operation's time that the harness takes: of its latency, or
// of the time of the clients' or the daemons' threads, which matters with more than one in flight.
func harnessShare(o *record.Overhead, clients []record.ClientReport, daemons []record.DaemonReport,
	latency float64) float64 {
	var called, served, clientTime, daemonTime float64
	for _, c := range clients {
		called += float64(c.Ops())
		clientTime += float64(c.Thread.Busy(c.ElapsedNS))
	}
	for _, d := range daemons {
		served += float64(d.Requests)
		daemonTime += float64(d.Thread.Busy(d.ElapsedNS))
	}
	client := cmp.Or(o.ClientNS, o.PerOpNS)
	share := client * called / max(clientTime, 1)
	if !math.IsNaN(latency) && latency > 0 {
		share = max(share, o.PerOpNS/latency)
	}
	// An overhead that was measured while another program ran may exceed what it is a part of.
	return min(1, max(share, o.DaemonNS*served/max(daemonTime, 1)))
}

// putFloors puts the readings around the window and the ratios to them.
func putFloors(cfg config.Config, repeat *result.Repeat, put func(string, float64)) {
	if distance, ok := around(repeat.Before.CoreDistance, repeat.After.CoreDistance); ok {
		put(result.CoreDistance, distance)
	}
	if cfg.Load() == config.LoadClasses {
		return // the probes are of one payload
	}
	before, after := &repeat.Before, &repeat.After
	p50, perOp := repeat.Samples[result.LatencyP50], 0.0
	// An open loop below its capacity takes as long for an operation as its schedule says.
	if cfg.Load() != config.LoadOpen {
		perOp = 1e9 / repeat.Samples[result.Throughput]
	}
	roundTrip := func(f *transport.Floor) float64 { return f.RoundTrip }
	rate := func(f *transport.Floor) float64 {
		if cfg.Proxied() {
			return 0 // some operations cross the medium in company and others not at all
		}
		// The reading is that of one pair of threads with the calls of all its clients in flight,
		// and pairs that share no thread work at the same time.
		return f.PerOp / float64(cfg.IndependentPairs())
	}
	for _, m := range []struct {
		name, ratio   string
		before, after *transport.Floor
		of            func(*transport.Floor) float64
		took          float64 // by an operation; 0 if that does not compare
	}{
		{result.Floor, result.FloorRatio, before.Medium, after.Medium, roundTrip, p50},
		{result.Library, result.LibraryRatio, before.Library, after.Library, roundTrip, p50},
		{result.Bare, result.BareRatio, before.Transport, after.Transport, roundTrip, p50},
		{result.RateFloor, result.OpTimeRatio, before.Rate, after.Rate, rate, perOp},
		{result.BareRate, result.BareTimeRatio, before.Transport, after.Transport, rate, perOp},
	} {
		if m.before == nil || m.after == nil {
			continue
		}
		if floor, ok := floorAround(repeat, m.of(m.before), m.of(m.after)); ok {
			put(m.name, floor)
			if m.took > 0 {
				put(m.ratio, m.took/floor)
			}
		}
	}
}

// floorAround returns the floor in the state of the window, from the readings before and after it.
// The readings on a side where the machine changed its state do not count, and a mixed window has
// no floor. If readings differ although all core distances agree, something disturbed one of the
// probes, and the smaller reading counts: a floor is the least that the medium needs.
func floorAround(repeat *result.Repeat, before, after float64) (floor float64, ok bool) {
	if before <= 0 || after <= 0 || repeat.DistancesApart() {
		return 0, false
	}
	switch early, late := changed(repeat.Before), changed(repeat.After); {
	case early && late:
		return 0, false
	case early:
		return after, true
	case late:
		return before, true
	case repeat.SteadyDistance() && result.Apart(before, after):
		return min(before, after), true
	}
	return around(before, after)
}

// putPercentiles puts percentiles of h as metrics called name, unless h is empty; withTail adds the
// 99.9th percentile and the maximum. step is the resolution of the clock.
func putPercentiles(put func(string, float64), name string, h *record.Histogram, step float64,
	withTail bool) {
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
func mergeLatencies(repeat *result.Repeat, clients []record.ClientReport,
	put func(string, float64)) error {
	var reads, writes, all []string
	for _, c := range clients {
		reads, writes, all = append(reads, c.ReadLatency), append(writes, c.WriteLatency),
			append(all, c.Latency)
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
	for _, c := range clients {
		for op, r := range c.Operations {
			encoded[op] = append(encoded[op], r.Latency.Histogram)
		}
		if c.Iterations != nil {
			encoded[result.Iteration] = append(encoded[result.Iteration], c.Iterations.Histogram)
		}
		if c.FirstParts != nil {
			encoded[result.FirstPart] = append(encoded[result.FirstPart], c.FirstParts.Histogram)
		}
	}
	for name, histograms := range encoded {
		merged, err := result.Histograms(histograms...)
		if err != nil {
			return err
		}
		putPercentiles(put, name, merged, step, false)
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

// putTraffic puts the fairness of a pattern of traffic and its stragglers.
func putTraffic(cfg config.Config, repeat *result.Repeat, put func(string, float64)) error {
	if cfg.Traffic == "" {
		return nil
	}
	var clients []float64
	peers := make([]float64, cfg.ServingRanks())
	for _, c := range repeat.Clients() {
		clients = append(clients, result.PerSecond(c.Ops(), c.ElapsedNS))
		for _, p := range c.Peers {
			peers[p.Rank] += result.PerSecond(p.Count, c.ElapsedNS)
		}
	}
	if index, ok := result.Jain(clients); ok {
		put(result.JainClients, index)
	}
	if index, ok := result.Jain(peers); ok {
		put(result.JainPeers, index)
	}
	if err := putStorm(repeat, put); err != nil {
		return err
	}
	flows, err := result.FlowsOf([]result.Repeat{*repeat})
	if ratio, ok := result.Straggler(flows); ok {
		put(result.StragglerRatio, ratio)
	}
	return err
}

// putStorm puts the metrics of a storm of connections.
func putStorm(repeat *result.Repeat, put func(string, float64)) error {
	var connects, closes []string
	var due, made uint64
	rate := 0.0
	for _, r := range repeat.Ranks {
		if s := r.Storm; s != nil && len(r.Clients) > 0 {
			connects, closes = append(connects, s.Connect.Histogram),
				append(closes, s.Close.Histogram)
			due, made = due+s.Due, made+s.Connections
			rate += result.PerSecond(s.Connections, r.Clients[0].ElapsedNS)
		}
	}
	if due == 0 {
		return nil
	}
	put(result.StormRate, rate)
	put(result.StormKept, float64(made)/float64(due))
	connect, err := result.Histograms(connects...)
	if err != nil || made == 0 {
		return err
	}
	closing, err := result.Histograms(closes...)
	if err != nil {
		return err
	}
	put(result.StormConnectP50, connect.Quantile(0.5))
	put(result.StormConnectP99, connect.Quantile(0.99))
	put(result.StormClose, closing.Quantile(0.5))
	return nil
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
func putOpen(repeat *result.Repeat, clients []record.ClientReport,
	put func(string, float64)) error {
	var responses, lags []string
	offered := 0.0
	for _, c := range clients {
		if c.Open == nil {
			return nil
		}
		responses, lags = append(responses, c.Open.Response.Histogram),
			append(lags, c.Open.Lag.Histogram)
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
	for _, t := range record.Threads(repeat.Ranks) {
		total += t.CPUNS
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
	median := record.Median(rates)
	if median == 0 {
		return 0
	}
	return slices.Min(rates) / median
}

// around returns the geometric mean of readings before and after a window, since distances between
// cores differ by factors. ok is false if one is missing.
func around(before, after float64) (mean float64, ok bool) {
	return math.Sqrt(before * after), before > 0 && after > 0
}

// changed reports whether the machine changed its state during the probes on one side of a window.
func changed(r result.Readings) bool {
	return slices.ContainsFunc(r.CoreDistances,
		func(distance float64) bool { return result.OtherState(distance, r.CoreDistance) })
}
