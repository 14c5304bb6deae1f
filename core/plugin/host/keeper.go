package host

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/machine"
)

// keeper is the host's side of the keeper process, which is the parent of all plugins of this
// process. Package documentation says why. It is safe for concurrent use.
type keeper struct {
	conn *net.UnixConn
	cmd  *exec.Cmd
	gone chan struct{} // closed once the keeper is reaped
	reap time.Duration // reapTimeout when the keeper started
	dir  *runDir       // for the plugins' sockets; the keeper process removes it when it ends

	mu       sync.Mutex
	last     int
	children map[int]*child
	lost     bool
}

// keeperOrder is a message to the keeper. With descriptors it starts a process: the first is a file
// with the keeperCommand, the others are the process's standard output, standard error and further
// descriptors. Without descriptors it sends a signal.
type keeperOrder struct {
	ID          int `json:"id"` // of the process, unique for a keeper
	Descriptors int `json:"descriptors,omitempty"`
	Signal      int `json:"signal,omitempty"` // for its process group
}

// keeperCommand is the process to start. It can be longer than a message, and its strings are any
// bytes, so it is encoded by [gob] into a file in memory.
type keeperCommand struct {
	Path      string
	Args, Env []string
}

// file returns a file in memory with c.
func (c *keeperCommand) file() (*os.File, error) {
	fd, err := unix.MemfdCreate("transportbench-command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "command")
	err = gob.NewEncoder(file).Encode(c)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// keeperReport is a message from the keeper: a process has been started, or has not, or has ended.
type keeperReport struct {
	ID        int    `json:"id"`
	PID       int    `json:"pid,omitempty"`
	Errno     int    `json:"errno,omitempty"` // it was not started
	Ended     bool   `json:"ended,omitempty"`
	Status    uint32 `json:"status,omitempty"`    // a syscall.WaitStatus
	Survivors []int  `json:"survivors,omitempty"` // processes that do not die
}

// maxDescriptors is how many descriptors come with an order, at most.
const maxDescriptors = 8

var theKeeper struct {
	sync.Mutex
	*keeper
	ends *os.File // a connection with which the keeper ends, or nil
}

// EndWith makes all plugins of this process, which has started none yet, end when the other end of
// conn does, even if this process is stopped then. After release, this process holds conn no more;
// a keeper that runs still does.
func EndWith(conn *net.TCPConn) (release func(), err error) {
	file, err := conn.File()
	if err != nil {
		return nil, err
	}
	theKeeper.Lock()
	defer theKeeper.Unlock()
	theKeeper.ends = file
	return func() {
		theKeeper.Lock()
		defer theKeeper.Unlock()
		if theKeeper.ends == file {
			theKeeper.ends = nil
		}
		_ = file.Close()
	}, nil
}

// runningKeeper returns the keeper of this process. It starts one if there is none.
func runningKeeper() (*keeper, error) {
	theKeeper.Lock()
	defer theKeeper.Unlock()
	if k := theKeeper.keeper; k != nil && !k.isLost() {
		return k, nil
	}
	k, err := startKeeper(theKeeper.ends)
	theKeeper.keeper = k
	return k, err
}

// End ends all plugins of this process, and what they started. It returns once they are gone, and
// soon also if one does not die. A process that ends without it leaves that to the keeper, which
// takes a moment longer.
func End() {
	theKeeper.Lock()
	defer theKeeper.Unlock()
	if k := theKeeper.keeper; k != nil {
		_ = k.conn.CloseWrite()
		if !waitFor(k.gone, k.reap) {
			k.kill()
			waitFor(k.gone, k.reap)
		}
		theKeeper.keeper = nil
	}
}

// startKeeper starts a keeper, which ends when the other end of a connection does, if ends is not
// nil.
func startKeeper(ends *os.File) (*keeper, error) {
	dir, err := newRunDir()
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*keeper, error) {
		dir.remove()
		return nil, fmt.Errorf("starting the keeper of plugins: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()
	conn, err := unixConn(pair[0])
	if err != nil {
		return fail(err)
	}
	// The link is valid even if the file has been replaced since this process started.
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeperName, dir.path},
		ExtraFiles: []*os.File{theirs}}
	if ends != nil {
		cmd.Args = append(cmd.Args, "coordinator")
		cmd.ExtraFiles = append(cmd.ExtraFiles, ends)
	}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the host only
	if err := cmd.Start(); err != nil {
		conn.Close()
		return fail(err)
	}
	k := &keeper{
		conn: conn, cmd: cmd, gone: make(chan struct{}), reap: reapTimeout, dir: dir,
		children: map[int]*child{},
	}
	go k.listen()
	return k, nil
}

// unixConn makes a connection of a descriptor, which it takes over.
func unixConn(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "keeper")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func (k *keeper) isLost() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// kill kills a keeper that does not answer. The kernel kills the plugins with it.
func (k *keeper) kill() {
	k.mu.Lock()
	k.lost = true
	k.mu.Unlock()
	_ = k.cmd.Process.Kill()
	k.conn.Close() // a plugin that hangs in its exec keeps the other end open
}

// listen passes the keeper's reports to the processes until the keeper is gone.
func (k *keeper) listen() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := k.conn.Read(buffer)
		var r keeperReport
		if err != nil || n == 0 || json.Unmarshal(buffer[:n], &r) != nil {
			break
		}
		k.mu.Lock()
		c := k.children[r.ID]
		if r.Ended || r.Errno != 0 {
			delete(k.children, r.ID)
		}
		k.mu.Unlock()
		switch {
		case c == nil:
		case r.Ended:
			c.end(syscall.WaitStatus(r.Status), r.Survivors)
		default:
			c.started <- r
		}
	}
	k.conn.Close()
	_ = k.cmd.Wait()
	k.mu.Lock()
	k.lost = true
	children := k.children
	k.children = nil
	k.mu.Unlock()
	// The kernel has killed the keeper's children with it.
	for _, c := range children {
		close(c.started)
		c.end(syscall.WaitStatus(syscall.SIGKILL), nil)
	}
	k.dir.remove() // if the keeper was killed
	close(k.gone)
}

