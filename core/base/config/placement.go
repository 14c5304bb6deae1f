package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"transportbench/core/base/cpulist"
	"transportbench/core/base/netem"
	"transportbench/core/fabric/suggest"
)

// CPUs chooses the processors of the polling threads by their role: "daemons=2,clients=3-18". The
// threads of a host take those of their role in turn, in the order of their ranks. The zero value
// leaves the choice to the runner.
type CPUs string

// automatic is the zero value of CPUs as users write it.
const automatic = "auto"

// The roles of CPUs, as String writes them. Users may leave out the plural.
const (
	roleDaemons = "daemons"
	roleClients = "clients"
)

func (c CPUs) String() string { return cmp.Or(string(c), automatic) }

// Set parses the format of String.
func (c *CPUs) Set(text string) error {
	if text == "" || text == automatic {
		*c = ""
		return nil
	}
	daemons, clients, err := parseCPUs(text)
	if err == nil {
		*c = CPUs(roleDaemons + "=" + cpulist.Format(daemons) + "," + roleClients + "=" +
			cpulist.Format(clients))
	}
	return err
}

// Lists returns the processors of daemons and of clients. It needs a choice that Set has checked.
func (c CPUs) Lists() (daemons, clients []int) {
	daemons, clients, _ = parseCPUs(string(c))
	return daemons, clients
}

func parseCPUs(text string) (daemons, clients []int, err error) {
	parts, role := map[string][]string{}, ""
	for part := range strings.SplitSeq(text, ",") {
		name, list, named := strings.Cut(part, "=")
		if !named { // one more of the role before
			parts[role] = append(parts[role], part)
			continue
		}
		role = strings.TrimSuffix(name, "s") + "s"
		if role != roleDaemons && role != roleClients {
			return nil, nil, fmt.Errorf("%q is not one of %s, %s%s", shorten(name), roleDaemons,
				roleClients,
				suggest.For(name, []string{roleDaemons, roleClients}))
		}
		if parts[role] != nil {
			return nil, nil, fmt.Errorf("%s are given twice", role)
		}
		parts[role] = []string{list}
	}
	if parts[""] != nil {
		return nil, nil, fmt.Errorf("%q has no role; use daemons=0,clients=1-3", shorten(text))
	}
	for _, of := range []struct {
		role string
		list *[]int
	}{{roleDaemons, &daemons}, {roleClients, &clients}} {
		if *of.list, err = cpulist.Parse(strings.Join(parts[of.role], ",")); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", of.role, err)
		}
		if len(*of.list) == 0 {
			return nil, nil, fmt.Errorf("%s have no processors; use daemons=0,clients=1-3", of.role)
		}
	}
	return daemons, clients, nil
}

// NUMANode restricts the polling threads to the processors of one NUMA node. The zero value is any.
type NUMANode string

const (
	anyNode     = "any"
	maxNUMANode = 1023 // the kernel's largest
)

func (n NUMANode) String() string { return cmp.Or(string(n), anyNode) }

// Set parses the format of String.
func (n *NUMANode) Set(text string) error {
	if text == "" || text == anyNode {
		*n = ""
		return nil
	}
	node, err := strconv.Atoi(text)
	if err != nil || node < 0 || node > maxNUMANode {
		return fmt.Errorf("%q is not a node from 0 to %d, or %s", shorten(text),
			maxNUMANode, anyNode)
	}
	*n = NUMANode(strconv.Itoa(node))
	return nil
}

// Node returns the number of the node; ok is false for any.
func (n NUMANode) Node() (node int, ok bool) {
	node, err := strconv.Atoi(string(n))
	return node, err == nil
}

// Count is a number from 1. The zero value is one.
type Count int

func (n Count) String() string { return strconv.Itoa(n.value()) }

func (n Count) value() int { return max(int(n), 1) }

// Set parses a number from 1.
func (n *Count) Set(text string) error {
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 || value >= MaxRanks {
		return fmt.Errorf("%q is not a number from 1 to %d", shorten(text), MaxRanks-1)
	}
	if *n = Count(value); value == 1 {
		*n = 0
	}
	return nil
}

// Interleave is the order in which a daemon of mesh-proxied sends and polls. The zero value sends
// once per iteration, after it has polled the other ranks and the links of its clients.
type Interleave string

// InterleaveSendPoll sends what a poll of the other ranks brought before the poll of the links, and
// what that brought before the next iteration.
const InterleaveSendPoll Interleave = "send-poll"

// Interleaves returns the orders as users write them.
func Interleaves() []string { return []string{none, string(InterleaveSendPoll)} }

func (i Interleave) String() string { return cmp.Or(string(i), none) }

// checkPlacement checks the options that place and connect ranks and threads, and order their work.
func checkPlacement(c *Config) *Error {
	switch {
	case c.Network != "" && c.Ranks > netem.MaxRanks:
		return &Error{"network",
			fmt.Sprintf("%d ranks are too many for it (at most %d); use fewer --ranks", c.Ranks,
				netem.MaxRanks)}
	case c.Servers.value() >= c.Ranks && !c.Mesh():
		return &Error{"servers",
			fmt.Sprintf("%d serving ranks leave none of %d ranks to call; use --ranks %d or more",
				c.Servers.value(), c.Ranks, c.Servers.value()+1)}
	case c.Delegate && c.Daemons < 2:
		return &Error{"delegate", "has no effect with one daemon in each rank, which owns all " +
			"keys of its rank; use --daemons 2 or more, or leave it out"}
	}
	return nil
}
