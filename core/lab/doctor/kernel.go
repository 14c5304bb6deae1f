package doctor

import (
	"errors"

	"transportbench/core/base/machine"
)

func (x *examiner) timeSource() Finding {
	name, fault := x.clock()
	if fault != "" {
		return Finding{Name: "clock", Value: name, Status: Warn,
			Meaning: "Time is read from the kernel's clock, and a reading of it costs several times as much: " + fault + ".",
			Remedy:  "on hardware with an invariant counter, boot without clocksource= and look in dmesg for why the kernel gave it up"}
	}
	return Finding{Name: "clock", Value: name, Status: OK,
		Meaning: "The processor's counter runs at one rate and the kernel trusts it; a reading of the clock costs about 10 ns."}
}

func (x *examiner) perfEvents() Finding {
	userOnly, err := x.counters()
	if err != nil {
		f := Finding{Name: "perf-events", Value: "unavailable", Status: Note,
			Meaning: "Results carry no cycles, instructions or cache misses: " + err.Error() + "."}
		var explained *machine.CountersError
		if errors.As(err, &explained) {
			f.Meaning = "Results carry no cycles, instructions or cache misses: " + explained.Reason + "."
			f.Remedy = explained.Remedy
		}
		return f
	}
	if userOnly {
		return Finding{Name: "perf-events", Value: "user mode only", Status: Note,
			Meaning: "Counters leave out the kernel's part, which is most of a socket transport.",
			Remedy:  "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON"}
	}
	return Finding{Name: "perf-events", Value: "available", Status: OK,
		Meaning: "Results carry the cycles, instructions and cache misses of each polling thread per op, those spent spinning included."}
}

func (x *examiner) mitigations() Finding {
	v := x.environment.Volatile
	if v.Mitigated == "" {
		return Finding{Name: "mitigations", Value: "none seen", Status: OK,
			Meaning: "The kernel spends nothing on working around faults of the processor."}
	}
	return Finding{Name: "mitigations", Value: v.Mitigated, Status: Note,
		Meaning: "Each system call pays for them, so socket transports lose and polling ones do not; compare machines only with the same ones."}
}

func (x *examiner) aslr() Finding {
	f := Finding{Name: "aslr", Value: x.environment.Volatile.ASLR, Status: OK,
		Meaning: "Every process has other addresses, which is what repeats should average over; two runs may differ by a few percent."}
	switch f.Value {
	case "":
		return unknown(f, "Whether every process has other addresses is not known.")
	case "off":
		f.Status = Note
		f.Meaning = "Every run has the same addresses, lucky or unlucky: repeats agree more than they should."
		f.Remedy = "sysctl kernel.randomize_va_space=2"
	}
	return f
}

func (x *examiner) memfd() Finding {
	f := Finding{Name: "memfd", Value: "shared through /proc", Status: OK,
		Meaning: "Processes of one user share memory that vanishes with them, also when they are killed."}
	if err := x.shareMemfd(); err != nil {
		f.Value, f.Status = "unusable", Warn
		f.Meaning = "Shared memory needs names in /dev/shm, which a killed process can leave behind: " + err.Error() + "."
		f.Remedy = "allow memfd_create and mount /proc in the container or sandbox; start all processes as one user"
		return f
	}
	if err := x.openPidfd(); err != nil {
		f.Value, f.Status = f.Value+", no pidfd", Note
		f.Meaning = "A dead process is noticed by its number, which the kernel may have given to another: " + err.Error() + "."
		f.Remedy = "use Linux 5.3 or later, and a container runtime that allows pidfd_open"
	}
	return f
}