var errKeeperLost = errors.New(
	"the keeper of plugins, the parent of their processes, was killed: run the command again")

// hangs returns the error of a keeper that had to be killed.
func (k *keeper) hangs() error {
	return fmt.Errorf(
		"the keeper of plugins, the parent of their processes, did not answer within %v of its "+
			"own time and was killed, and all plugins with it: a plugin may have stopped it "+
			"(SIGSTOP)",
		k.reap)
}

// start starts cmd as c. The outputs are those of cmd, and its standard input is /dev/null.
func (k *keeper) start(c *child, cmd *exec.Cmd, outputs ...*os.File) error {
	k.mu.Lock()
	if k.lost {
		k.mu.Unlock()
		return errKeeperLost
	}
	k.last++
	c.keeper, c.id = k, k.last
	k.children[c.id] = c
	k.mu.Unlock()

	command := keeperCommand{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env}
	if err := k.sendCommand(c.id, &command, append(outputs, cmd.ExtraFiles...)); err != nil {
		k.mu.Lock()
		delete(k.children, c.id)
		k.mu.Unlock()
		return err
	}
	usedUp, stop := k.usedUp(k.cmd.Process.Pid)
	defer stop()
	select {
	case r, ok := <-c.started:
		switch {
		case !ok:
			return errKeeperLost
		case r.Errno != 0:
			return &os.PathError{Op: "fork/exec", Path: cmd.Path, Err: syscall.Errno(r.Errno)}
		}
		c.pid = r.PID
		return nil
	case <-usedUp:
		k.kill()
		return k.hangs()
	}
}

// busyFactor is how many times longer than its limit the keeper may take in all, if it or a plugin
// waits for a processor or a disk.
const busyFactor = 6

