package runner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/cpulist"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// occupancy is how many polling threads share how many processors.
type occupancy struct{ threads, cpus int }

func (o occupancy) oversubscribed() bool { return o.threads > o.cpus }

// placePools assigns a processor to every polling thread and resolves the idle strategy auto: spin
// if each thread has its own processor, yield if threads share processors (oversubscribed). The
// strategy spin on shared processors is a [*config.Error]. Each pool has the processors of some of
// the ranks; placePools returns the occupancy of the busiest.
//
// The polling loops of a transport with goroutines are not pinned, and auto parks them, because
// those goroutines need processors; in mesh-proxied, whose links cannot park, it is as above.
//
// With the option cpus, threads have the processors that it lists for their role, in turn, and with
// numa those of that node. Otherwise it uses one processor of each physical core first, in the
// order of NUMA nodes, and starts again when they run out. On other hosts, the node of the network
// device comes first. In an oversubscribed mesh, each rank gets its own part of the processors if
// they divide evenly: a switch between threads of one process costs less, and the cache lines that
// clients share with their daemon stay in one cache. Where threads yield, daemons get processors of
// their own if there are enough, and clients the others: a client that shared one with its daemon
// would be served less often than one that does not.
func placePools(cfg config.Config, capabilities transport.Capabilities,
	pools []pool) ([]record.Plan, occupancy, error) {
	plans := make([]record.Plan, cfg.Ranks)
	var busiest occupancy
	for _, p := range pools {
		own, err := placeIn(cfg, capabilities, p, plans)
		if err != nil {
			return nil, own, err
		}
		if busiest.cpus == 0 || own.threads*busiest.cpus > busiest.threads*own.cpus {
			busiest = own
		}
	}
	return plans, busiest, nil
}

// placeIn makes the plans of the ranks of a pool.
func placeIn(cfg config.Config, capabilities transport.Capabilities, p pool,
	plans []record.Plan) (occupancy, error) {
	var daemonThreads, clientThreads int
	for _, r := range p.ranks {
		daemons, clients := cfg.Threads(r)
		daemonThreads, clientThreads = daemonThreads+daemons, clientThreads+clients
	}
	chosen, err := choose(cfg, capabilities, p.cpus)
	if err != nil {
		return occupancy{}, err
	}
	o := occupancy{threads: daemonThreads + clientThreads, cpus: len(chosen.cpus)}
	if chosen.listed() {
		o.cpus = chosen.used(daemonThreads, clientThreads)
	}
	if o.cpus == 0 {
		return o, errors.New("placing the polling threads: there are no processors")
	}
	idle := cfg.Idle
	switch {
	case idle == config.IdleSpin && o.oversubscribed():
		return o, &config.Error{Option: "idle", Problem: fmt.Sprintf(
			"spin needs a processor for each polling thread, but %d threads have %d; use --idle "+
				"auto, or fewer ranks, daemons or clients",
			o.threads, o.cpus)}
	case idle == config.IdleAuto && capabilities.Goroutines && !cfg.Proxied():
		idle = config.IdlePark
	case idle == config.IdleAuto && o.oversubscribed():
		idle = config.IdleYield
	case idle == config.IdleAuto:
		idle = config.IdleSpin
	}
	order := spread(chosen.cpus, p.near)
	first, next := 0, 0 // daemons with a processor of their own, and other threads, placed so far
	for i, r := range p.ranks {
		daemons, clients := cfg.Threads(r)
		plan := record.Plan{Rank: r, Config: cfg, Idle: idle, CPUs: make([]int, daemons+clients)}
		own, apart := order, daemonThreads // the first processors of own are for daemons alone
		if cfg.Mesh() {
			apart = 0
		}
		if part := share(order, i, len(p.ranks)); o.oversubscribed() && cfg.Mesh() && part != nil {
			own, apart, first, next = part, daemons, 0, 0
		}
		if !o.oversubscribed() || idle != config.IdleYield || apart >= len(own) {
			apart = 0
		}
		for t := range plan.CPUs {
			switch {
			case !cfg.Pin || capabilities.Goroutines:
				plan.CPUs[t] = -1
			case chosen.listed():
				plan.CPUs[t] = chosen.take(t < daemons)
			case t < daemons && apart > 0:
				plan.CPUs[t] = own[first]
				first++
			default:
				plan.CPUs[t] = own[apart+next%(len(own)-apart)]
				next++
			}
		}
		plans[r] = plan
	}
	return o, nil
}

