package runner

import (
	"fmt"

	"transportbench/core/base/config"
)

// What a run takes besides what its load needs, in bytes.
const (
	// processMemory is what a rank has resident before any load: the runtime,
	// the program, the control plane.
	processMemory = 24 << 20
	// histogramMemory is one histogram of core/base/machine, and a thread has about
	// this many.
	histogramMemory  = 220 << 10
	histogramsPerOne = 6
	// connectionMemory is what a transport keeps for a peer, besides payloads.
	connectionMemory = 64 << 10
)

// need is the memory of a run by what it grows with.
type need struct {
	option string // the flag that says how much
	bytes  float64
}

// memoryNeeds estimates what all ranks together take.
func memoryNeeds(cfg config.Config) []need {
	daemons, clients := float64(cfg.ServingRanks()*cfg.Daemons), float64(cfg.CallingRanks()*cfg.Clients)
	message := float64(cfg.LargestMessage())
	connections := daemons * clients
	if cfg.Proxied() {
		connections = daemons * float64(cfg.Ranks-1)
	}
	return []need{
		{"ranks", float64(cfg.Ranks)*processMemory + (daemons+clients)*histogramsPerOne*histogramMemory + connections*connectionMemory},
		{"keys", float64(cfg.TotalKeys()) * message}, // pages of free slots are not touched
		{"in-flight", clients * 2 * float64(cfg.InFlight) * message},
	}
}

// checkMemory refuses a run that cannot fit, before anything is launched. What
// is available is in bytes; 0 is unknown.
func checkMemory(cfg config.Config, available uint64) error {
	total, largest := 0.0, need{}
	for _, n := range memoryNeeds(cfg) {
		total += n.bytes
		if n.bytes > largest.bytes {
			largest = n
		}
	}
	if available == 0 || total <= float64(available) {
		return nil
	}
	const gib = 1 << 30
	remedy := map[string]string{
		"ranks":     "use fewer ranks, daemons or clients",
		"keys":      "use fewer keys or smaller values",
		"in-flight": "use fewer clients, fewer calls in flight or smaller values",
	}[largest.option]
	return &config.Error{Option: largest.option, Problem: fmt.Sprintf(
		"the run takes about %.1f GiB of memory, and %.1f GiB are available; %s", total/gib, float64(available)/gib, remedy)}
}
