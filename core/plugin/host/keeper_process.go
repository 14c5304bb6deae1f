package host

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/shm"
)

// keeperName is the name under which a program that links this package runs as the keeper.
const keeperName = "transportbench-keeper"

// The keeper runs instead of the program's main function, also in tests and in programs that only
// use this package.
func init() {
	if os.Args[0] == keeperName {
		os.Exit(keeperMain())
	}
}

// supervisor is the state of the keeper process. Only its main thread uses it.
type supervisor struct {
	host    *net.UnixConn
	memory  *runDir // in /dev/shm, with a directory for each plugin; nil if there can be none
	running map[int]*runningPlugin
	ended   []keeperReport
	overdue <-chan time.Time // fires when survivors have had their time to die
}

// runningPlugin is a plugin that has not ended.
type runningPlugin struct {
	pid   int
	began time.Time
}

// order is an order with its descriptors.
type order struct {
	keeperOrder
	descriptors []int
}

// keeperMain is the main function of the keeper. It ends when the host is gone, or the coordinator
// of a host that is an agent, and all that the keeper started, and their descendants.
func keeperMain() int {
	// The kernel kills a plugin when the thread that started it ends. The main thread, on which
	// init runs, ends with the process.
	runtime.LockOSThread()
	unix.CloseOnExec(firstExtraFile)
	host, err := unixConn(firstExtraFile)
	if err != nil {
		return 1
	}
	// The plugins' orphans become children of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	// Only the host's end ends the keeper. Plugins would inherit signals that are ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	orders := make(chan order)
	go receive(host, orders)
	coordinator := make(chan struct{})
	if len(os.Args) > 2 {
		unix.CloseOnExec(firstExtraFile + 1)
		go awaitCoordinator(firstExtraFile+1, coordinator)
	}

	s := &supervisor{host: host, running: map[int]*runningPlugin{}}
	// Opened now, because the host may be killed at any time. Only the host locks it.
	if dir, err := openRunDir(os.Args[1]); err == nil {
		defer dir.remove()
	}
	removeStale(shm.NamedDir)
	if dir, err := newRunDirIn(shm.NamedDir); err == nil {
		s.memory = dir
		defer dir.remove()
	}
	for orders != nil || len(s.running) > 0 || len(s.ended) > 0 {
		select {
		case <-coordinator:
			orders, coordinator = nil, nil
			s.killAll()
		case o, ok := <-orders:
			switch {
			case !ok:
				orders = nil
				s.killAll()
			case o.Descriptors > 0:
				s.start(o)
			case s.running[o.ID] != nil:
				_ = unix.Kill(-s.running[o.ID].pid, unix.Signal(o.Signal))
			}
		case <-died:
		case <-s.overdue:
			s.report(childrenOf(os.Getpid()))
		}
		s.reap()
	}
	return 0
}

