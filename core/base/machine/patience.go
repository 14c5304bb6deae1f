package machine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// UsesUp waits until process pid has used limit of its own time, and reports true, or until ctx
// ends. Time in which the process computes or sleeps is its own. Time in which it waits for a
// processor or a disk is not, so that on a busy machine or with a cold disk it is not taken for one
// that hangs.
func UsesUp(ctx context.Context, pid int, limit time.Duration) bool {
	p := patience{interval: limit / samples}
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for last := time.Now(); p.used < limit; {
		select {
		case <-ctx.Done():
			return false
		case now := <-ticker.C:
			p.sample(now.Sub(last), activityOf(pid))
			last = now
		}
	}
	return true
}

// samples is how often a process is sampled within its time.
const samples = 40

// patience measures how much of its own time a process has used.
type patience struct {
	interval time.Duration // between two samples
	used     time.Duration
	cpu      time.Duration // at the last sample
}

// sample counts the time since the last sample, but at most an interval: if the sample is late,
// this process had no processor itself.
func (p *patience) sample(elapsed time.Duration, a activity) {
	computed := max(a.cpu-p.cpu, 0)
	p.cpu = a.cpu
	elapsed = min(elapsed, p.interval)
	if a.waiting {
		elapsed = min(elapsed, computed)
	}
	p.used += elapsed
}

// activity is what the kernel says about a process.
type activity struct {
	cpu     time.Duration // used by all threads
	waiting bool          // a thread wants a processor, perhaps has one, or waits for a disk
}

// activityOf returns the activity of a process, or none if it has ended.
func activityOf(pid int) activity {
	var a activity
	// The clock of a process, as clock_getcpuclockid(3) makes it.
	const processClock = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|processClock), &t) == nil {
		a.cpu = time.Duration(t.Nano())
	}
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // it may have ended
		// The state follows the name, which may have parentheses and spaces.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 0 && bytes.ContainsAny(fields[0], "RD") {
			a.waiting = true
		}
	}
	return a
}
