package accept

import (
	"fmt"
	"strconv"
	"time"

	"transportbench/core/base/cpulist"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// mostProcesses is the largest number of a process (the kernel's PID_MAX_LIMIT), and of threads.
const mostProcesses = 1 << 22

func checkPrepared(plan *record.Plan, prepared *record.Prepared) error {
	c := new(checker)
	p := c.at("prepared")
	daemons, clients := plan.Config.Threads(plan.Rank)
	if plan.Config.Proxied() {
		clients = 0 // they have no workers of the transport
	}
	w := &prepared.Workers
	workers := p.field("workers")
	within(workers, "rank", w.Rank, plan.Rank, plan.Rank)
	workers.addresses("daemons", w.Daemons, daemons)
	workers.addresses("clients", w.Clients, clients)
	workers.atMostLong("shared", len(w.Shared), longestAddress)
	within(p, "pid", prepared.PID, 1, mostProcesses)
	p.length("cpus", len(prepared.CPUs), len(plan.CPUs))
	for i, list := range prepared.CPUs {
		if cpus, err := cpulist.Parse(list); err != nil || len(cpus) == 0 {
			p.wrong("cpus["+strconv.Itoa(i)+"]", quoted(list), "a list of processors such as 0-3,8")
		}
	}
	opened := p.field("properties")
	opened.text("provider", prepared.Properties.Provider)
	opened.limits(&prepared.Properties.Limits)
	for name, list := range map[string]map[string]string{
		"libraries": prepared.Properties.Libraries, "notes": prepared.Properties.Notes, "chosen": prepared.Properties.Chosen,
	} {
		opened.atMostLong(name, len(list), mostEntries)
	}
	if port := prepared.Properties.Port; port != nil {
		opened.field("port").way(port)
	}
	return c.err()
}

// addresses checks the addresses of n workers.
func (p part) addresses(name string, list [][]byte, n int) {
	p.length(name, len(list), n)
	for i, address := range list {
		if len(address) == 0 || len(address) > longestAddress {
			p.wrong(name+"["+strconv.Itoa(i)+"]", fmt.Sprintf("%d bytes", len(address)), fmt.Sprintf("1 to %d bytes", longestAddress))
		}
	}
}

// limits checks the limits of a transport; 0 is unlimited.
func (p part) limits(l *transport.Limits) {
	limits := p.field("limits")
	within(limits, "max_payload", l.MaxPayload, 0, exact)
	within(limits, "inline_size", l.InlineSize, 0, exact)
	within(limits, "in_flight", l.InFlight, 0, exact)
	within(limits, "peers", l.Peers, 0, exact)
}

// mostTimes is how many times longer a rank may say that something took than the host measured. The
// check clock of a result has the exact bound; this one is for figures that no clock explains.
const mostTimes = 2

// limitOf returns the longest time in nanoseconds that a rank may report of a call that took that long.
func limitOf(took time.Duration) uint64 { return mostTimes * uint64(max(took, 1)) }

func checkOverhead(o *record.Overhead, took time.Duration) error {
	c := new(checker)
	p := c.at("overhead")
	most := float64(limitOf(took))
	within(p, "per_op_ns", o.PerOpNS, 0, most)
	within(p, "client_ns", o.ClientNS, 0, most)
	within(p, "daemon_ns", o.DaemonNS, 0, most)
	within(p, "verify_ns", o.VerifyNS, 0, most)
	within(p, "stamp_ns", o.StampNS, 0, most)
	return c.err()
}

// leastFloor is the smallest reading of a floor in nanoseconds: less than a cycle of a processor.
const leastFloor = 0.1

// checkFloor checks a reading of the side that initiated. A reading of 0 is none: the probe completed
// nothing in its time.
func checkFloor(kind transport.ProbeKind, f *transport.Floor, took time.Duration) error {
	c := new(checker)
	p := c.at("floor")
	name, reading, other, none := "round_trip_ns", f.RoundTrip, "per_op_ns", f.PerOp
	if record.MeasuresRate(kind) {
		name, other, reading, none = other, name, none, reading
	}
	if reading != 0 {
		p.text("name", f.Name)
		within(p, name, reading, leastFloor, float64(limitOf(took)))
		within(p, "samples", f.Samples, 1, int(min(limitOf(took), exact)))
	}
	within(p, other, none, 0, 0)
	return c.err()
}

// recentMost is the largest recent latency: a rank keeps them in 32 bits.
const recentMost = 1<<32 - 1

// checkProgress checks progress of a window that began that long ago, after the last one.
func checkProgress(plan *record.Plan, last, now *record.Progress, ago time.Duration) error {
	c := new(checker)
	p := c.at("progress")
	most := limitOf(ago)
	_, clients := plan.Config.Threads(plan.Rank)
	within(p, "ops", now.Ops, last.Ops, uint64(clients)*most)
	within(p, "elapsed", now.Elapsed, last.Elapsed, time.Duration(most))
	within(p, "recent_p50_ns", now.RecentP50, 0, recentMost)
	within(p, "recent_p99_ns", now.RecentP99, 0, recentMost)
	return c.err()
}
