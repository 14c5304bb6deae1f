package calibration

import (
	"fmt"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/result"
)

// modelTolerance is the promised error of the queueing model, as a share of its prediction.
const modelTolerance = 0.1

// clients compares the throughput of several clients with what follows from that of one by queueing
// theory, with the time that is injected into the daemon. The two predictions bracket it: the model
// of package analyze takes the daemon's times for exponential, and the calls of clients with fixed
// times do not wait for each other until the daemon is always busy. A machine with fewer processors
// than threads may stay below both. Only the model promises anything, as it is what other commands
// use.
func (e *Experiment) clients() []Recovery {
	single := 0.0 // time in ns of the call of one client
	for i, clients := range e.Known {
		if one, ok := level(&e.Set.Cells[i], result.Throughput); ok && clients == 1 &&
			one.Value > 0 {
			single = 1e9 / one.Value
		}
	}
	var rows []Recovery
	for i, clients := range e.Known {
		c := &e.Set.Cells[i]
		daemon := durationOf(c, "daemon-time")
		measured, ok := level(c, result.Throughput)
		if !ok || clients <= 1 || daemon == 0 || single <= daemon {
			continue
		}
		exponential, fixed := analyze.OneCallEach(int(clients), single-daemon, daemon)
		quantity := fmt.Sprintf("%g clients: ", clients)
		rows = append(rows,
			Recovery{Quantity: quantity + "exponential", Unit: "op/s", Known: exponential,
				Measured: measured, Windows: len(c.Windows),
				Tolerance: modelTolerance * exponential}.judged(),
			Recovery{Quantity: quantity + "fixed times", Unit: "op/s", Known: fixed,
				Measured: measured, Windows: len(c.Windows)})
	}
	return rows
}