// usedUp returns a channel that is closed once each of the processes has used the keeper's limit of
// its own time, as [machine.UsesUp] measures it. stop ends the measurement.
func (k *keeper) usedUp(pids ...int) (done <-chan struct{}, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), busyFactor*k.reap)
	var using sync.WaitGroup
	for _, pid := range pids {
		using.Go(func() { machine.UsesUp(ctx, pid, k.reap) })
	}
	all := make(chan struct{})
	go func() {
		using.Wait()
		close(all)
	}()
	return all, cancel
}

// sendCommand orders the start of a process with the given files as its descriptors from 1.
func (k *keeper) sendCommand(id int, command *keeperCommand, files []*os.File) error {
	file, err := command.file()
	if err != nil {
		return err
	}
	defer file.Close()
	descriptors := []int{int(file.Fd())}
	for _, file := range files {
		descriptors = append(descriptors, int(file.Fd()))
	}
	return k.send(keeperOrder{ID: id, Descriptors: len(descriptors)},
		unix.UnixRights(descriptors...))
}

// send sends an order. A message is not divided, so concurrent calls need no lock.
func (k *keeper) send(order keeperOrder, rights []byte) error {
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	_ = k.conn.SetWriteDeadline(time.Now().Add(busyFactor * k.reap))
	_, _, err = k.conn.WriteMsgUnix(text, rights, nil)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		k.kill()
		return k.hangs()
	case errors.Is(err, unix.EPIPE), errors.Is(err, net.ErrClosed):
		return errKeeperLost
	}
	return err
}

// lateOutput is how long the output of a dead plugin is still read, if another process keeps the
// pipe open.
const lateOutput = 2 * time.Second

// child is a process that the keeper started, the leader of its own process group, with its two
// outputs.
type child struct {
	keeper         *keeper
	id             int
	pid            int
	stdout, stderr *os.File // read ends
	started        chan keeperReport
	exited         chan struct{}
	status         syscall.WaitStatus
	survivors      []int // processes that plugins left and that do not die
}

// startChild starts cmd in its own process group and with pipes for its outputs. After exited is
// closed, the caller reads the rest of both outputs and closes them.
func startChild(cmd *exec.Cmd) (*child, error) {
	k, err := runningKeeper()
	if err != nil {
		return nil, err
	}
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
	c := &child{stdout: stdout, stderr: stderr, started: make(chan keeperReport, 1),
		exited: make(chan struct{})}
	if err := k.start(c, cmd, stdoutW, stderrW); err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	return c, nil
}

// end records the end of the process.
func (c *child) end(status syscall.WaitStatus, survivors []int) {
	c.status, c.survivors = status, survivors
	deadline := time.Now().Add(lateOutput)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = c.stderr.SetReadDeadline(deadline)
	close(c.exited)
}

// kill sends SIGKILL to the whole group. It does not wait.
func (c *child) kill() { c.signal(unix.SIGKILL) }

// signal sends a signal to the whole group, unless the process has ended. It does not wait.
func (c *child) signal(s unix.Signal) {
	_ = c.keeper.send(keeperOrder{ID: c.id, Signal: int(s)}, nil)
}

// success, failed and state describe how the process ended. They are valid after exited is closed.
func (c *child) success() bool { return c.status.Exited() && c.status.ExitStatus() == 0 }

// failed reports whether the process ended with a failure of its own, not by SIGKILL. A kill does
// not change the status of a process that is already exiting.
func (c *child) failed() bool {
	return !c.success() && !(c.status.Signaled() && c.status.Signal() == syscall.SIGKILL)
}

// state words the end like [os.ProcessState].
func (c *child) state() string {
	text := fmt.Sprintf("exit status %d", c.status.ExitStatus())
	if c.status.Signaled() {
		text = "signal: " + c.status.Signal().String()
		if c.status.CoreDump() {
			text += " (core dumped)"
		}
	}
	return text
}
