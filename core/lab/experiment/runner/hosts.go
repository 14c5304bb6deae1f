package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Host is a host on which ranks run.
type Host struct {
	Name string
	// Machine is the boot ID: hosts with the same one, such as containers, share processors and
	// memory.
	Machine string
	// Network is the network namespace on its machine.
	Network string
	// Address is the host's in its connection to this one.
	Address     string
	CPUs        []machine.CPU // on which polling threads may be placed
	Environment machine.Environment
	Limits      machine.Limits
	// Options are the transport's options that differ on this host.
	Options map[string]string
	// Device carries the host's traffic. The ranks get the processors of its NUMA node first,
	// unless the configuration says which. It is nil if it is not known.
	Device *machine.NetworkDevice
	// State reads the machine's state for some processors.
	State func(ctx context.Context, cpus []int) (machine.State, error)
	// Witness runs benchmarks of the field on the host, and Reach is the IP address at which other
	// machines reach the host's end of the transport; empty if there are none.
	Witness witness.Host
	Reach   string
}

// stateTimeout bounds the reading of a host's state, which takes a millisecond.
const stateTimeout = 3 * time.Second

// hosts returns the hosts of the run: this one, unless the request has others.
func (r *Request) hosts() []Host {
	if len(r.Hosts) > 0 {
		return r.Hosts
	}
	root := cmp.Or(r.Root, machine.Root("/"))
	return []Host{{
		CPUs: r.CPUs, Environment: r.Environment, Limits: r.System,
		State: func(_ context.Context, cpus []int) (machine.State, error) {
			return root.State(cpus), nil
		},
		Witness: &witness.Local{References: r.References},
	}}
}

// hostOf returns the number of a rank's host.
func (r *Request) hostOf(rank int) int {
	if len(r.Hosts) == 0 {
		return 0
	}
	return r.RankHosts[rank]
}