// choice is the processors that a run may use, and with the option cpus those of each role.
type choice struct {
	cpus             []machine.CPU
	daemons, clients []int
	nextDaemon       int
	nextClient       int
}

// choose applies the options cpus and numa to the processors of a pool.
func choose(cfg config.Config, capabilities transport.Capabilities, cpus []machine.CPU) (c choice,
	err error) {
	c.cpus = cpus
	option := "cpus"
	if cfg.NUMA != "" {
		option = "numa"
	}
	node, one := cfg.NUMA.Node()
	switch {
	case cfg.CPUs == "" && !one:
		return c, nil
	case capabilities.Goroutines:
		return c, &config.Error{Option: option, Problem: fmt.Sprintf(
			"the polling loops of transport %s are goroutines, which are not pinned; leave it out",
			cfg.Transport)}
	case one:
		c.cpus = slices.DeleteFunc(slices.Clone(cpus),
			func(cpu machine.CPU) bool { return cpu.Node != node })
		if len(c.cpus) == 0 {
			return c, &config.Error{Option: option, Problem: fmt.Sprintf(
				"node %d has none of the processors that the run may use; use --numa any or "+
					"another node", node)}
		}
		return c, nil
	}
	var allowed []int
	for _, cpu := range cpus {
		allowed = append(allowed, cpu.ID)
	}
	slices.Sort(allowed)
	c.daemons, c.clients = cfg.CPUs.Lists()
	for _, cpu := range slices.Concat(c.daemons, c.clients) {
		if !slices.Contains(allowed, cpu) {
			return c, &config.Error{Option: option, Problem: fmt.Sprintf(
				"the run may not use processor %d; it may use %s", cpu, cpulist.Format(allowed))}
		}
	}
	return c, nil
}

// listed reports whether each role has its processors.
func (c *choice) listed() bool { return c.daemons != nil }

// used returns how many processors so many threads of each role have.
func (c *choice) used(daemons, clients int) int {
	all := slices.Concat(c.daemons[:min(daemons, len(c.daemons))],
		c.clients[:min(clients, len(c.clients))])
	slices.Sort(all)
	return len(slices.Compact(all))
}

// take returns the processor of the next thread of a role.
func (c *choice) take(daemon bool) int {
	list, next := c.clients, &c.nextClient
	if daemon {
		list, next = c.daemons, &c.nextDaemon
	}
	*next++
	return list[(*next-1)%len(list)]
}

// share returns rank r's part of the processors in order: several processors, or one that equally
// many ranks share. It returns nil if they do not divide evenly.
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

// spread orders processors by their nodes, the node near first. Those that share a core with an
// earlier one come last.
func spread(cpus []machine.CPU, near int) []int {
	type core struct{ pkg, id, alone int }
	type candidate struct {
		machine.CPU
		sibling int // number of earlier processors of the same core
	}
	sorted := slices.SortedFunc(slices.Values(cpus), func(a, b machine.CPU) int {
		return cmp.Or(cmp.Compare(distance(a, near), distance(b, near)),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Package, b.Package), cmp.Compare(a.ID, b.ID))
	})
	seen := map[core]int{}
	candidates := make([]candidate, len(sorted))
	for i, c := range sorted {
		k := core{c.Package, c.Core, -1}
		if c.Core < 0 { // unknown: assume a core of its own
			k.alone = c.ID
		}
		candidates[i] = candidate{c, seen[k]}
		seen[k]++
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Compare(a.sibling, b.sibling)
	})
	order := make([]int, len(candidates))
	for i, c := range candidates {
		order[i] = c.ID
	}
	return order
}

// distance is 0 for a processor on a node, and 1 for another.
func distance(cpu machine.CPU, node int) int {
	if cpu.Node == node {
		return 0
	}
	return 1
}
