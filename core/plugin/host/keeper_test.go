package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/shm"
)

// bred returns descriptors of the processes that a plugin in dir has started with breed.
func bred(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "bred-*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	var list []int
	for _, file := range files {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), "bred-"))
		require.NoError(t, err)
		fd, err := unix.PidfdOpen(pid, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		list = append(list, fd)
	}
	return list
}

// noLitter checks that the shared memory which a plugin in dir has made with litter is gone.
func noLitter(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "litter"))
	require.NoError(t, err)
	var memory string
	var id int
	_, err = fmt.Sscan(string(text), &memory, &id)
	require.NoError(t, err)
	require.Equal(t, shm.NamedDir, filepath.Dir(filepath.Dir(memory)))
	require.NoDirExists(t, memory)
	_, err = unix.SysvShmCtl(id, unix.IPC_STAT, &unix.SysvShmDesc{})
	require.ErrorIs(t, err, unix.EINVAL, "a segment of System V")
}

func ended(t *testing.T, pidfd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	return n == 1
}

// Neither a session of its own, nor the end of its parent, nor an empty environment saves a process
// that a plugin started.
func TestNothingThatAPluginStartedSurvives(t *testing.T) {
	launch := func(t *testing.T, what string) (*Process, string) {
		t.Helper()
		dir := plugins(t, "fake")[0]
		p, err := Find("fake", []string{dir})
		require.NoError(t, err)
		process, err := p.Launch(context.Background(), LaunchOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, process.Kill()) })
		_, _ = do(context.Background(), process, what) // fails if the plugin panics
		return process, dir
	}
	t.Run("describe", func(t *testing.T) {
		p := find(t, "breeding")
		_, err := p.Describe(context.Background())
		require.NoError(t, err)
		noChildren(t)
		noLitter(t, filepath.Dir(p.Path))
	})
	t.Run("end", func(t *testing.T) {
		p, dir := launch(t, "breed")
		children := bred(t, dir)
		for _, fd := range children {
			require.False(t, ended(t, fd))
		}
		require.NoError(t, p.Kill())
		for _, fd := range children {
			require.True(t, ended(t, fd))
		}
		noChildren(t)
		noLitter(t, dir)
	})
	t.Run("panic", func(t *testing.T) {
		p, dir := launch(t, "breed and panic")
		<-p.Exited()
		require.ErrorContains(t, p.Err(), "panic: boom")
		noChildren(t)
		noLitter(t, dir)
	})
	t.Run("another plugin runs", func(t *testing.T) {
		other := launch1(t, "fake", LaunchOptions{})
		p, dir := launch(t, "breed")
		children := bred(t, dir)
		require.NoError(t, p.Kill())
		require.NoError(t, other.Connect(context.Background(), nil))
		require.NoError(t, other.Kill())
		for _, fd := range children {
			require.True(t, ended(t, fd))
		}
		noChildren(t)
	})
}

// A host that is killed leaves the rest to the keeper.
func TestNothingThatAPluginStartedSurvivesAKilledHost(t *testing.T) {
	dir := plugins(t, "breeding")[0]
	host, lines := startHostIn(t, dir, "breeding")
	require.True(t, lines.Scan())
	require.True(t, lines.Scan(), "the host did not launch its plugin")
	children := bred(t, dir)
	keepers := childrenOf(host.Process.Pid)
	require.Len(t, keepers, 1)
	keeper, err := unix.PidfdOpen(keepers[0], 0)
	require.NoError(t, err)
	defer unix.Close(keeper)
	require.NoError(t, host.Process.Kill())
	for _, fd := range children {
		awaitEnd(t, fd)
	}
	awaitEnd(t, keeper)
	noLitter(t, dir)
}

// The host starts a new keeper if the keeper is killed, and its plugins end with it.
func TestKilledKeeper(t *testing.T) {
	p := launch1(t, "fake", LaunchOptions{})
	k, err := runningKeeper()
	require.NoError(t, err)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID()))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(environ), shm.EnvDir+"=")
	require.True(t, found)
	memory, _, _ := strings.Cut(rest, "\x00")
	require.NoError(t, k.cmd.Process.Kill())
	<-p.Exited()
	require.ErrorContains(t, p.Err(), "died: signal: killed")
	<-k.gone
	require.DirExists(t, memory)
	_, err = find(t, "fake").Describe(context.Background())
	require.NoError(t, err)
	noChildren(t)
	require.NoDirExists(t, memory, "the next keeper removes it")
	require.NoDirExists(t, k.dir.path, "this process removes it")
}

// A plugin can stop its parent, the keeper. The host then kills the keeper and with it the plugins.
func TestStoppedKeeper(t *testing.T) {
	End() // the next keeper has the shorter timeout
	before := reapTimeout
	reapTimeout = 500 * time.Millisecond
	t.Cleanup(func() { reapTimeout = before })
	current := func(t *testing.T) *keeper {
		t.Helper()
		k, err := runningKeeper()
		require.NoError(t, err)
		return k
	}
	untilStopped := func(t *testing.T) context.Context {
		t.Helper()
		pid := current(t).cmd.Process.Pid
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil) == unix.EINTR {
			}
		}()
		return ctx
	}
	for name, stop := range map[string]func(*testing.T) error{
		"before a start": func(t *testing.T) error {
			require.NoError(t, unix.Kill(current(t).cmd.Process.Pid, unix.SIGSTOP))
			_, err := find(t, "fake").Launch(context.Background(), LaunchOptions{})
			return err
		},
		"during a start": func(t *testing.T) error {
			_, err := find(t, "stopparent").Launch(untilStopped(t), LaunchOptions{})
			return err // perhaps that of the context
		},
		"during describe": func(t *testing.T) error {
			_, err := find(t, "stopparent").describeWithin(untilStopped(t), time.Minute)
			return err
		},
		"by a running plugin": func(t *testing.T) error {
			p, err := find(t, "fake").Launch(context.Background(), LaunchOptions{})
			require.NoError(t, err)
			_, err = do(context.Background(), p, "stop parent")
			require.NoError(t, err)
			err = p.Kill()
			<-p.Exited()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := current(t)
			err := stop(t)
			require.Error(t, err)
			if !errors.Is(err, context.Canceled) {
				require.ErrorContains(t, err,
					"the keeper of plugins, the parent of their processes, did not answer")
			}
			<-k.gone
			noChildren(t)
		})
	}
	t.Run("before the end", func(t *testing.T) {
		k := current(t)
		require.NoError(t, unix.Kill(k.cmd.Process.Pid, unix.SIGSTOP))
		End()
		<-k.gone
	})
	reapTimeout = before
	_, err := find(t, "fake").Describe(context.Background())
	require.NoError(t, err)
}

