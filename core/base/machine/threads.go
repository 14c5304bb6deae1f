package machine

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTimes are the processor times of a process's threads, by thread ID. It is empty if the
// kernel does not report them.
type ThreadTimes map[int]time.Duration

// ReadThreadTimes reads the processor times of this process's threads so far.
func ReadThreadTimes() ThreadTimes {
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	times := ThreadTimes{}
	for _, entry := range list {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// The clock of a thread, as pthread_getcpuclockid(3) makes it. A file of the thread in proc
		// says the same, but after reading those the process takes some milliseconds longer to end:
		// the kernel drops their names.
		const threadClock = 4 | 2 // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED
		var t unix.Timespec
		if unix.ClockGettime(int32(^id<<3|threadClock), &t) == nil { // else the thread has ended
			times[id] = time.Duration(t.Nano())
		}
	}
	return times
}

// Busy returns the number of threads that were on a processor for longer than limit since before.
func (t ThreadTimes) Busy(before ThreadTimes, limit time.Duration) (n int) {
	for id, now := range t {
		if now-before[id] > limit {
			n++
		}
	}
	return n
}
