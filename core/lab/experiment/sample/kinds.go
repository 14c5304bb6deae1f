package sample

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// ofKind has what a window did with one kind of pair: within a machine, or between machines.
type ofKind struct {
	throughput float64
	latencies  []string
	// The medium floors of the pairs on each side of the window.
	before, after []float64
}

// Kinds adds the metrics of each kind of pair if the calls are of both kinds. kindOf returns the
// kind of a rank's calls to another. A latency over all of them compares with neither floor, so
// ratios to the floor are left out then. Calls of a rank to itself are of no kind.
func Kinds(cfg *config.Config, kindOf func(caller, server int) record.CallKind,
	repeat *result.Repeat) error {
	var kinds [record.CallKinds]ofKind
	of := func(crosses bool) *ofKind {
		if crosses {
			return &kinds[record.CallBetween]
		}
		return &kinds[record.CallWithin]
	}
	for i := range repeat.Ranks {
		from := repeat.Ranks[i].Rank
		for j := range repeat.Ranks[i].Clients {
			c := &repeat.Ranks[i].Clients[j]
			add := func(kind record.CallKind, count uint64, latency string) {
				kinds[kind].throughput += result.PerSecond(count, c.ElapsedNS)
				kinds[kind].latencies = append(kinds[kind].latencies, latency)
			}
			for kind, calls := range c.Kinds {
				add(record.CallKind(kind), calls.Count, calls.Latency.Histogram)
			}
			for _, p := range c.Peers {
				add(kindOf(from, p.Rank), p.Count, p.Latency.Histogram)
			}
			if cfg.ServingRanks() == 1 && len(c.Peers) == 0 {
				add(kindOf(from, 0), c.Ops(), c.Latency)
			}
		}
	}
	for _, p := range repeat.Before.Pairs {
		k := of(p.Crosses)
		k.before = append(k.before, p.Medium)
	}
	for _, p := range repeat.After.Pairs {
		k := of(p.Crosses)
		k.after = append(k.after, p.Medium)
	}
	for _, ratio := range []string{result.FloorRatio, result.LibraryRatio, result.OpTimeRatio} {
		delete(repeat.Samples, ratio)
	}
	for kind, suffix := range map[record.CallKind]string{record.CallWithin: result.WithinMachine,
		record.CallBetween: result.BetweenMachines} {
		if err := putKind(cfg, repeat, &kinds[kind], suffix); err != nil {
			return fmt.Errorf("repeat %d: %w", repeat.Index, err)
		}
	}
	return nil
}

// putKind adds the metrics of one kind of pair.
func putKind(cfg *config.Config, repeat *result.Repeat, k *ofKind, suffix string) error {
	latency, err := result.Histograms(k.latencies...)
	if err != nil {
		return err
	}
	put := func(name string, value float64) { repeat.Samples[name+suffix] = value }
	if k.throughput > 0 {
		put(result.Throughput, k.throughput)
	}
	p50 := 0.0
	if latency.Count() > 0 {
		p50 = latency.Interpolate(0.5, repeat.ClockStep())
		put(result.LatencyP50, p50)
		put(result.LatencyP99, latency.Interpolate(0.99, repeat.ClockStep()))
	}
	if len(k.before) == 0 || len(k.after) == 0 || cfg.Load() == config.LoadClasses {
		return nil
	}
	if floor, ok := floorAround(repeat, record.Median(k.before), record.Median(k.after)); ok {
		put(result.Floor, floor)
		if p50 > 0 && result.RatioApplies(result.FloorRatio, cfg.CallsPerPair()) {
			put(result.FloorRatio, p50/floor)
		}
	}
	return nil
}