// A keeper that gets no processor for longer than its limit, as with many agents on a machine, is
// waited for. Plugins that run then are not killed.
func TestStarvedKeeper(t *testing.T) {
	cpus, err := machine.AllowedCPUs()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("there is one processor: the test would starve with the keeper")
	}
	End() // the next keeper has the shorter timeout
	before := reapTimeout
	reapTimeout = 200 * time.Millisecond
	t.Cleanup(func() {
		End() // it is still confined
		reapTimeout = before
	})
	first, err := find(t, "fake").Launch(context.Background(), LaunchOptions{})
	require.NoError(t, err)
	k, err := runningKeeper()
	require.NoError(t, err)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", k.cmd.Process.Pid))
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		require.NoError(t, err)
		var set unix.CPUSet
		set.Set(cpus[0])
		require.NoError(t, unix.SchedSetaffinity(id, &set))
	}
	hogs, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := machine.Pin(cpus[0])
		if err == nil {
			err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr,
				Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		}
		hogs <- err
		if err == nil {
			for began := time.Now(); time.Since(began) < 3*reapTimeout; {
			}
		}
		close(ended)
	}()
	if err := <-hogs; errors.Is(err, unix.EPERM) {
		t.Skip("no right to real-time scheduling: run it as root, or with CAP_SYS_NICE")
	} else {
		require.NoError(t, err)
	}
	began := time.Now()
	second, err := find(t, "fake").Launch(context.Background(), LaunchOptions{})
	require.NoError(t, err)
	require.Greater(t, time.Since(began), 2*reapTimeout, "it did not starve")
	<-ended
	require.NoError(t, first.Kill())
	require.NoError(t, second.Kill())
}

// A plugin gets its environment, arguments and path as they are, of any length and in any encoding.
func TestPluginGetsBytesUnchanged(t *testing.T) {
	t.Setenv("UCX_TEST_PATH", "/tmp/caf\xe9")
	for i := range 16 {
		t.Setenv(fmt.Sprintf("UCX_TEST_LONG_%d", i), strings.Repeat("x", 1<<16))
	}
	dir := filepath.Join(t.TempDir(), "caf\xe9")
	require.NoError(t, os.Rename(plugins(t, "fake")[0], dir))
	p, err := Find("fake", []string{dir})
	require.NoError(t, err)
	process, err := p.Launch(context.Background(), LaunchOptions{})
	require.NoError(t, err)
	_, err = do(context.Background(), process, "environment")
	require.NoError(t, process.Kill())
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "environment"))
	require.NoError(t, err)
	require.Greater(t, len(text), 1<<20)
	require.Contains(t, strings.Split(string(text), "\x00"), "UCX_TEST_PATH=/tmp/caf\xe9")
}

// A description that is too long is the plugin's fault, and the error has the field.
func TestDescriptionIsTooLong(t *testing.T) {
	_, err := find(t, "huge").Launch(context.Background(), LaunchOptions{})
	var invalid *record.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.NotErrorIs(t, err, errNotAPlugin)
	require.Equal(t, "describe", invalid.Field)
}

// The keeper leaves the host's own children alone.
func TestKeeperLeavesChildrenOfTheHost(t *testing.T) {
	own, lines := startHost(t, "fake")
	require.True(t, lines.Scan())
	require.True(t, lines.Scan(), "the host did not launch its plugin")
	p := launch1(t, "fake", LaunchOptions{})
	require.NoError(t, p.Kill())
	require.True(t, alive(own.Process.Pid))
	End()
	require.True(t, alive(own.Process.Pid))
	require.NoError(t, own.Process.Kill())
	require.Error(t, own.Wait(), "it could still be waited for")
}

// TestEndWith: after its release, this process has no descriptor of the connection.
func TestEndWith(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	other, err := listener.Accept()
	require.NoError(t, err)
	defer other.Close()
	release, err := EndWith(conn.(*net.TCPConn))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, other.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = other.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is still held")
	release()
	require.NoError(t, other.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = other.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestAbandoned(t *testing.T) {
	const line = "         0         98   600                  4096   501   502      0     0     " +
		"0     0     0 1763820000 1763820001 1763819999        0        0\n"
	began := time.Unix(1763819998, 5e8)
	id, ok := abandoned(line, 501, began)
	require.True(t, ok)
	require.Equal(t, 98, id)
	for what, ok := range map[string]bool{
		"of another process":     second(abandoned(line, 502, began)),
		"older than the process": second(abandoned(line, 501, began.Add(2*time.Second))),
		"in use": second(
			abandoned(strings.Replace(line, " 502      0 ", " 502      1 ", 1), 501, began)),
		"a heading": second(
			abandoned("       key      shmid perms                  size  cpid\n", 0, began)),
	} {
		require.False(t, ok, what)
	}
}

func second(_ int, ok bool) bool { return ok }
