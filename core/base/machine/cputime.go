package machine

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
)

// State is the state of a machine, as far as the kernel counts it.
type State struct {
	Times     CPUTimes `json:"times"` // of the given processors
	Frequency float64  `json:"frequency"`
	OOMKills  uint64   `json:"oom_kills"`
}

// State reads the state for some processors.
func (r Root) State(cpus []int) State {
	return State{r.CPUTimes(cpus), r.FrequencyRatio(cpus), r.OOMKills()}
}

// CPUTimes are times of some processors since the machine started, in nanoseconds. The kernel
// counts them in steps of 10 ms.
type CPUTimes struct {
	KernelNS  uint64 // in the kernel, interrupts included
	SoftIRQNS uint64 // of KernelNS, in soft interrupts
	StealNS   uint64 // the hypervisor ran something else
}

// CPUTimes reads the times of processors, summed. They are 0 if the kernel does not report them.
func (r Root) CPUTimes(cpus []int) (t CPUTimes) {
	fs, err := procfs.NewFS(r.Path("proc"))
	if err != nil {
		return t
	}
	stat, err := fs.Stat()
	if err != nil {
		return t
	}
	ns := func(seconds float64) uint64 { return uint64(math.Round(seconds * float64(time.Second))) }
	for id, cpu := range stat.CPU {
		if slices.Contains(cpus, int(id)) {
			t.KernelNS += ns(cpu.System + cpu.IRQ + cpu.SoftIRQ)
			t.SoftIRQNS += ns(cpu.SoftIRQ)
			t.StealNS += ns(cpu.Steal)
		}
	}
	return t
}

// Sub returns the times since an earlier reading.
func (t CPUTimes) Sub(earlier CPUTimes) CPUTimes {
	// a processor may go offline
	since := func(now, before uint64) uint64 { return now - min(now, before) }
	return CPUTimes{
		KernelNS:  since(t.KernelNS, earlier.KernelNS),
		SoftIRQNS: since(t.SoftIRQNS, earlier.SoftIRQNS),
		StealNS:   since(t.StealNS, earlier.StealNS),
	}
}

// FrequencyRatio returns the mean frequency of processors over their nominal one, or 0 if the
// machine does not show both, as most virtual machines do not. On x86 the kernel computes the
// current frequency from APERF and MPERF.
func (r Root) FrequencyRatio(cpus []int) float64 {
	sum := 0.0
	for _, cpu := range cpus {
		dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu)
		current := r.number(dir, "cpufreq/scaling_cur_freq")
		nominal := r.number(dir, "cpufreq/base_frequency")
		if nominal <= 0 {
			nominal = 1000 * r.number(dir, "acpi_cppc/nominal_freq") // in MHz
		}
		if current <= 0 || nominal <= 0 {
			return 0
		}
		sum += float64(current) / float64(nominal)
	}
	if len(cpus) == 0 {
		return 0
	}
	return sum / float64(len(cpus))
}
