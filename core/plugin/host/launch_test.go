package host

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"transportbench/core"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// soon is the timeout for plugins that never answer. All other tests are driven by events.
const soon = 300 * time.Millisecond

func launch1(t testing.TB, name string, opts LaunchOptions) *Process {
	t.Helper()
	p, err := find(t, name).Launch(context.Background(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

// noSockets checks that launches have removed their directories.
func noSockets(t testing.TB) {
	t.Helper()
	require.Empty(t, socketDirs(t))
}

// socketDirs returns go-plugin's directories of all hosts.
func socketDirs(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), runDirPrefix()+"*",
		"plugin-dir*"))
	require.NoError(t, err)
	return dirs
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

func TestLifeOfAPlugin(t *testing.T) {
	ctx := context.Background()
	plugin := find(t, "fake")
	p, err := plugin.Launch(ctx, LaunchOptions{})
	require.NoError(t, err)
	noSockets(t)
	require.Equal(t, "fake", p.Description().Info.Name)
	require.Equal(t, core.RuntimeDigest(), p.Description().RuntimeDigest)

	prepared, err := do(ctx, p, "")
	require.NoError(t, err)
	require.Equal(t, p.PID(), prepared.PID)
	require.NoError(t, p.Connect(ctx, nil))
	_, err = p.Probe(ctx, record.Probe{})
	require.ErrorIs(t, err, transport.ErrUnsupported)
	report, err := p.Run(ctx, record.Window{}, func() {
		go func() { _ = p.Advance(ctx, record.StateStopped) }()
	}, func(record.Progress) {})
	require.NoError(t, err)
	require.True(t, report.Stopped)
	require.NoError(t, p.Close(ctx))

	select {
	case <-p.Exited():
		t.Fatal("it must live until it is killed")
	default:
	}
	require.NoError(t, p.Err())
	require.NoError(t, p.Kill())
	<-p.Exited()
	require.NoError(t, p.Err())
	require.False(t, alive(p.PID()))
	require.Equal(t, 0, p.owned.runner.child.status.ExitStatus(),
		"it was asked, and ended by itself")
	require.NoError(t, p.Kill())
	require.ErrorIs(t, p.Connect(ctx, nil), ErrKilled)
}

func TestConcurrentLaunches(t *testing.T) {
	const count = 6
	plugin := find(t, "fake")
	var wait sync.WaitGroup
	pids := make([]int, count)
	for i := range count {
		wait.Go(func() {
			p, err := plugin.Launch(context.Background(), LaunchOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			prepared, err := do(context.Background(), p, "")
			if err != nil || prepared.PID != p.PID() {
				t.Errorf("rank %d: %v", i, err)
			}
			pids[i] = p.PID()
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, pid := range pids {
		require.False(t, alive(pid))
	}
	noSockets(t)
}

func TestFailedStarts(t *testing.T) {
	for name, c := range map[string]struct {
		says []string
		slow bool // never answers
	}{
		"garbage": {says: []string{"is not a transportbench plugin",
			"hello, I am some other program"}},
		"flood":     {says: []string{"is not a transportbench plugin"}},
		"silent":    {says: []string{"no answer", "killed"}, slow: true},
		"deaf":      {says: []string{"no answer", "killed"}, slow: true},
		"mute":      {says: []string{"no answer", "killed"}, slow: true},
		"quitter":   {says: []string{"is not a transportbench plugin"}},
		"failing":   {says: []string{"died: exit status 7: the license has expired"}},
		"crashing":  {says: []string{"died: exit status 2: SIGSEGV: segmentation violation"}},
		"shot":      {says: []string{"died: signal: killed"}},
		"shotlater": {says: []string{"died: signal: killed"}},
		"closing":   {says: []string{"is not a transportbench plugin"}},
		"otherversion": {says: []string{
			"plugin otherversion speaks version 1 of the control protocol, this host version 2"}},
		"imposter": {says: []string{
			`is the transport "somethingelse": call the file transport-somethingelse`}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := LaunchOptions{}
			if c.slow {
				opts.StartTimeout = soon
			}
			p, err := find(t, name).Launch(context.Background(), opts)
			require.Error(t, err)
			require.Nil(t, p)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "\n")
			noSockets(t)
			noChildren(t)
		})
	}
}

// noChildren checks that this process has no child but the keeper, which has none.
func noChildren(t testing.TB) {
	t.Helper()
	k, err := runningKeeper()
	require.NoError(t, err)
	require.Equal(t, []int{k.cmd.Process.Pid}, childrenOf(os.Getpid()))
	require.Empty(t, childrenOf(k.cmd.Process.Pid))
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, cancel)
	_, err := find(t, "silent").Launch(ctx, LaunchOptions{})
	require.ErrorIs(t, err, context.Canceled)
	noSockets(t)
	noChildren(t)
}

func TestPluginThatDies(t *testing.T) {
	for what, reason := range map[string]string{
		"panic": "died: exit status 2: panic: boom",
		"crash": "died: exit status 2: SIGSEGV: segmentation violation",
	} {
		t.Run(what, func(t *testing.T) {
			p := launch1(t, "fake", LaunchOptions{})
			_, err := do(context.Background(), p, what)
			require.ErrorContains(t, err, reason)
			var exit *record.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, p.PID(), exit.PID)
			require.NotEmpty(t, exit.Output)
			<-p.Exited()
			require.EqualError(t, p.Err(), err.Error())
			require.NoError(t, p.Kill())
			require.Error(t, p.Err(), "a kill afterwards changes nothing")
		})
	}
	t.Run("killed by somebody", func(t *testing.T) {
		p := launch1(t, "fake", LaunchOptions{})
		running := make(chan struct{})
		failed := make(chan error, 1)
		go func() {
			_, err := p.Run(context.Background(), record.Window{}, func() { close(running) },
				func(record.Progress) {})
			failed <- err
		}()
		<-running
		require.NoError(t, unix.Kill(p.PID(), unix.SIGKILL))
		require.ErrorContains(t, <-failed, "died: signal: killed")
		<-p.Exited()
	})
}

func TestKillIsBounded(t *testing.T) {
	opts := LaunchOptions{KillGrace: 50 * time.Millisecond}
	gone := func(t *testing.T, p *Process) {
		require.NoError(t, p.Kill())
		<-p.Exited()
		require.False(t, alive(p.PID()))
		require.NoError(t, p.Err())
		noChildren(t)
	}
	t.Run("stopped", func(t *testing.T) {
		p := launch1(t, "fake", opts)
		require.NoError(t, unix.Kill(p.PID(), unix.SIGSTOP))
		gone(t, p)
	})
	t.Run("spinning on every core", func(t *testing.T) {
		p := launch1(t, "fake", opts)
		_, err := do(context.Background(), p, "spin")
		require.NoError(t, err)
		running := make(chan struct{})
		failed := make(chan error, 1)
		go func() {
			_, err := p.Run(context.Background(), record.Window{}, func() { close(running) },
				func(record.Progress) {})
			failed <- err
		}()
		select { // its loops may prevent even that message
		case <-running:
		case <-time.After(soon):
		}
		gone(t, p)
		require.ErrorIs(t, <-failed, ErrKilled)
	})
	t.Run("never closes", func(t *testing.T) {
		p := launch1(t, "fake", opts)
		_, err := do(context.Background(), p, "never closes")
		require.NoError(t, err)
		gone(t, p)
	})
	t.Run("with a child that holds its outputs", func(t *testing.T) {
		p := launch1(t, "fake", opts)
		prepared, err := do(context.Background(), p, "child")
		require.NoError(t, err)
		require.NotEqual(t, p.PID(), prepared.PID)
		fd, err := unix.PidfdOpen(prepared.PID, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		gone(t, p)
		awaitEnd(t, fd)
	})
}

// awaitEnd waits for the end of the process behind a pidfd.
func awaitEnd(t *testing.T, pidfd int) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 30_000)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "it is still alive")
		return
	}
}

