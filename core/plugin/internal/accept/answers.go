package accept

import (
	"fmt"
	"time"

	"transportbench/core/base/cpulist"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func checkPrepared(plan *record.Plan, prepared *record.Prepared) error {
	daemons, clients := plan.Config.Threads(plan.Rank)
	if plan.Config.Proxied() {
		clients = 0 // they have no workers of the transport
	}
	h := &host{numbers: map[string]uint64{
		"rank": uint64(plan.Rank), "daemons": uint64(daemons), "callers": uint64(clients),
		"threads": uint64(len(plan.CPUs)),
	}}
	if err := h.check("prepared", prepared); err != nil {
		return err
	}
	for i, list := range prepared.CPUs {
		if cpus, err := cpulist.Parse(list); err != nil || len(cpus) == 0 {
			return wrong(fmt.Sprintf("prepared.cpus[%d]", i), quoted(list),
				"a list of processors such as 0-3,8")
		}
	}
	return nil
}

func checkOverhead(o *record.Overhead, took time.Duration) error {
	h := &host{numbers: map[string]uint64{"took": limitOf(took)}}
	return h.check("overhead", o)
}

// minFloor is the smallest reading of a floor in nanoseconds: less than a cycle of a processor.
const minFloor = 0.1

// checkFloor checks a reading of the side that initiated. A reading of 0 is none: the probe
// completed nothing in its time.
func checkFloor(kind transport.ProbeKind, f *transport.Floor, took time.Duration) error {
	h := &host{numbers: map[string]uint64{"took": limitOf(took)}}
	if err := h.check("floor", f); err != nil {
		return err
	}
	name, reading, other, none := "floor.round_trip_ns", f.RoundTrip, "floor.per_op_ns", f.PerOp
	if record.MeasuresRate(kind) {
		name, other, reading, none = other, name, none, reading
	}
	switch {
	case none != 0:
		return wrong(other, fmt.Sprint(none), "0")
	case reading == 0:
	case f.Name == "":
		return wrong("floor.name", quoted(f.Name), "at least 1 byte")
	case reading < minFloor:
		return wrong(name, fmt.Sprint(reading), fmt.Sprint("at least ", minFloor))
	case f.Samples == 0:
		return wrong("floor.samples", "0", "at least 1")
	}
	return nil
}

// checkProgress checks progress of a window that began that long ago, after the last one.
func checkProgress(plan *record.Plan, last, now *record.Progress, ago time.Duration) error {
	_, clients := plan.Config.Threads(plan.Rank)
	h := &host{numbers: map[string]uint64{
		"took": limitOf(ago), "clients": uint64(clients), "ops": last.Ops,
		"elapsed": uint64(last.Elapsed),
	}}
	return h.check("progress", now)
}
