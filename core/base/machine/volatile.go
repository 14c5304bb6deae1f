package machine

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Volatile is the state of a machine, which may explain why two of its results differ. Values that
// cannot be read are empty or 0.
type Volatile struct {
	LoadAverage string `json:"load_average"` // over 1, 5 and 15 minutes
	Governor    string `json:"governor"`     // "performance", or "ondemand x4, performance x2"
	Turbo       string `json:"turbo"`        // "on" or "off"
	SMT         string `json:"smt"`          // "on" or "off"
	ClockSource string `json:"clock_source"`
	// HugePages is the mode of transparent huge pages for private memory, SharedHugePages the mode
	// for shared memory: "always", "madvise", "never", ...
	HugePages       string `json:"transparent_huge_pages"`
	SharedHugePages string `json:"transparent_huge_pages_shared"`
	ASLR            string `json:"aslr"` // "off", "partial" or "full"
	// Vulnerable lists the processor's vulnerabilities that the kernel does not mitigate, Mitigated
	// those that it does, which makes system calls slower.
	Vulnerable      string  `json:"vulnerable"`
	Mitigated       string  `json:"mitigated"`
	AvailableMemory uint64  `json:"available_memory_bytes"`
	AllowedCPUs     string  `json:"allowed_cpus"` // cpuset, in the kernel's list format
	CPUQuota        float64 `json:"cpu_quota"`    // of the cgroup, in CPUs; 0 is no quota
	Container       string  `json:"container"`    // "docker", ...; empty outside a container
}

func (r Root) volatile() Volatile {
	v := Volatile{
		Governor:        r.governor(),
		Turbo:           r.turbo(),
		SMT:             r.smt(),
		ClockSource:     r.Text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
		HugePages:       bracketed(r.Text("sys/kernel/mm/transparent_hugepage/enabled")),
		SharedHugePages: bracketed(r.Text("sys/kernel/mm/transparent_hugepage/shmem_enabled")),
		AllowedCPUs:     fields(r.Text("proc/self/status"))["Cpus_allowed_list"],
		CPUQuota:        r.CPUQuota(),
		Container:       r.container(),
	}
	v.Vulnerable, v.Mitigated = r.mitigations()
	if aslr, err := strconv.Atoi(r.Text("proc/sys/kernel/randomize_va_space")); err == nil &&
		aslr >= 0 && aslr <= 2 {
		v.ASLR = [...]string{"off", "partial", "full"}[aslr]
	}
	if available := r.memory().MemAvailableBytes; available != nil {
		v.AvailableMemory = r.groupMemory(*available)
	}
	if fs, err := procfs.NewFS(r.Path("proc")); err == nil {
		if load, err := fs.LoadAvg(); err == nil {
			v.LoadAverage = fmt.Sprintf("%.2f %.2f %.2f", load.Load1, load.Load5, load.Load15)
		}
	}
	return v
}

func (r Root) memory() procfs.Meminfo {
	fs, err := procfs.NewFS(r.Path("proc"))
	if err != nil {
		return procfs.Meminfo{}
	}
	memory, err := fs.Meminfo()
	if err != nil {
		return procfs.Meminfo{}
	}
	return memory
}

// bracketed returns the selected value of "always [madvise] never".
func bracketed(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	chosen, _, _ := strings.Cut(rest, "]")
	return chosen
}

func (r Root) governor() string {
	const dir = "sys/devices/system/cpu/cpufreq"
	count := make(map[string]int)
	for _, policy := range r.Names(dir) {
		if governor := r.Text(dir, policy, "scaling_governor"); governor != "" {
			count[governor]++
		}
	}
	names := slices.Sorted(maps.Keys(count))
	if len(names) == 1 {
		return names[0]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s x%d", name, count[name])
	}
	return strings.Join(names, ", ")
}

func (r Root) turbo() string {
	switch r.Text("sys/devices/system/cpu/intel_pstate/no_turbo") {
	case "0":
		return "on"
	case "1":
		return "off"
	}
	return onOff(r.Text("sys/devices/system/cpu/cpufreq/boost"))
}

func (r Root) smt() string { return onOff(r.Text("sys/devices/system/cpu/smt/active")) }

func onOff(flag string) string {
	switch flag {
	case "1":
		return "on"
	case "0":
		return "off"
	}
	return ""
}

func (r Root) mitigations() (vulnerable, mitigated string) {
	const dir = "sys/devices/system/cpu/vulnerabilities"
	var open, closed []string
	for _, name := range r.Names(dir) {
		switch state := r.Text(dir, name); {
		case strings.HasPrefix(state, "Vulnerable"):
			open = append(open, name)
		case strings.HasPrefix(state, "Mitigation"):
			closed = append(closed, name)
		}
	}
	return strings.Join(open, ", "), strings.Join(closed, ", ")
}

func (r Root) container() string {
	if kind := r.Text("run/systemd/container"); kind != "" {
		return kind
	}
	for _, mark := range []struct{ path, kind string }{
		{"run/.containerenv", "podman"}, {"var/run/secrets/kubernetes.io", "kubernetes"},
		{".dockerenv", "docker"},
	} {
		if r.Exists(mark.path) {
			return mark.kind
		}
	}
	return ""
}

// CPUQuota returns the CPU quota of the process's control group, in CPUs, or 0 if there is none.
// When the quota of a period is used up, the kernel stops the threads for the rest of the period,
// which is tens of milliseconds.
func (r Root) CPUQuota() float64 {
	quota := 0.0
	for _, group := range r.groups("cpu") {
		if q := r.groupQuota(group); q > 0 && (quota == 0 || q < quota) {
			quota = q
		}
	}
	return quota
}

// groupQuota returns the quota of one control group, of cgroup version 2 or 1.
func (r Root) groupQuota(dir string) float64 {
	quota, period, _ := strings.Cut(r.Text(dir, "cpu.max"), " ")
	if quota == "" {
		quota, period = r.Text(dir, "cpu.cfs_quota_us"), r.Text(dir, "cpu.cfs_period_us")
	}
	q, errQuota := strconv.ParseFloat(quota, 64)
	p, errPeriod := strconv.ParseFloat(period, 64)
	if errQuota != nil || errPeriod != nil || q <= 0 || p <= 0 {
		return 0 // "max", -1, or no such file
	}
	return q / p
}

// groups returns the directories of the process's control group for a controller and of all its
// ancestors, whose limits apply as well, in cgroup version 2 and 1.
func (r Root) groups(controller string) []string {
	var dirs []string
	for line := range strings.Lines(r.Text("proc/self/cgroup")) {
		// The format is number:controllers:path. The unified hierarchy has no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] != "" && !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		mounts := []string{"sys/fs/cgroup/" + parts[1], "sys/fs/cgroup/" + controller}
		if parts[1] == "" {
			mounts = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		}
		for _, mount := range slices.Compact(mounts) {
			// A path from outside this container does not exist here; then the root is the
			// container's own group.
			for dir := path.Join("/", parts[2]); ; dir = path.Dir(dir) {
				dirs = append(dirs, mount+dir)
				if dir == "/" {
					break
				}
			}
		}
	}
	return dirs
}

// Load returns the load average of the last minute; ok is false if it is unknown.
func (v *Volatile) Load() (load float64, ok bool) {
	first, _, _ := strings.Cut(v.LoadAverage, " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}