func TestOutputNeverBlocksThePlugin(t *testing.T) {
	p := launch1(t, "fake", LaunchOptions{})
	_, err := do(context.Background(), p, "chatter")
	require.NoError(t, err)
	require.NoError(t, p.Connect(context.Background(), nil))
}

func TestErrorsOfTheRank(t *testing.T) {
	p := launch1(t, "fake", LaunchOptions{})
	_, err := do(context.Background(), p, "fail")
	require.EqualError(t, err, "fake: open: unavailable: no device: install one")
	require.ErrorIs(t, err, transport.ErrUnavailable)
	var op *transport.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "open", op.Op)
}

// syncBuffer collects what go-plugin's goroutines log.
type syncBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func TestLogReachesTheHost(t *testing.T) {
	var log syncBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	p := launch1(t, "fake", LaunchOptions{Logger: logger})
	_, err := do(context.Background(), p, "log")
	require.NoError(t, err)
	require.NoError(t, p.Kill()) // by then all output is read
	text := log.data.String()
	require.Contains(t, text, "level=WARN msg=careful")
	require.Contains(t, text, "rank=4")
	require.NotContains(t, text, "detail")
	require.Equal(t, 1, strings.Count(text, "\n"), "nothing of go-plugin's own: %s", text)
}

func TestMixedRuntimeIsRefused(t *testing.T) {
	plugin := find(t, "fake")
	_, err := plugin.Launch(context.Background(), LaunchOptions{runtimeDigest: "other"})
	require.ErrorIs(t, err, ErrMixedRuntime)
	require.ErrorContains(t, err, "build both from one version, or pass --allow-mixed-runtime")
	require.NotContains(t, err.Error(), "\n")
	noChildren(t)
	p, err := plugin.Launch(context.Background(),
		LaunchOptions{runtimeDigest: "other", AllowMixedRuntime: true})
	require.NoError(t, err)
	require.NoError(t, p.Kill())
}

