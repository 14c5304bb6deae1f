package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/base/machine"
	"transportbench/core/lab/result/set"
)

// Host is one of several hosts to compare.
type Host struct {
	Name        string
	Environment machine.Environment
}

// fluctuating are the values of an environment that differ between two looks at the same host.
var fluctuating = []string{"load_average", "available_memory_bytes"}

// Compare returns a finding for each value in which hosts differ, or a single one if they are alike.
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
		for key := range values[i] {
			all[key] = !slices.Contains(fluctuating, key)
		}
	}
	var findings []Finding
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if all[key] {
			findings = append(findings, difference(key, names, values)...)
		}
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{Name: "hosts", Value: "the same on " + listed(names), Status: OK,
			Meaning: "Ranks find the same on each host."})
	}
	return findings, nil
}

// difference returns a finding if the hosts' values of key differ.
func difference(key string, names []string, values []map[string]string) []Finding {
	owners := map[string][]string{} // by value
	for i, v := range values {
		text := v[key]
		if text == "" {
			text = "none"
		}
		owners[text] = append(owners[text], names[i])
	}
	if len(owners) == 1 {
		return nil
	}
	var parts []string
	for _, text := range slices.SortedFunc(maps.Keys(owners), func(a, b string) int {
		return slices.Index(names, owners[a][0]) - slices.Index(names, owners[b][0])
	}) {
		parts = append(parts, fmt.Sprintf("%s on %s", text, listed(owners[text])))
	}
	return []Finding{{Name: "hosts: " + key, Value: strings.Join(parts, "; "), Status: Warn,
		Meaning: "Ranks on unlike hosts differ for that reason alone, and the slowest sets the pace.",
		Remedy:  "Use hosts that are alike, or set this the same on all."}}
}

// listed joins names as in "a, b and c".
func listed(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
