package check

import (
	"fmt"
	"strings"

	"transportbench/core/base/grouped"
	"transportbench/core/base/machine"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// checkMachines finds hosts that are one machine, and hosts that differ in what decides how fast
// they are. Its value is the number of machines.
func checkMachines(e Evidence) result.Finding {
	hosts := e.Result.Hosts
	on := grouped.By(hosts, func(h result.Host) string { return h.Machine })
	var shared []string
	for _, together := range on {
		if len(together) > 1 {
			names := make([]string, len(together))
			for i, h := range together {
				names[i] = h.Name
			}
			shared = append(shared, strings.Join(names, ", "))
		}
	}
	f := result.Finding{Value: float64(len(on)), Limit: float64(len(hosts))}
	different := differences(hosts)
	switch {
	case len(shared) > 0:
		f.Message = fmt.Sprintf(
			"%s on %s: %s share one, so this is no measurement between machines",
			format.Count(len(hosts), "host"), format.Count(len(on), "machine"),
			strings.Join(shared, "; and "))
	case different != "":
		f.Message = "the hosts differ, so the slower one decides: " + different
	default:
		f.OK, f.Message = true, fmt.Sprintf(
			"%s, each on its own machine, alike in processors and kernel",
			format.Count(len(hosts), "host"))
	}
	return f
}

// differences names the first host that is unlike the first one, for each property.
func differences(hosts []result.Host) string {
	var list []string
	for _, property := range []struct {
		name string
		of   func(*machine.Environment) any
	}{
		{"processor", func(e *machine.Environment) any { return e.Identity.CPU }},
		{"processors", func(e *machine.Environment) any { return e.Identity.CPUs }},
		{"kernel", func(e *machine.Environment) any { return e.Identity.Kernel }},
		{"hypervisor", func(e *machine.Environment) any { return e.Identity.Virtualisation }},
		{"governor", func(e *machine.Environment) any { return e.Volatile.Governor }},
		{"turbo", func(e *machine.Environment) any { return e.Volatile.Turbo }},
		{"smt", func(e *machine.Environment) any { return e.Volatile.SMT }},
	} {
		first := property.of(&hosts[0].Environment)
		for i := range hosts {
			if own := property.of(&hosts[i].Environment); own != first {
				list = append(list, fmt.Sprintf("%s %v on %s and %v on %s", property.name, first,
					hosts[0].Name, own, hosts[i].Name))
				break
			}
		}
	}
	return strings.Join(list, "; ")
}
