package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/machine"
)

func (x *examiner) cores() Finding {
	f := Finding{Name: "cores", Status: OK,
		Meaning: fmt.Sprintf("A default run polls with %d threads, and each has a core of its own.", x.pollers)}
	allowed, err := x.allowed()
	if err != nil {
		f.Value, f.Status = "unknown", Note
		f.Meaning = fmt.Sprintf("The affinity cannot be read (%v); threads are left where the scheduler puts them.", err)
		return f
	}
	cores := len(allowed)
	if cpus, err := x.root.Topology(); err == nil {
		cpus = slices.DeleteFunc(cpus, func(c machine.CPU) bool { return !slices.Contains(allowed, c.ID) })
		cores = machine.Cores(cpus)
	}
	f.Value = fmt.Sprintf("%s, CPUs %s", plural(cores, "core"), machine.FormatCPUList(allowed))
	switch {
	case cores < x.pollers:
		f.Status = Warn
		f.Meaning = fmt.Sprintf("A default run polls with %d threads, so some take turns on a core and latencies are the scheduler's.", x.pollers)
		f.Remedy = "run on a machine with more cores, or widen the cpuset or affinity mask that this process was started with"
	case cores == x.pollers:
		f.Status = Note
		f.Meaning = fmt.Sprintf("A default run polls with %d threads, which leaves no core for the kernel's and the host's work: expect outliers.", x.pollers)
		f.Remedy = "one core more than polling threads takes the outliers away"
	}
	return f
}

func (x *examiner) quota() Finding {
	f := Finding{Name: "cpu-quota", Value: "none", Status: OK, Meaning: "No control group stops threads that use their processors fully."}
	if quota := x.environment.Volatile.CPUQuota; quota > 0 {
		f.Value = fmt.Sprintf("%.4g CPUs", quota)
		f.Meaning = "The quota covers the polling threads of a default run and one more."
		if quota < float64(x.pollers+1) {
			f.Status = Warn
			f.Meaning = fmt.Sprintf("%d polling threads use the quota up, and then the kernel stops them for tens of milliseconds.", x.pollers)
			f.Remedy = "raise the container's CPU limit (docker run --cpus, a pod's limits.cpu) or remove it"
		}
	}
	return f
}

func (x *examiner) load() Finding {
	f := Finding{Name: "load", Value: x.environment.Volatile.LoadAverage, Status: OK,
		Meaning: "Little else runs on this machine."}
	first, _, _ := strings.Cut(f.Value, " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return unknown(f, "Whether other programs compete for the cores is not known.")
	}
	if load > 0.3*float64(max(x.environment.Identity.CPUs, 1)) {
		f.Status = Warn
		f.Meaning = "Other programs compete for cores, caches and memory, which shows as outliers and as drift over repeats."
		f.Remedy = "stop them, or wait until the load has gone"
	}
	return f
}

func (x *examiner) governor() Finding {
	f := Finding{Name: "governor", Value: x.environment.Volatile.Governor, Status: OK,
		Meaning: "The frequency does not depend on how busy a core has been."}
	switch f.Value {
	case "performance":
	case "":
		return unknown(f, "The kernel does not control the frequency; firmware or the hypervisor's host does.")
	default:
		f.Status = Warn
		f.Meaning = "A core begins slowly and speeds up under load, so that warm-up and idle gaps change the numbers."
		f.Remedy = "cpupower frequency-set -g performance"
	}
	return f
}

func (x *examiner) turbo() Finding {
	f := Finding{Name: "turbo", Value: x.environment.Volatile.Turbo, Status: OK,
		Meaning: "The frequency does not depend on temperature and on the other cores."}
	switch f.Value {
	case "off":
	case "":
		return unknown(f, "Whether the frequency depends on temperature and on the other cores is not known.")
	default:
		f.Status = Note
		f.Meaning = "The frequency depends on temperature and on how many cores are busy: higher numbers, less repeatable."
		f.Remedy = "for repeatable numbers: echo 0 > /sys/devices/system/cpu/cpufreq/boost, or echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
	}
	return f
}

func (x *examiner) smt() Finding {
	f := Finding{Name: "smt", Value: x.environment.Volatile.SMT, Status: OK, Meaning: "No two CPUs share a core's execution units."}
	switch f.Value {
	case "off":
	case "":
		return unknown(f, "Whether two CPUs share a core's execution units is not known.")
	default:
		f.Status = Note
		f.Meaning = "Two CPUs share each core: two polling threads there slow each other down, yet exchange cache lines fastest."
		f.Remedy = "place polling threads on cores of their own, or echo off > /sys/devices/system/cpu/smt/control"
	}
	return f
}

func (x *examiner) virtualisation() Finding {
	f := Finding{Name: "virtualisation", Value: x.environment.Identity.Virtualisation, Status: OK, Meaning: "The kernel owns its cores."}
	if container := x.environment.Volatile.Container; container != "" {
		f.Value = strings.TrimPrefix(f.Value+", in a container ("+container+")", ", ")
	}
	if x.environment.Identity.Virtualisation == "" {
		if f.Value == "" {
			f.Value = "none seen"
		}
		return f
	}
	f.Status = Warn
	f.Meaning = "The hypervisor moves virtual CPUs, and the distance between two of them changes several-fold within seconds: " +
		"trust ratios to the floor, not times."
	f.Remedy = "for absolute times, run on bare metal or with virtual CPUs pinned to cores"
	return f
}

func (x *examiner) isolation() Finding {
	const cpu = "sys/devices/system/cpu"
	isolated, tickless := x.root.Text(cpu, "isolated"), x.root.Text(cpu, "nohz_full")
	if tickless == "(null)" {
		tickless = ""
	}
	if isolated == "" && tickless == "" {
		return Finding{Name: "isolation", Value: "none", Status: Note,
			Meaning: "The timer tick and other tasks interrupt polling threads, which shows beyond the 99th percentile.",
			Remedy:  "for clean tails, boot with isolcpus= and nohz_full= for the cores of the polling threads"}
	}
	return Finding{Name: "isolation", Value: fmt.Sprintf("isolated %s, without tick %s", orNone(isolated), orNone(tickless)), Status: OK,
		Meaning: "Polling threads that are pinned there run undisturbed."}
}

func (x *examiner) numa() Finding {
	nodes := x.environment.Identity.NUMANodes
	f := Finding{Name: "numa", Value: plural(nodes, "node"), Status: OK, Meaning: "All cores are equally far from all memory."}
	switch {
	case nodes == 0:
		f.Value = ""
		return unknown(f, "How far cores are from memory is not known.")
	case nodes == 1:
	case x.root.Text("proc/sys/kernel/numa_balancing") == "1":
		f.Value += ", balancing on"
		f.Status = Warn
		f.Meaning = "The kernel unmaps pages to see who uses them and moves them between nodes, in the middle of a window."
		f.Remedy = "sysctl kernel.numa_balancing=0"
	default:
		f.Status = Note
		f.Meaning = "A cache line or a page on the other node costs several times as much: compare only runs with the same placement."
		f.Remedy = "keep both sides and the NIC on one node (numactl --cpunodebind), or spread them on purpose"
	}
	return f
}

// unknown completes a finding that the machine does not tell.
func unknown(f Finding, meaning string) Finding {
	f.Value, f.Status, f.Meaning = "not visible", Note, meaning
	return f
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
