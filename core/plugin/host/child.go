package host

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// straggler is how long the output of a dead plugin is still read where some
// process that left its group holds the pipe open.
const straggler = 2 * time.Second

// child is one started process, the leader of its own process group, with its
// two outputs.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *os.File // read ends
	exited         chan struct{}

	mu     sync.Mutex // orders kill and reap: a reaped pid is another's
	reaped bool
}

// startChild starts cmd on the launcher thread, in a group of its own and with
// pipes for its outputs. The caller reads both, and closes them when exited is
// closed and it has read enough.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := onLauncher(cmd.Start); err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	c := &child{cmd: cmd, stdout: stdout, stderr: stderr, exited: make(chan struct{})}
	go c.wait()
	return c, nil
}

// wait learns of the end, kills what is left of the group while its number
// cannot be anybody else's, and reaps.
func (c *child) wait() {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	_ = c.cmd.Wait() // the outcome is in ProcessState
	c.reaped = true
	c.mu.Unlock()
	deadline := time.Now().Add(straggler)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = c.stderr.SetReadDeadline(deadline)
	close(c.exited)
}

// kill sends SIGKILL to the whole group. It does not wait.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
}

// state is how the process ended; it may be asked for once exited is closed.
func (c *child) state() *os.ProcessState { return c.cmd.ProcessState }

// failed tells whether the process ended badly by itself, and not by kill. The
// status of a process that is on its way out does not change when it is killed.
func (c *child) failed() bool {
	status, ok := c.state().Sys().(syscall.WaitStatus)
	killed := ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	return !c.state().Success() && !killed
}
