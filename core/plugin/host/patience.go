package host

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// patience measures how long a process has had to do something. Time in which the process computes or
// sleeps counts. Time in which it waits for a processor or a disk does not, so that a busy machine or
// a cold disk is not taken for a process that hangs.
type patience struct {
	used time.Duration
	cpu  time.Duration // at the last look
}

// lookInterval is the time between two looks at a process. No look counts for more, because a host
// that is late to look had no processor itself.
const lookInterval = 50 * time.Millisecond

// look counts the time since the last look.
func (p *patience) look(elapsed time.Duration, a activity) {
	computed := max(a.cpu-p.cpu, 0)
	p.cpu = a.cpu
	elapsed = min(elapsed, lookInterval)
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

// clockTick is the unit of times in /proc/PID/stat. It is the same on all architectures.
const clockTick = 10 * time.Millisecond

// activityOf returns the activity of a process, or none if it has ended.
func activityOf(pid int) activity {
	var a activity
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if fields := statFields(filepath.Join(dir, "stat")); len(fields) > 12 {
		for _, text := range fields[11:13] { // utime, stime
			ticks, _ := strconv.Atoi(string(text))
			a.cpu += time.Duration(ticks) * clockTick
		}
	}
	threads, _ := filepath.Glob(filepath.Join(dir, "task", "*", "stat"))
	for _, thread := range threads {
		if fields := statFields(thread); len(fields) > 0 && bytes.ContainsAny(fields[0], "RD") {
			a.waiting = true
		}
	}
	return a
}

// statFields returns the fields of /proc/PID/stat from the state on, which follows the name. It
// returns none if the process has ended.
func statFields(path string) [][]byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // a name may have parentheses and spaces
}

// endAfter calls end when the process has used limit, unless ctx ends before.
func endAfter(ctx context.Context, limit time.Duration, pid int, end context.CancelCauseFunc) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	var p patience
	for last := time.Now(); p.used < limit; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			p.look(now.Sub(last), activityOf(pid))
			last = now
		}
	}
	end(noAnswer(limit.String()))
}
