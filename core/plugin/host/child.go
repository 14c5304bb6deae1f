package host

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// lateOutput is how long the output of a dead plugin is still read, if a process that left its
// group keeps the pipe open.
const lateOutput = 2 * time.Second

// child is a started process, the leader of its own process group, with its two outputs.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *os.File // read ends
	exited         chan struct{}

	mu     sync.Mutex // orders kill and reap: after reaping, the pid may be another process's
	reaped bool
}

// startChild starts cmd on the launcher's thread, in its own process group and with pipes for its
// outputs. After exited is closed, the caller reads the rest of both outputs and closes them.
func startChild(cmd *exec.Cmd) (*child, error) {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdoutW.Close()
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return nil, err
	}
	defer stderrW.Close()

	cmd.Stdout, cmd.Stderr = stdoutW, stderrW
	if err := StartTied(cmd); err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	c := &child{cmd: cmd, stdout: stdout, stderr: stderr, exited: make(chan struct{})}
	go c.wait()
	return c, nil
}

// wait waits for the end of the process, kills the rest of its group while the group's number
// cannot belong to another, and reaps the process.
func (c *child) wait() {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	_ = c.cmd.Wait() // ProcessState has the outcome
	c.reaped = true
	c.mu.Unlock()
	deadline := time.Now().Add(lateOutput)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = c.stderr.SetReadDeadline(deadline)
	close(c.exited)
}

// kill sends SIGKILL to the whole group. It does not wait.
func (c *child) kill() { c.signal(unix.SIGKILL) }

// signal sends a signal to the whole group. It does not wait.
func (c *child) signal(s unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.cmd.Process.Pid, s)
	}
}

// state returns how the process ended. It is valid after exited is closed.
func (c *child) state() *os.ProcessState { return c.cmd.ProcessState }

// failed reports whether the process ended with a failure of its own, not by SIGKILL. A kill does
// not change the status of a process that is already exiting.
func (c *child) failed() bool {
	status, ok := c.state().Sys().(syscall.WaitStatus)
	killed := ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	return !c.state().Success() && !killed
}
