package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/base/cpulist"
	"transportbench/core/base/machine"
	"transportbench/core/lab/store/format"
)

func (x *examiner) cores() Finding {
	f := Finding{Name: "cores", Value: "unknown", Status: OK,
		Meaning: fmt.Sprintf("A default run polls with %d threads, and each has its own core.",
			x.pollers)}
	allowed, err := x.allowed()
	if err != nil {
		return f.as(Note,
			fmt.Sprintf("The affinity cannot be read (%v), so threads are not pinned.", err), "")
	}
	cores := len(allowed)
	if cpus, err := x.root.Topology(); err == nil {
		cpus = slices.DeleteFunc(cpus, func(c machine.CPU) bool {
			return !slices.Contains(allowed, c.ID)
		})
		cores = machine.Cores(cpus)
	}
	f.Value = fmt.Sprintf("%s, CPUs %s", format.Count(cores, "core"), cpulist.Format(allowed))
	switch {
	case cores < x.pollers:
		return f.as(Warn, fmt.Sprintf("A default run polls with %d threads, so some share a core "+
			"and latencies depend on the scheduler.", x.pollers),
			"use a machine with more cores, or widen the cpuset or affinity mask of this process")
	case cores == x.pollers:
		return f.as(Note, fmt.Sprintf("A default run polls with %d threads, which leaves no core "+
			"for the kernel and the host: expect outliers.", x.pollers),
			"one core more than polling threads avoids the outliers")
	}
	return f
}

func (x *examiner) quota() Finding {
	f := Finding{Name: "cpu-quota", Value: "none", Status: OK,
		Meaning: "No control group throttles threads that use their processors fully."}
	quota := x.environment.Volatile.CPUQuota
	if quota <= 0 {
		return f
	}
	f.Value = fmt.Sprintf("%.4g CPUs", quota)
	f.Meaning = "The quota suffices for the polling threads of a default run and one more."
	if quota < float64(x.pollers+1) {
		return f.as(Warn, fmt.Sprintf("%d polling threads exhaust the quota, and then the kernel "+
			"stops them for tens of milliseconds.", x.pollers),
			"raise or remove the container's CPU limit (docker run --cpus, a pod's limits.cpu)")
	}
	return f
}

func (x *examiner) load() Finding {
	f := Finding{Name: "load", Value: x.environment.Volatile.LoadAverage, Status: OK,
		Meaning: "Little else runs on this machine."}
	load, known := x.environment.Volatile.Load()
	if !known {
		return f.unknown("It is unknown whether other programs compete for the cores.")
	}
	if load > 0.3*float64(max(x.environment.Identity.CPUs, 1)) {
		return f.as(Warn, "Other programs compete for cores, caches and memory, which causes "+
			"outliers and drift over repeats.",
			"stop them, or wait until they are done")
	}
	return f
}

func (x *examiner) governor() Finding {
	f := Finding{Name: "governor", Value: x.environment.Volatile.Governor, Status: OK,
		Meaning: "The frequency does not depend on how busy a core was."}
	switch f.Value {
	case "performance":
		return f
	case "":
		return f.unknown(
			"The kernel does not control the frequency; the firmware or the hypervisor does.")
	}
	return f.as(Warn, "A core starts slowly and speeds up under load, so warm-up and idle gaps "+
		"change the results.",
		"cpupower frequency-set -g performance")
}

func (x *examiner) turbo() Finding {
	f := Finding{Name: "turbo", Value: x.environment.Volatile.Turbo, Status: OK,
		Meaning: "The frequency does not depend on temperature or on other cores."}
	switch f.Value {
	case "off":
		return f
	case "":
		return f.unknown(
			"It is unknown whether the frequency depends on temperature and on other cores.")
	}
	return f.as(Note, "The frequency depends on temperature and on the number of busy cores: "+
		"results are better but less repeatable.",
		"for repeatable results: echo 0 > /sys/devices/system/cpu/cpufreq/boost, or echo 1 > "+
			"/sys/devices/system/cpu/intel_pstate/no_turbo")
}

func (x *examiner) smt() Finding {
	f := Finding{Name: "smt", Value: x.environment.Volatile.SMT, Status: OK,
		Meaning: "No two CPUs share a core's execution units."}
	switch f.Value {
	case "off":
		return f
	case "":
		return f.unknown("It is unknown whether two CPUs share a core's execution units.")
	}
	return f.as(Note, "Two CPUs share each core: two polling threads there slow each other down, "+
		"but exchange cache lines fastest.",
		"place polling threads on different cores, or echo off > "+
			"/sys/devices/system/cpu/smt/control")
}

func (x *examiner) virtualisation() Finding {
	f := Finding{Name: "virtualisation", Value: x.environment.Identity.Virtualisation, Status: OK,
		Meaning: "The kernel owns its cores."}
	if container := x.environment.Volatile.Container; container != "" {
		f.Value = strings.TrimPrefix(f.Value+", in a container ("+container+")", ", ")
	}
	if x.environment.Identity.Virtualisation == "" {
		f.Value = cmp.Or(f.Value, "none seen")
		return f
	}
	return f.as(Warn, "The hypervisor moves virtual CPUs, and the latency between two of them "+
		"changes several-fold within seconds: "+
		"trust ratios to the floor, not times.",
		"for absolute times, use bare metal or virtual CPUs that are pinned to cores")
}

func (x *examiner) isolation() Finding {
	const cpu = "sys/devices/system/cpu"
	isolated, tickless := x.root.Text(cpu, "isolated"), x.root.Text(cpu, "nohz_full")
	if tickless == "(null)" {
		tickless = ""
	}
	f := Finding{Name: "isolation", Value: "none", Status: OK,
		Meaning: "Polling threads that are pinned there run undisturbed."}
	if isolated == "" && tickless == "" {
		return f.as(Note, "The timer tick and other tasks interrupt polling threads, which shows "+
			"beyond the 99th percentile.",
			"for clean tails, boot with isolcpus= and nohz_full= for the cores of the polling "+
				"threads")
	}
	f.Value = fmt.Sprintf("isolated %s, without tick %s", cmp.Or(isolated, "none"),
		cmp.Or(tickless, "none"))
	return f
}

func (x *examiner) numa() Finding {
	nodes := x.environment.Identity.NUMANodes
	f := Finding{Name: "numa", Value: format.Count(nodes, "node"), Status: OK,
		Meaning: "All cores are equally far from all memory."}
	switch {
	case nodes == 0:
		return f.unknown("It is unknown how far cores are from memory.")
	case nodes == 1:
		return f
	case x.root.Text("proc/sys/kernel/numa_balancing") == "1":
		f.Value += ", balancing on"
		return f.as(Warn, "The kernel unmaps pages to see which threads use them and moves them "+
			"between nodes, even during a window.",
			"sysctl kernel.numa_balancing=0")
	}
	return f.as(Note, "A cache line or a page on the other node costs several times as much: "+
		"compare only runs with the same placement.",
		"keep both sides and the NIC on one node (numactl --cpunodebind), or spread them on "+
			"purpose")
}
