package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"transportbench/core/base/machine"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// Host is one of several hosts to compare.
type Host struct {
	Name        string
	Environment machine.Environment
	Interfaces  []machine.NetworkDevice
	Libraries   map[string]string // as [Libraries] returns them
	// Plugins is by transport, the same transports for all hosts.
	Plugins map[string]Plugin
}

// Plugin is a plugin on a host.
type Plugin struct {
	// why no run can use it, and the remedy, as for another file than the coordinator's; or nil
	Refused     error
	Unavailable string // as in transport.Info
}

// fluctuating are the values of an environment that differ between two looks at the same host.
var fluctuating = []string{"load_average", "available_memory_bytes"}

// Compare returns a finding for each value in which hosts differ, or a single one if they are
// alike.
func Compare(hosts []Host) ([]Finding, error) {
	values := make([]map[string]string, len(hosts))
	all := map[string]bool{}
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
		values[i] = map[string]string{}
		for _, part := range []any{h.Environment.Identity, h.Environment.Volatile} {
			flat, err := set.Flatten(part)
			if err != nil {
				return nil, fmt.Errorf("environment of %s: %w", h.Name, err)
			}
			maps.Copy(values[i], flat)
		}
		h.addDevices(values[i])
		for key := range values[i] {
			all[key] = !slices.Contains(fluctuating, key)
		}
	}
	findings := refusals(hosts)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if all[key] {
			findings = append(findings, difference(key, names, values)...)
		}
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{Name: "hosts", Status: OK,
			Value:   "the same on " + format.List(names),
			Meaning: "Ranks find the same on each host."})
	}
	return findings, nil
}

// addDevices adds the interfaces that a run may use, the libraries, and the transports that can
// run.
func (h *Host) addDevices(values map[string]string) {
	for _, d := range h.Interfaces {
		if !slices.ContainsFunc(d.Addresses, func(a netip.Addr) bool {
			return !a.IsLoopback() &&
				!a.IsLinkLocalUnicast()
		}) {
			continue
		}
		text := fmt.Sprintf("MTU %d", d.MTU)
		if d.Speed > 0 {
			text += fmt.Sprintf(", %d Mbit/s", d.Speed)
		}
		values["interface "+d.Name] = text
	}
	for name, version := range h.Libraries {
		values["library "+name] = version
	}
	for name, p := range h.Plugins {
		if p.Unavailable != "" {
			values["why "+name+" is unavailable"] = p.Unavailable
		}
	}
}

// refusals returns a finding for each plugin and reason that keeps it from running on hosts.
func refusals(hosts []Host) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(hosts[0].Plugins)) {
		refused := map[string][]string{} // hosts by reason
		for _, h := range hosts {
			if err := h.Plugins[name].Refused; err != nil {
				refused[err.Error()] = append(refused[err.Error()], h.Name)
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(refused)) {
			findings = append(findings, Finding{Name: "hosts: plugin " + name, Status: Bad,
				Value:   fmt.Sprintf("%s: %s", format.List(refused[reason]), reason),
				Meaning: fmt.Sprintf("Runs of %s on these hosts are refused.", name)})
		}
	}
	return findings
}

// difference returns a finding if the hosts' values of key differ.
func difference(key string, names []string, values []map[string]string) []Finding {
	owners := map[string][]string{} // by value
	for i, v := range values {
		text := cmp.Or(v[key], "none")
		owners[text] = append(owners[text], names[i])
	}
	if len(owners) == 1 {
		return nil
	}
	var parts []string
	for _, text := range slices.SortedFunc(maps.Keys(owners), func(a, b string) int {
		return slices.Index(names, owners[a][0]) - slices.Index(names, owners[b][0])
	}) {
		parts = append(parts, fmt.Sprintf("%s on %s", text, format.List(owners[text])))
	}
	return []Finding{{Name: "hosts: " + key, Value: strings.Join(parts, "; "), Status: Warn,
		Meaning: "Ranks on unlike hosts differ for that reason alone, and the slowest sets " +
			"the pace.",
		Remedy: "Use hosts that are alike, or set this the same on all."}}
}
