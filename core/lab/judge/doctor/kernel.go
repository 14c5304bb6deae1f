package doctor

import (
	"errors"

	"transportbench/core/base/machine"
)

func (x *examiner) timeSource() Finding {
	name, fault := x.clock()
	f := Finding{Name: "clock", Value: name, Status: OK,
		Meaning: "The processor's counter has a constant rate and the kernel trusts it; reading " +
			"the clock costs about 10 ns."}
	if fault != "" {
		return f.as(Warn,
			"Time comes from the kernel's clock, which costs several times as much to read: "+
				fault+".",
			"on hardware with an invariant counter, boot without clocksource= and look in dmesg "+
				"for why the kernel rejected it")
	}
	return f
}

func (x *examiner) perfEvents() Finding {
	f := Finding{Name: "perf-events", Value: "available", Status: OK,
		Meaning: "Results include the cycles, instructions and cache misses of each polling " +
			"thread per op, including time spent spinning."}
	userOnly, err := x.counters()
	var explained *machine.CountersError
	const missing = "Results have no cycles, instructions or cache misses: "
	switch {
	case errors.As(err, &explained):
		f.Value = "unavailable"
		return f.as(Note, missing+explained.Reason+".", explained.Remedy)
	case err != nil:
		f.Value = "unavailable"
		return f.as(Note, missing+err.Error()+".", "")
	case userOnly:
		f.Value = "user mode only"
		return f.as(Note,
			"Counters exclude the kernel, which is most of the cost of a socket transport.",
			"sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON")
	}
	return f
}

func (x *examiner) mitigations() Finding {
	f := Finding{Name: "mitigations", Value: x.environment.Volatile.Mitigated, Status: OK}
	if f.Value == "" {
		f.Value, f.Meaning = "none seen",
			"The kernel spends no time on mitigations of processor bugs."
		return f
	}
	return f.as(Note, "Every system call pays for mitigations, which slows socket transports and "+
		"not polling ones; compare only machines with the same mitigations.", "")
}

func (x *examiner) aslr() Finding {
	f := Finding{Name: "aslr", Value: x.environment.Volatile.ASLR, Status: OK,
		Meaning: "Every process has other addresses, and repeats average over them; two runs may " +
			"differ by a few percent."}
	switch f.Value {
	case "":
		return f.unknown("It is unknown whether every process has other addresses.")
	case "off":
		return f.as(Note, "Every run has the same addresses, lucky or unlucky, so repeats agree "+
			"more than they should.",
			"sysctl kernel.randomize_va_space=2")
	}
	return f
}

func (x *examiner) memfd() Finding {
	f := Finding{Name: "memfd", Value: "shared through /proc", Status: OK,
		Meaning: "Processes of one user share memory that disappears with them, even if they are " +
			"killed."}
	if err := x.shareMemfd(); err != nil {
		f.Value = "unusable"
		return f.as(Warn, "Shared memory needs names in /dev/shm: "+err.Error()+".",
			"allow memfd_create and mount /proc in the container or sandbox; run all processes "+
				"as one user")
	}
	if err := x.openPidfd(); err != nil {
		f.Value += ", no pidfd"
		return f.as(Note, "A dead process is recognized by its number, which the kernel may have "+
			"given to another process: "+err.Error()+".",
			"use Linux 5.3 or later, and a container runtime that allows pidfd_open")
	}
	return f
}
