package host

import (
	"runtime"
	"sync"
)

// launcherJobs feeds the launcher: one goroutine that keeps its thread for as
// long as the process lives. The kernel sends a child's Pdeathsig when the
// thread that forked it ends, not the process, and Go ends threads as it likes.
var launcherJobs = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// onLauncher runs start on the launcher thread and returns what it returns.
func onLauncher(start func() error) error {
	result := make(chan error, 1)
	launcherJobs() <- func() { result <- start() }
	return <-result
}