func (s *supervisor) killAll() {
	for _, p := range s.running {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
}

// awaitCoordinator closes ended once the other end of the connection fd has ended, or does not
// answer.
func awaitCoordinator(fd int, ended chan<- struct{}) {
	state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	for {
		if n, _ := unix.Poll(state, -1); n > 0 {
			close(ended)
			return
		}
	}
}

// receive passes the host's orders on until the host is gone.
func receive(host *net.UnixConn, orders chan<- order) {
	defer close(orders)
	text, rights := make([]byte, 1<<12), make([]byte, unix.CmsgSpace(4*maxDescriptors))
	for {
		n, m, _, _, err := host.ReadMsgUnix(text, rights)
		var o order
		if err != nil || n == 0 || json.Unmarshal(text[:n], &o.keeperOrder) != nil {
			return
		}
		if messages, err := unix.ParseSocketControlMessage(rights[:m]); err == nil {
			for _, message := range messages {
				received, _ := unix.ParseUnixRights(&message)
				o.descriptors = append(o.descriptors, received...)
			}
		}
		orders <- o
	}
}

// command returns the command of o. The descriptors that are left are for its process.
func (o *order) command() (*keeperCommand, error) {
	if len(o.descriptors) < o.Descriptors {
		return nil, unix.EMFILE // the kernel drops descriptors above the limit
	}
	file := os.NewFile(uintptr(o.descriptors[0]), "command")
	o.descriptors = o.descriptors[1:]
	defer file.Close()
	var c keeperCommand
	return &c, gob.NewDecoder(file).Decode(&c)
}

// start starts a plugin, tells the host its number, and closes the descriptors.
func (s *supervisor) start(o order) {
	r := keeperReport{ID: o.ID}
	began := time.Now()
	c, err := o.command()
	defer func() {
		for _, fd := range o.descriptors {
			_ = unix.Close(fd)
		}
	}()
	if err == nil && s.memory != nil && s.memory.root.Mkdir(memoryOf(o.ID), 0o700) == nil {
		c.Env = append(c.Env, shm.EnvDir+"="+filepath.Join(s.memory.path, memoryOf(o.ID)))
	}
	if err == nil {
		if r.PID, err = forkExec(c, o.descriptors); err != nil {
			s.removeMemory(o.ID)
		}
	}
	if err != nil {
		r.Errno = int(unix.EIO)
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			r.Errno = int(errno)
		}
	} else {
		s.running[o.ID] = &runningPlugin{pid: r.PID, began: began}
	}
	s.send(r)
}

// forkExec starts c with /dev/null and the given descriptors.
func forkExec(c *keeperCommand, descriptors []int) (int, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(null)
	files := []uintptr{uintptr(null)}
	for _, fd := range descriptors {
		files = append(files, uintptr(fd))
	}
	return syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
		Env: c.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
}

func (s *supervisor) send(r keeperReport) {
	if text, err := json.Marshal(r); err == nil {
		_, _ = s.host.Write(text) // fails if the host is gone
	}
}

// reap reaps the plugins that have ended and kills the rest of their groups. When no plugin runs,
// it kills and reaps all that plugins left. While one runs, a process whose parent has ended may be
// its helper.
func (s *supervisor) reap() {
	for id, p := range s.running {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != nil || info.Signo == 0 {
			continue
		}
		// Until it is reaped, no other process or group can have its number.
		_ = unix.Kill(-p.pid, unix.SIGKILL)
		removeSysV(p.pid, p.began)
		var status unix.WaitStatus
		for {
			if _, err := unix.Wait4(p.pid, &status, 0, nil); err != unix.EINTR {
				break
			}
		}
		s.removeMemory(id)
		delete(s.running, id)
		s.ended = append(s.ended, keeperReport{ID: id, Ended: true, Status: uint32(status)})
	}
	if len(s.running) > 0 {
		s.report(nil)
		return
	}
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR || pid > 0:
			continue
		case err != nil: // there are no children
			s.report(nil)
			return
		}
		break
	}
	// Each death causes a SIGCHLD and with it another round, which finds the children of the dead.
	for _, pid := range childrenOf(os.Getpid()) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if s.overdue == nil {
		s.overdue = time.After(survivorTimeout)
	}
}

// memoryOf returns the name of the directory with the shared memory of a plugin.
func memoryOf(id int) string { return strconv.Itoa(id) }

func (s *supervisor) removeMemory(id int) {
	if s.memory != nil {
		_ = s.memory.root.RemoveAll(memoryOf(id))
	}
}

// survivorTimeout is how long survivors, processes that plugins left, may take to die.
const survivorTimeout = 2 * time.Second

// report tells the host which plugins have ended.
func (s *supervisor) report(survivors []int) {
	survivors = survivors[:min(len(survivors), 8)] // it is for a message
	for _, r := range s.ended {
		r.Survivors = survivors
		s.send(r)
	}
	s.ended, s.overdue = nil, nil
}

// childrenOf returns the children of a process. Not every kernel has /proc/PID/task/TID/children.
func childrenOf(parent int) []int {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, path := range paths {
		text, _ := os.ReadFile(path) // it may have ended
		// PID (NAME) STATE PARENT ...; a name may have parentheses and spaces.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
