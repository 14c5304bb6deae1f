package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/cpulist"
)

// CPU is one online logical processor and its position in the machine. A number that the kernel
// does not report is -1.
type CPU struct {
	ID      int `json:"id"`
	Core    int `json:"core"`    // unique within the package; the same for SMT siblings
	Package int `json:"package"` // socket
	Node    int `json:"node"`    // NUMA node
	Cache   int `json:"cache"`   // last-level cache, by the kernel's id
}

// Topology returns the online processors in ascending order. It fails only if sysfs lists no
// processors.
func Topology() ([]CPU, error) { return Root("/").Topology() }

// Topology is like the function Topology, below r.
func (r Root) Topology() ([]CPU, error) {
	const base = "sys/devices/system/cpu"
	online, err := cpulist.Parse(r.Text(base, "online"))
	if err != nil {
		return nil, fmt.Errorf("reading topology: %w", err)
	}
	if len(online) == 0 {
		return nil, fmt.Errorf("reading topology: %s lists no processors; is sysfs mounted?",
			r.Path(base, "online"))
	}
	cpus := make([]CPU, len(online))
	for i, id := range online {
		dir := base + "/cpu" + strconv.Itoa(id)
		cpus[i] = CPU{
			ID:      id,
			Core:    r.number(dir, "topology/core_id"),
			Package: r.number(dir, "topology/physical_package_id"),
			Node:    -1,
			Cache:   r.number(dir, "cache/index3/id"),
		}
		for _, name := range r.Names(dir) {
			if node, found := strings.CutPrefix(name, "node"); found {
				cpus[i].Node = parseNumber(node)
			}
		}
	}
	return cpus, nil
}

func (r Root) number(elements ...string) int { return parseNumber(r.Text(elements...)) }

// parseNumber returns -1 if text is not a number.
func parseNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// Cores returns the number of physical cores among cpus. A processor without a known core counts
// as a core.
func Cores(cpus []CPU) int {
	type core struct{ pkg, id, cpu int }
	seen := make(map[core]bool)
	for _, c := range cpus {
		k := core{pkg: c.Package, id: c.Core, cpu: -1}
		if c.Core < 0 {
			k.cpu = c.ID
		}
		seen[k] = true
	}
	return len(seen)
}

// AllowedTopology returns the online processors on which this process may run.
func AllowedTopology() ([]CPU, error) {
	online, err := Topology()
	if err != nil {
		return nil, err
	}
	ids, err := AllowedCPUs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(online, func(c CPU) bool { return !slices.Contains(ids, c.ID) }), nil
}
