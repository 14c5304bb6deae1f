package sample

import (
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// Setup adds the metrics of a launch to the samples of its first repeat. It leaves out what did
// not happen.
func Setup(setup *result.Setup, samples map[string]float64) {
	var open, all, connected, connections, registered, registering uint64
	var first []float64
	for _, s := range setup.Ranks {
		open, all = max(open, s.OpenNS+s.WorkersNS), max(all, s.ConnectAllNS)
		connected, connections = connected+s.ConnectNS, connections+s.Connections
		registered, registering = registered+s.RegisteredBytes, registering+s.RegisterNS
		if s.FirstCalls > 0 {
			first = append(first, float64(s.FirstCallNS))
		}
	}
	put := func(name string, value float64) {
		if value > 0 {
			samples[name] = value
		}
	}
	put(result.SetupOpen, float64(open))
	put(result.SetupConnectAll, float64(all))
	put(result.SetupExchange, setup.ExchangeNS())
	put(result.SetupConnect, perUnit(connected, connections))
	put(result.SetupRegister, perUnit(registering, registered)*(1<<20))
	put(result.FirstCall, record.Median(first))
	put(result.Teardown, setup.CloseMS*float64(time.Millisecond))
}

// perUnit returns total over count, or 0 without any.
func perUnit(total, count uint64) float64 {
	if count == 0 {
		return 0
	}
	return float64(total) / float64(count)
}
