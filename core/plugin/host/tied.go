package host

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launcherJobs feeds the launcher, a goroutine that keeps one thread for the life of this process.
// The kernel sends a child's Pdeathsig when the thread that forked it ends, not when the process
// does, and the Go runtime may end any other thread.
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

// onLauncher runs start on the launcher's thread and returns its error.
func onLauncher(start func() error) error {
	result := make(chan error, 1)
	launcherJobs() <- func() { result <- start() }
	return <-result
}

// StartTied starts cmd in a process group of its own. The kernel kills it when this process ends,
// whatever ends it.
func StartTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return onLauncher(cmd.Start)
}
