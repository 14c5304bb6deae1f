package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Counters counts the hardware events of one thread. It must not be used concurrently.
type Counters struct {
	kernel   perfKernel
	groups   []*counterGroup
	userOnly bool
}

// perfKernel is the interface to the kernel; tests replace it.
type perfKernel interface {
	// open opens a counter of the calling thread in the group of leader, or in a new group if
	// leader is -1.
	open(event hardwareEvent, leader int, userOnly bool) (fd int, err error)
	read(fd int, buffer []byte) (n int, err error)
	close(fd int) error
}

type hardwareEvent struct {
	name   string
	kind   uint32 // PERF_TYPE_*
	config uint64
}

// cacheReads returns the configuration of a cache's reads (perf_event_open(2)): the cache, the
// operation and its result, a byte each.
func cacheReads(cache, outcome uint64) uint64 {
	return cache | unix.PERF_COUNT_HW_CACHE_OP_READ<<8 | outcome<<16
}

// hardwareEvents are grouped. The kernel schedules the events of a group together, so ratios
// within a group are exact. Small groups fit where virtual machines and the NMI watchdog leave few
// counters; if not all of them fit, the kernel multiplexes them.
var hardwareEvents = [][]hardwareEvent{
	{
		{"cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES},
		{"instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
		{"branch_misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES},
	},
	{
		{"cache_references", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_REFERENCES},
		{"cache_misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES},
	},
	{
		{"l1d_loads", unix.PERF_TYPE_HW_CACHE, cacheReads(unix.PERF_COUNT_HW_CACHE_L1D,
			unix.PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
		{"l1d_load_misses", unix.PERF_TYPE_HW_CACHE, cacheReads(unix.PERF_COUNT_HW_CACHE_L1D,
			unix.PERF_COUNT_HW_CACHE_RESULT_MISS)},
	},
	{
		{"llc_loads", unix.PERF_TYPE_HW_CACHE, cacheReads(unix.PERF_COUNT_HW_CACHE_LL,
			unix.PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
		{"llc_load_misses", unix.PERF_TYPE_HW_CACHE, cacheReads(unix.PERF_COUNT_HW_CACHE_LL,
			unix.PERF_COUNT_HW_CACHE_RESULT_MISS)},
	},
}

// OpenCounters starts to count cycles, instructions, branch_misses, cache_references,
// cache_misses, l1d_loads, l1d_load_misses, llc_loads and llc_load_misses of the calling thread,
// which must stay locked to its goroutine. It leaves out events that the processor lacks. It fails
// with a [*CountersError] if the processor has none of them or the kernel denies access.
func OpenCounters() (*Counters, error) { return openCounters(linuxPerf{}, paranoid()) }

func paranoid() string { return Root("/").Text("proc/sys/kernel/perf_event_paranoid") }

// CheckCounters returns the error of [OpenCounters], or nil if this machine counts events.
func CheckCounters() error {
	c, err := OpenCounters()
	if err != nil {
		return err
	}
	return c.Close()
}

// ProcessCounters count the hardware events of the threads of a process, and of the threads and
// processes that these start.
type ProcessCounters []*Counters

// OpenProcessCounters starts to count the events of [OpenCounters] of all threads of this process.
// It misses what a thread starts while OpenProcessCounters looks at another one, so it is called
// first thing in a process. Its events are in no groups, which the kernel does not inherit.
func OpenProcessCounters() (all ProcessCounters, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, fmt.Errorf("listing threads: %w", err)
	}
	for _, t := range threads {
		thread, err := strconv.Atoi(t.Name())
		if err != nil {
			return nil, err
		}
		c, err := openCounters(inheritedPerf{linuxPerf{thread: thread}}, paranoid())
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, c)
	}
	return all, nil
}

// Read returns the number of each event since OpenProcessCounters, as [Counters.Read] does.
func (all ProcessCounters) Read() (map[string]uint64, error) {
	counts := map[string]uint64{}
	for _, c := range all {
		part, err := c.Read()
		if err != nil {
			return nil, err
		}
		for name, n := range part {
			counts[name] += n
		}
	}
	return counts, nil
}

// CountersSince returns what the events grew by that were counted before and after; nil if none
// was.
func CountersSince(before, after map[string]uint64) map[string]uint64 {
	var grown map[string]uint64
	for name, n := range after {
		if began, had := before[name]; had {
			if grown == nil {
				grown = make(map[string]uint64, len(after))
			}
			grown[name] = n - began
		}
	}
	return grown
}

// Close stops counting.
func (all ProcessCounters) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func openCounters(kernel perfKernel, paranoid string) (*Counters, error) {
	c := &Counters{kernel: kernel}
	// The permissions are the same for all events, so the first one decides about userOnly.
	probe, err := kernel.open(hardwareEvents[0][0], -1, false)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		c.userOnly = true
		probe, err = kernel.open(hardwareEvents[0][0], -1, true)
	}
	if err != nil {
		return nil, explainCounters(err, paranoid)
	}
	_ = kernel.close(probe)
	for _, events := range hardwareEvents {
		c.open(events)
	}
	if len(c.groups) == 0 {
		return nil, explainCounters(unix.ENOENT, "")
	}
	return c, nil
}

func (c *Counters) open(events []hardwareEvent) {
	var group *counterGroup
	for _, event := range events {
		if group != nil {
			if fd, err := c.kernel.open(event, group.fds[0], c.userOnly); err == nil {
				group.add(event.name, fd)
				continue
			}
		}
		// The first event of its group, or one that does not fit into the group.
		if fd, err := c.kernel.open(event, -1, c.userOnly); err == nil {
			group = &counterGroup{}
			group.add(event.name, fd)
			c.groups = append(c.groups, group)
		}
	}
}

// linuxPerf is perf_event_open(2) for a thread.
type linuxPerf struct{ thread int } // 0 is the calling one

func (k linuxPerf) open(event hardwareEvent, leader int, userOnly bool) (int, error) {
	return k.start(event, leader, userOnly, unix.PERF_FORMAT_GROUP, 0)
}

func (k linuxPerf) start(event hardwareEvent, leader int, userOnly bool, format,
	bits uint64) (int, error) {
	attr := unix.PerfEventAttr{
		Type:   event.kind,
		Size:   unix.PERF_ATTR_SIZE_VER5,
		Config: event.config,
		Read_format: format | unix.PERF_FORMAT_TOTAL_TIME_ENABLED |
			unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits: bits,
	}
	if userOnly {
		attr.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv
	}
	const anyCPU = -1
	return unix.PerfEventOpen(&attr, k.thread, anyCPU, leader, unix.PERF_FLAG_FD_CLOEXEC)
}

func (linuxPerf) read(fd int, buffer []byte) (int, error) { return unix.Read(fd, buffer) }
func (linuxPerf) close(fd int) error                      { return unix.Close(fd) }

// inheritedPerf counts what a thread starts, too. Its groups have one event.
type inheritedPerf struct{ linuxPerf }

func (k inheritedPerf) open(event hardwareEvent, leader int, userOnly bool) (int, error) {
	if leader >= 0 {
		return -1, unix.EINVAL
	}
	return k.start(event, leader, userOnly, 0, unix.PerfBitInherit)
}

// read returns the layout of a group with one event: without PERF_FORMAT_GROUP, the kernel gives no
// number of events, and the value before the times.
func (k inheritedPerf) read(fd int, buffer []byte) (int, error) {
	var words [3]uint64
	text := make([]byte, 8*len(words))
	n, err := k.linuxPerf.read(fd, text)
	if err != nil || n != len(text) {
		return n, err
	}
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(text[8*i:])
	}
	group := make([]byte, 0, 8*(1+len(words)))
	for _, word := range []uint64{1, words[1], words[2], words[0]} {
		group = binary.NativeEndian.AppendUint64(group, word)
	}
	return copy(buffer, group), nil
}

// UserOnly reports whether events in the kernel are not counted, for lack of permission.
func (c *Counters) UserOnly() bool { return c.userOnly }

// Read returns the number of each event since OpenCounters. Values never decrease. If the kernel
// multiplexed the counters, Read scales the values to the whole time. It leaves out a group that
// was never scheduled since the last Read although the thread ran, and fails if that leaves no
// group or a group cannot be read.
func (c *Counters) Read() (map[string]uint64, error) {
	if len(c.groups) == 0 {
		return nil, errors.New("reading hardware counters: they are closed")
	}
	counts := make(map[string]uint64)
	var notScheduled error
	for _, g := range c.groups {
		switch err := g.read(c.kernel); {
		case errors.Is(err, errNotScheduled):
			notScheduled = err
			continue
		case err != nil:
			return nil, fmt.Errorf("reading hardware counters: %w", err)
		}
		for i, name := range g.names {
			counts[name] = g.totals[i]
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("reading hardware counters: %w", notScheduled)
	}
	return counts, nil
}

// Close stops counting.
func (c *Counters) Close() error {
	var errs []error
	for _, g := range c.groups {
		for _, fd := range g.fds {
			errs = append(errs, c.kernel.close(fd))
		}
	}
	c.groups = nil
	return errors.Join(errs...)
}

// counterGroup is a set of events that the kernel schedules together. The first descriptor is the
// leader's.
type counterGroup struct {
	fds     []int
	names   []string
	values  []uint64 // at the last read
	totals  []uint64 // scaled
	enabled uint64
	running uint64
}

func (g *counterGroup) add(name string, fd int) {
	g.fds = append(g.fds, fd)
	g.names = append(g.names, name)
	g.values = append(g.values, 0)
	g.totals = append(g.totals, 0)
}

var errNotScheduled = errors.New("not scheduled on the processor")

func (g *counterGroup) read(kernel perfKernel) error {
	// The layout is: number of events, time enabled, time running, values.
	const header = 3
	buffer := make([]byte, 8*(header+len(g.fds)))
	n, err := kernel.read(g.fds[0], buffer)
	if err != nil {
		return err
	}
	if n != len(buffer) {
		return fmt.Errorf("the kernel returned %d bytes instead of %d", n, len(buffer))
	}
	if events := binary.NativeEndian.Uint64(buffer); events != uint64(len(g.fds)) {
		return fmt.Errorf("the kernel returned %d events instead of %d", events, len(g.fds))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(buffer[8*i:]) }
	values := make([]uint64, len(g.fds))
	for i := range values {
		values[i] = word(header + i)
	}
	return g.account(word(1), word(2), values)
}

// account adds the events since the last reading, scaled by the share of the time in which the
// group was scheduled.
func (g *counterGroup) account(enabled, running uint64, values []uint64) error {
	wasEnabled, wasRunning := enabled-g.enabled, running-g.running
	if wasRunning == 0 && wasEnabled > 0 {
		// The number of missed events is unknown, so counting starts again here.
		g.enabled, g.running = enabled, running
		return fmt.Errorf("%v were %w: another profiler or the NMI watchdog holds the counters; "+
			"stop it, or run sysctl kernel.nmi_watchdog=0", g.names, errNotScheduled)
	}
	for i, value := range values {
		g.totals[i] += scaleCount(value-g.values[i], wasEnabled, wasRunning)
		g.values[i] = value
	}
	g.enabled, g.running = enabled, running
	return nil
}

// scaleCount returns count*enabled/running, at most the largest uint64.
func scaleCount(count, enabled, running uint64) uint64 {
	if running == 0 || running >= enabled {
		return count
	}
	hi, lo := bits.Mul64(count, enabled)
	if hi >= running {
		return ^uint64(0)
	}
	scaled, _ := bits.Div64(hi, lo, running)
	return scaled
}

// CountersError is the reason why hardware events cannot be counted, with the remedy.
type CountersError struct {
	Reason string
	Remedy string
	Err    error // of the system call
}

func (e *CountersError) Error() string {
	return fmt.Sprintf("hardware counters are unavailable: %v: %s; %s", e.Err, e.Reason, e.Remedy)
}

func (e *CountersError) Unwrap() error { return e.Err }

func explainCounters(err error, paranoid string) *CountersError {
	explained := &CountersError{Err: err}
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		explained.Reason = fmt.Sprintf(
			"kernel.perf_event_paranoid is %q, or a container's seccomp profile forbids it",
			paranoid)
		explained.Remedy = "run sysctl kernel.perf_event_paranoid=2, or grant CAP_PERFMON"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV),
		errors.Is(err, unix.EINVAL):
		explained.Reason = "this machine has no performance monitoring unit"
		explained.Remedy = "in a virtual machine, enable the virtual PMU on its host"
	case errors.Is(err, unix.ENOSYS):
		explained.Reason = "the kernel is built without perf events, or a sandbox hides them"
		explained.Remedy = "run outside the sandbox"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		explained.Reason = "too many files are open"
		explained.Remedy = "raise the limit on open files (ulimit -n)"
	default:
		explained.Reason = "perf_event_open failed"
		explained.Remedy = "look for the cause in the kernel's log (dmesg)"
	}
	return explained
}
