package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"transportbench/core/base/cpulist"
)

// Usage has the kernel's counts for one thread or for the process since its start.
type Usage struct {
	CPUNS       uint64 // time on a processor, in nanoseconds
	SystemNS    uint64 // the part of CPUNS in the kernel
	Voluntary   uint64 // context switches because the thread waited
	Involuntary uint64 // context switches because the scheduler preempted the thread
	MinorFaults uint64 // page faults without I/O
	MajorFaults uint64 // page faults with I/O
	Migrations  uint64 // moves to another processor; 0 if the kernel does not report them
}

// ReadThreadUsage reads the counts of the calling thread, which must be locked to its goroutine if
// two readings are to be compared.
func ReadThreadUsage() (Usage, error) {
	u, err := readUsage(unix.RUSAGE_THREAD, unix.CLOCK_THREAD_CPUTIME_ID)
	u.Migrations = migrations(Root("/").Text("proc/thread-self/sched"))
	return u, err
}

// ReadProcessUsage reads the counts of all threads of the process together.
func ReadProcessUsage() (Usage, error) {
	return readUsage(unix.RUSAGE_SELF, unix.CLOCK_PROCESS_CPUTIME_ID)
}

func readUsage(who int, clock int32) (Usage, error) {
	var usage unix.Rusage
	// The times in usage may advance in scheduler ticks; this clock does not.
	var cpu unix.Timespec
	if err := errors.Join(unix.Getrusage(who, &usage), unix.ClockGettime(clock, &cpu)); err != nil {
		return Usage{}, fmt.Errorf("reading the usage of processors: %w", err)
	}
	return Usage{
		CPUNS:       uint64(cpu.Nano()),
		SystemNS:    uint64(usage.Stime.Nano()),
		Voluntary:   uint64(usage.Nvcsw),
		Involuntary: uint64(usage.Nivcsw),
		MinorFaults: uint64(usage.Minflt),
		MajorFaults: uint64(usage.Majflt),
	}, nil
}

// migrations returns the number of migrations in a thread's scheduling statistics
// (kernel/sched/debug.c), which most kernels have. The perf event would need permission.
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

// Sub returns the counts since an earlier reading of the same thread or process.
func (u Usage) Sub(earlier Usage) Usage {
	return Usage{
		CPUNS:       u.CPUNS - earlier.CPUNS,
		SystemNS:    u.SystemNS - min(earlier.SystemNS, u.SystemNS), // the kernel scales it
		Voluntary:   u.Voluntary - earlier.Voluntary,
		Involuntary: u.Involuntary - earlier.Involuntary,
		MinorFaults: u.MinorFaults - earlier.MinorFaults,
		MajorFaults: u.MajorFaults - earlier.MajorFaults,
		Migrations:  u.Migrations - earlier.Migrations,
	}
}

// Monotonic reads the kernel's monotonic clock, which all processes of a host share, in
// nanoseconds.
func Monotonic() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for an unknown clock only
	return uint64(now.Nano())
}

const maxCPUs = cpulist.Max

// Pin binds the calling thread, which must be locked to its goroutine, to one processor. Threads
// that it starts afterwards inherit the affinity, so initialise C libraries first.
func Pin(cpu int) error {
	if cpu < 0 || cpu >= maxCPUs {
		return fmt.Errorf("pinning to cpu %d: processors have numbers from 0 to %d", cpu, maxCPUs-1)
	}
	set := unix.NewCPUSet(maxCPUs)
	set.Set(cpu)
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("pinning to cpu %d: %w: it is offline or outside this container's "+
			"cpuset; online are %s",
			cpu, err, Root("/").Text("sys/devices/system/cpu/online"))
	}
	return nil
}

// NameThread names the calling thread for tools such as top and perf. On the main thread this is
// also the name of the process. Threads that it starts afterwards inherit the name. The kernel cuts
// it after 15 bytes.
func NameThread(name string) error {
	if err := os.WriteFile("/proc/thread-self/comm", []byte(name), 0); err != nil {
		return fmt.Errorf("naming a thread %q: %w", name, err)
	}
	return nil
}

// Confine binds all threads of this process, and those that it starts later, to processors.
func Confine(cpus []int) error {
	set := unix.NewCPUSet(maxCPUs)
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= maxCPUs {
			return fmt.Errorf("binding to cpu %d: processors have numbers from 0 to %d", cpu,
				maxCPUs-1)
		}
		set.Set(cpu)
	}
	// A thread that starts meanwhile inherits the affinity of the thread that starts it. So a pass
	// that finds no new thread has bound all of them.
	bound := map[int]bool{}
	for before := -1; before != len(bound); {
		before = len(bound)
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("binding to cpus %v: %w", cpus, err)
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil || bound[id] {
				continue
			}
			if err := unix.SchedSetaffinityDynamic(id, set); err != nil &&
				!errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("binding to cpus %v: %w: they are offline or outside this "+
					"container's cpuset; online are %s",
					cpus, err, Root("/").Text("sys/devices/system/cpu/online"))
			}
			bound[id] = true
		}
	}
	return nil
}

// AllowedCPUs returns the processors that the calling thread may run on, in ascending order. For a
// pinned thread that is a single one.
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

// Affinity returns [AllowedCPUs] in the kernel's list format, "0-3,8".
func Affinity() (string, error) {
	cpus, err := AllowedCPUs()
	return cpulist.Format(cpus), err
}

// PeakRSS returns the peak resident memory of the process in bytes.
func PeakRSS() (uint64, error) {
	// Not ru_maxrss: it survives exec, so a small plugin would report the peak of the process that
	// started it.
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

// GCCycles returns the number of completed garbage collections.
func GCCycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