// used returns the numbers of the hosts that have a rank, in order.
func (r *Request) used() []int {
	var list []int
	for rank := range r.Config.Ranks {
		list = append(list, r.hostOf(rank))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// crosses reports whether two ranks are on different machines.
func (r *Request) crosses(a, b int) bool {
	hosts := r.hosts()
	return hosts[r.hostOf(a)].Machine != hosts[r.hostOf(b)].Machine
}

// bothKinds reports whether some calls stay within a machine and others go to another one.
func (r *Request) bothKinds() bool {
	far, near := false, false
	for server := range r.Config.ServingRanks() {
		for caller := range r.Config.Ranks {
			if caller != server && r.Config.Calls(caller) {
				crosses := r.crosses(server, caller)
				far, near = far || crosses, near || !crosses
			}
		}
	}
	return far && near
}

// setKinds has the clients count their calls by kind, if there are both and nothing else tells them
// apart: a pattern of traffic counts by rank, and of one server the caller's rank tells.
func (r *Request) setKinds(plans []record.Plan) {
	servers := r.Config.ServingRanks()
	if r.Config.Traffic != "" || servers == 1 || !r.bothKinds() {
		return
	}
	for rank := range plans {
		for server := range servers {
			plans[rank].Kinds = append(plans[rank].Kinds, r.kindOf(rank, server))
		}
	}
}

// fillKinds adds the metrics of each kind of call to a repeat, if there are both.
func (r *Request) fillKinds(repeat *result.Repeat) error {
	if !r.bothKinds() {
		return nil
	}
	return sample.Kinds(&r.Config, r.kindOf, repeat)
}

// kindOf returns the kind of a rank's calls to another.
func (r *Request) kindOf(caller, server int) record.CallKind {
	switch {
	case caller == server:
		return record.CallOwn
	case r.crosses(caller, server):
		return record.CallBetween
	}
	return record.CallWithin
}

// machines returns the number of machines that have a rank.
func (r *Request) machines() int {
	seen := map[string]bool{}
	for _, h := range r.used() {
		seen[r.hosts()[h].Machine] = true
	}
	return len(seen)
}

// networks returns the number of network namespaces that have a rank, on all machines.
func (r *Request) networks() int {
	seen := map[[2]string]bool{}
	for _, h := range r.used() {
		seen[[2]string{r.hosts()[h].Machine, r.hosts()[h].Network}] = true
	}
	return len(seen)
}

// pool is a set of processors and the ranks that share it: those of all hosts that are on one
// machine and may use the same processors.
type pool struct {
	cpus  []machine.CPU
	ranks []int
	near  int // the NUMA node whose processors come first, or -1
}

func (r *Request) pools() []pool {
	index := map[string]int{}
	var pools []pool
	hosts := r.hosts()
	for rank := range r.Config.Ranks {
		h := hosts[r.hostOf(rank)]
		key := fmt.Sprint(h.Machine, h.CPUs)
		at, known := index[key]
		if !known {
			at = len(pools)
			index[key] = at
			pools = append(pools, pool{cpus: h.CPUs, near: -1})
			if d := r.near(&h); d != nil {
				pools[at].near = d.Node
			}
		}
		pools[at].ranks = append(pools[at].ranks, rank)
	}
	return pools
}

// near returns the device of a host if it decides which processors come first, or nil.
func (r *Request) near(h *Host) *result.Device {
	_, one := r.Config.NUMA.Node()
	d := h.Device
	if d == nil || one || r.Config.CPUs != "" || !r.Config.Pin || r.Capabilities.Goroutines ||
		!slices.ContainsFunc(h.CPUs, func(c machine.CPU) bool {
			return c.Node == d.Node &&
				c.Node >= 0
		}) {
		return nil
	}
	return &result.Device{Name: d.Name, Node: d.Node}
}

// processorsOf returns how many processors the pool of a rank's host has.
func (r *Request) processorsOf(rank int) int { return len(r.hosts()[r.hostOf(rank)].CPUs) }

// setOptions gives the plans the options of their hosts.
func (r *Request) setOptions(plans []record.Plan) {
	crosses := r.networks() > 1 // containers on one machine may have no memory in common
	for rank := range plans {
		plans[rank].Crosses = crosses
		own := r.hosts()[r.hostOf(rank)].Options
		if len(own) == 0 {
			continue
		}
		options := maps.Clone(plans[rank].Config.Options)
		if options == nil {
			options = map[string]string{}
		}
		maps.Copy(options, own)
		plans[rank].Config.Options = options
	}
}

// checkCrossing returns an error if the ranks are on several machines, or joined by a network, and
// a transport was opened on a medium that does not leave its machine.
func (r *Request) checkCrossing(prepared []record.Prepared) error {
	if r.Network != nil {
		return r.checkNetworked(prepared)
	}
	if r.machines() < 2 {
		return nil
	}
	for _, p := range prepared {
		if m := p.Properties.Medium; m == transport.MediumMemory || m == transport.MediumUnix {
			return fmt.Errorf("%s: %w", r.Config.Transport, transport.Unavailable(
				"it was opened on %s (provider %s), which does not cross machines, and the ranks "+
					"are on %s: choose another provider or network (plugins show %s), or a "+
					"transport made for sockets or RDMA (plugins list)",
				m, p.Properties.Provider, r.hostNames(), r.Config.Transport))
		}
	}
	return nil
}

// checkNetworked returns an error if a transport was opened on a medium that does not pass the
// network with impairments.
func (r *Request) checkNetworked(prepared []record.Prepared) error {
	for _, p := range prepared {
		if m := p.Properties.Medium; m != transport.MediumTCP && m != transport.MediumUDP {
			return fmt.Errorf("--network: %w", transport.Unavailable(
				"it needs kernel TCP or UDP sockets, and %[1]s was opened on %[2]s (provider "+
					"%[3]s): choose another provider (plugins show %[1]s), or a transport over "+
					"TCP or UDP, such as sockets", r.Config.Transport, m, p.Properties.Provider))
		}
	}
	return nil
}

// hostNames returns the names of all hosts that have a rank.
func (r *Request) hostNames() string {
	var names []string
	for _, h := range r.used() {
		names = append(names, r.hosts()[h].Name)
	}
	return strings.Join(names, ", ")
}

// resultHosts returns what the result has of the hosts; nil for this one.
func (r *Request) resultHosts() []result.Host {
	if len(r.Hosts) == 0 {
		return nil
	}
	var list []result.Host
	for _, n := range r.used() {
		h := r.Hosts[n]
		host := result.Host{Name: h.Name, Machine: h.Machine, Address: h.Address,
			Options: h.Options, Device: r.near(&h), Environment: h.Environment}
		for _, cpu := range h.CPUs {
			host.CPUs = append(host.CPUs, cpu.ID)
		}
		for rank := range r.Config.Ranks {
			if r.hostOf(rank) == n {
				host.Ranks = append(host.Ranks, rank)
			}
		}
		list = append(list, host)
	}
	return list
}

// readStates reads the states of all machines at once, each for its processors among those of
// plans. Missing ones are zero.
func (r *Request) readStates(ctx context.Context, cpus [][]int) []machine.State {
	hosts := r.hosts()
	states := make([]machine.State, len(hosts))
	var reading sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	for h, list := range cpus {
		if len(list) > 0 && hosts[h].State != nil {
			reading.Go(func() { states[h], _ = hosts[h].State(ctx, list) })
		}
	}
	reading.Wait()
	return states
}

// oomKills returns the processes that the kernels have killed for lack of memory.
func (r *Request) oomKills(ctx context.Context) (sum uint64) {
	cpus := make([][]int, len(r.hosts()))
	seen := map[string]bool{}
	for _, h := range r.used() {
		if m := r.hosts()[h].Machine; !seen[m] {
			seen[m] = true
			cpus[h] = []int{0}
		}
	}
	for _, s := range r.readStates(ctx, cpus) {
		sum += s.OOMKills
	}
	return sum
}
