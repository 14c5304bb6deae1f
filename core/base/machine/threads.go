package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ThreadTimes are the processor times of a process's threads, by thread ID. It is empty if the
// kernel does not report them.
type ThreadTimes map[int]time.Duration

// ReadThreadTimes reads the processor times of this process's threads so far.
func ReadThreadTimes() ThreadTimes {
	const tasks = "/proc/self/task"
	list, err := os.ReadDir(tasks)
	if err != nil {
		return nil
	}
	times := ThreadTimes{}
	for _, entry := range list {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// The first field is the time on a processor in nanoseconds.
		text, err := os.ReadFile(filepath.Join(tasks, entry.Name(), "schedstat"))
		if err != nil {
			continue // the thread has ended, or the kernel lacks CONFIG_SCHED_INFO
		}
		var ns int64
		if _, err := fmt.Fscan(strings.NewReader(string(text)), &ns); err == nil {
			times[id] = time.Duration(ns)
		}
	}
	return times
}

// Busy returns the number of threads that were on a processor for longer than least since before.
func (t ThreadTimes) Busy(before ThreadTimes, least time.Duration) (n int) {
	for id, now := range t {
		if now-before[id] > least {
			n++
		}
	}
	return n
}
