package machine

import (
	"fmt"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ThreadUsage is what the kernel has counted for one thread since it began.
type ThreadUsage struct {
	CPUNS       uint64 // time on a processor, in nanoseconds
	Voluntary   uint64 // switches because the thread waited
	Involuntary uint64 // switches because the scheduler took the processor away
	MinorFaults uint64 // pages that were in memory
	MajorFaults uint64 // pages that had to be read
	// Migrations to another processor; 0 where the kernel does not tell.
	Migrations uint64
}

// ReadThreadUsage reads the counts of the calling thread, which must be locked
// to its goroutine for two readings to be of the same thread.
func ReadThreadUsage() (ThreadUsage, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		return ThreadUsage{}, fmt.Errorf("reading thread usage: %w", err)
	}
	// The times in usage may advance by whole scheduler ticks; this one does not.
	var cpu unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &cpu); err != nil {
		return ThreadUsage{}, fmt.Errorf("reading thread time: %w", err)
	}
	return ThreadUsage{
		CPUNS:       uint64(cpu.Nano()),
		Voluntary:   uint64(usage.Nvcsw),
		Involuntary: uint64(usage.Nivcsw),
		MinorFaults: uint64(usage.Minflt),
		MajorFaults: uint64(usage.Majflt),
		Migrations:  migrations(Root("/").Text("proc/thread-self/sched")),
	}, nil
}

// migrations finds their number in what the kernel says of a thread's
// scheduling (kernel/sched/debug.c), which few are built without. The counter
// of perf events would need rights.
func migrations(sched string) uint64 {
	for line := range strings.Lines(sched) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == "se.nr_migrations" {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// Sub returns what was counted since an earlier reading of the same thread.
func (u ThreadUsage) Sub(earlier ThreadUsage) ThreadUsage {
	return ThreadUsage{
		CPUNS:       u.CPUNS - earlier.CPUNS,
		Voluntary:   u.Voluntary - earlier.Voluntary,
		Involuntary: u.Involuntary - earlier.Involuntary,
		MinorFaults: u.MinorFaults - earlier.MinorFaults,
		MajorFaults: u.MajorFaults - earlier.MajorFaults,
		Migrations:  u.Migrations - earlier.Migrations,
	}
}

// maxCPUs is more than any kernel is built for.
const maxCPUs = 1 << 14

// Pin binds the calling thread, which must be locked to its goroutine, to one
// processor. Threads that it starts afterwards inherit that: initialise C
// libraries first.
func Pin(cpu int) error {
	if cpu < 0 || cpu >= maxCPUs {
		return fmt.Errorf("pinning to cpu %d: no such processor", cpu)
	}
	set := unix.NewCPUSet(maxCPUs)
	set.Set(cpu)
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("pinning to cpu %d: %w: it is offline or outside of this container's cpuset; online are %s",
			cpu, err, Root("/").Text("sys/devices/system/cpu/online"))
	}
	return nil
}

// AllowedCPUs returns the processors that the calling thread may run on, in
// ascending order. For a pinned thread that is the one it is pinned to.
func AllowedCPUs() ([]int, error) {
	set := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return nil, fmt.Errorf("reading affinity: %w", err)
	}
	var cpus []int
	for cpu := range maxCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// Affinity returns [AllowedCPUs] in the kernel's notation, "0-3,8".
func Affinity() (string, error) {
	cpus, err := AllowedCPUs()
	return FormatCPUList(cpus), err
}

// PeakRSS returns the most memory in bytes that the process has had resident.
func PeakRSS() (uint64, error) {
	// Not ru_maxrss: it survives exec, so a small plugin would show the peak of
	// the process that launched it.
	self, err := procfs.Self()
	if err != nil {
		return 0, fmt.Errorf("reading peak memory: %w", err)
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0, fmt.Errorf("reading peak memory: %w", err)
	}
	return status.VmHWM, nil
}

// GCCycles returns how many collections the process has completed.
func GCCycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
