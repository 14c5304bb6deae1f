package sample

import (
	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
)

// putWitness puts the readings of the witness around the window, by the rule for floors: other
// programs disturb a tool, too. Like the rate floor, a rate is that of one pair of threads, and
// compares with neither an open loop nor a mesh whose clients are proxied.
func putWitness(cfg config.Config, repeat *result.Repeat, put func(string, float64)) {
	before, after := repeat.Before.Witness, repeat.After.Witness
	if before == nil || after == nil {
		return
	}
	if roundTrip, ok := floorAround(repeat, before.RoundTrip, after.RoundTrip); ok {
		put(result.WitnessRoundTrip, roundTrip)
		if p50, sampled := repeat.Samples[result.LatencyP50]; sampled {
			put(result.WitnessRatio, p50/roundTrip)
		}
	}
	if perOp, ok := floorAround(repeat, before.PerOp, after.PerOp); ok {
		put(result.WitnessRate, perOp)
		if cfg.Load() != config.LoadOpen && !cfg.Proxied() {
			put(result.WitnessTimeRatio, 1e9/repeat.Samples[result.Throughput]/
				(perOp/float64(cfg.IndependentPairs())))
		}
	}
}