func TestNothingLeaks(t *testing.T) {
	plugin := find(t, "fake")
	cycle := func() {
		p, err := plugin.Launch(context.Background(), LaunchOptions{})
		require.NoError(t, err)
		_, err = do(context.Background(), p, "")
		require.NoError(t, err)
		require.NoError(t, p.Kill())
	}
	failedCycle := func(name string) {
		_, err := find(t, name).Launch(context.Background(), LaunchOptions{StartTimeout: soon})
		require.Error(t, err)
	}
	cycle() // the launcher, the network poller
	before := goleak.IgnoreCurrent()
	files := openFiles(t)
	for range 20 {
		cycle()
	}
	for _, name := range []string{"garbage", "failing", "closing", "mute"} {
		failedCycle(name)
	}
	goleak.VerifyNone(t, before)
	// The count may include files of the first cycle, which a goroutine closes late. A leak of one
	// file per cycle would add 24.
	require.Eventually(t, func() bool { return openFiles(t) <= files }, 5*time.Second,
		10*time.Millisecond)
	noSockets(t)
	noChildren(t)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// BenchmarkLaunchOfTwo measures how long a run takes to start two ranks.
func BenchmarkLaunchOfTwo(b *testing.B) {
	plugin := find(b, "fake")
	_, err := plugin.SHA256()
	require.NoError(b, err)
	for b.Loop() {
		var wait sync.WaitGroup
		var processes [2]*Process
		for i := range processes {
			wait.Go(func() {
				p, err := plugin.Launch(context.Background(), LaunchOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				processes[i] = p
			})
		}
		wait.Wait()
		b.StopTimer()
		for _, p := range processes {
			require.NoError(b, p.Kill())
		}
		b.StartTimer()
	}
}
