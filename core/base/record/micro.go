package record

import (
	"math"
	"time"

	"transportbench/core/transport"
)

// MicroRequest is the argument of a plugin's `micro`, as JSON. Microbenchmarks are not part of a
// run: they have no floors, repeats or checks, and would add seconds to every run.
type MicroRequest struct {
	Options  map[string]string `json:"options,omitempty"`
	Names    []string          `json:"names,omitempty"` // microbenchmarks; empty for all
	Duration time.Duration     `json:"duration_ns"`     // of each microbenchmark
	// Counters asks for the hardware events of each reading.
	Counters bool `json:"counters,omitempty"`
	// processors of the plugin's threads; empty for all
	CPUs []int `json:"cpus,omitempty"`
	// Connections are the numbers of connections of MicroSetup, which takes Duration for each.
	Connections []int `json:"connections,omitempty"`
}

// MicroAnswer is a line of the output of a plugin's `micro`.
type MicroAnswer struct {
	transport.Measurement
	Setup *SetupReading `json:"setup,omitempty"` // of MicroSetup, which has no measurement
	Error string        `json:"error,omitempty"`
	// Invalid is set, beside Error, if a reading cannot be.
	Invalid *InvalidError `json:"invalid,omitempty"`
}

// MicroSetup is the name of the microbenchmark that every transport has: it sets up two endpoints
// in one process with some connections, and closes them, again and again.
const MicroSetup = "setup"

// SetupReading is one round of [MicroSetup]: what the setup of the calling side took, by a single
// thread, and the time to close both sides.
type SetupReading struct {
	RankSetup
	CloseNS uint64 `json:"close_ns" bound:"<=exact"`
}

// The bounds of the rounds of [MicroSetup] for a number of connections.
const (
	MinSetups = 10
	MaxSetups = 5000
)

// SetupPayload is the size of the first calls.
const SetupPayload = 32

// SetupGrid divides connections into workers of both sides, each connected to each of the other, as
// evenly as it goes.
func SetupGrid(connections int) (servers, clients int) {
	for servers = int(math.Sqrt(float64(connections))); connections%servers != 0; servers-- {
	}
	return servers, connections / servers
}
