package runner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// Place gives every polling thread a processor, and settles what the idle
// strategy auto comes to: spin where each thread has a processor of its own,
// and yield where they share, which is then called oversubscribed.
//
// Processors are taken
// one for each physical core first, in order of NUMA node, and go round where
// they are too few. In a mesh with too few, each rank keeps to a part of them where
// that comes out even: to switch between threads of one process costs less, and the
// lines that clients and their daemon share stay in one cache. To spin with shared processors is a [*config.Error].
func Place(cfg config.Config, cpus []machine.CPU) (plans []record.Plan, oversubscribed bool, err error) {
	if len(cpus) == 0 {
		return nil, false, errors.New("placing the polling threads: no processors to place them on")
	}
	total := cfg.ServingRanks()*cfg.Daemons + cfg.CallingRanks()*cfg.Clients
	oversubscribed = total > len(cpus)
	idle := cfg.Idle
	switch {
	case idle == config.IdleSpin && oversubscribed:
		return nil, true, &config.Error{Option: "idle", Problem: fmt.Sprintf(
			"spin needs a processor for each polling thread, and %d threads have %d; use --idle auto, or fewer ranks, daemons or clients",
			total, len(cpus))}
	case idle == config.IdleAuto && oversubscribed:
		idle = config.IdleYield
	case idle == config.IdleAuto:
		idle = config.IdleSpin
	}
	order := spread(cpus)
	next := 0
	for r := range cfg.Ranks {
		daemons, clients := cfg.Threads(r)
		plan := record.Plan{Rank: r, Config: cfg, Idle: idle, CPUs: make([]int, daemons+clients)}
		own := order
		if part := share(order, r, cfg.Ranks); oversubscribed && cfg.Mesh() && part != nil {
			own, next = part, 0
		}
		for t := range plan.CPUs {
			plan.CPUs[t] = -1
			if cfg.Pin {
				plan.CPUs[t] = own[next%len(own)]
			}
			next++
		}
		plans = append(plans, plan)
	}
	return plans, oversubscribed, nil
}

// share is the part of the processors that one of several ranks gets, or the one
// that it shares with as many other ranks as any. It is nil where that does not
// come out even.
func share(order []int, r, ranks int) []int {
	n := len(order)
	switch {
	case n%ranks == 0:
		return order[r*n/ranks : (r+1)*n/ranks]
	case ranks%n == 0:
		return order[r*n/ranks : r*n/ranks+1]
	}
	return nil
}

// spread orders processors so that those which share a core with an earlier
// one come last.
func spread(cpus []machine.CPU) []int {
	type core struct{ pkg, id, alone int }
	type candidate struct {
		machine.CPU
		sibling int // how many of the same core come before
	}
	sorted := slices.SortedFunc(slices.Values(cpus), func(a, b machine.CPU) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Package, b.Package), cmp.Compare(a.ID, b.ID))
	})
	seen := map[core]int{}
	candidates := make([]candidate, len(sorted))
	for i, c := range sorted {
		k := core{c.Package, c.Core, -1}
		if c.Core < 0 { // unknown: a core of its own
			k.alone = c.ID
		}
		candidates[i] = candidate{c, seen[k]}
		seen[k]++
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.sibling, b.sibling) })
	order := make([]int, len(candidates))
	for i, c := range candidates {
		order[i] = c.ID
	}
	return order
}

func pollers(plans []record.Plan) int {
	n := 0
	for _, p := range plans {
		n += len(p.CPUs)
	}
	return n
}
