package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/record"
	"transportbench/core/fabric/shm"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// The test binary also acts as the plugins and hosts that the tests start. The name of the link by
// which it is called decides.
func TestMain(m *testing.M) {
	me := filepath.Base(os.Args[0])
	if name, ok := strings.CutPrefix(me, "transport-"); ok {
		actAsPlugin(name)
	}
	if me == hostHelper {
		actAsHost()
	}
	// A process under the race detector sleeps for a second before it exits by default.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// A directory for these tests only; sockets need a short path.
	tmp, err := os.MkdirTemp("/tmp", "tb")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("TMPDIR", tmp); err != nil {
		panic(err)
	}
	_ = os.Unsetenv("XDG_RUNTIME_DIR")
	code := m.Run()
	End()
	if left, _ := os.ReadDir(tmp); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "left behind in %s: %v\n", tmp, left)
		code = 1
	}
	_ = os.RemoveAll(tmp)
	os.Exit(code)
}

// plugins makes a directory with links of the given names to this test binary.
func plugins(t testing.TB, names ...string) []string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, "transport-"+name)))
	}
	return []string{dir}
}

func find(t testing.TB, name string) *Plugin {
	t.Helper()
	p, err := Find(name, plugins(t, name))
	require.NoError(t, err)
	return p
}

// file makes a plugin with arbitrary content.
func file(t *testing.T, name, content string) *Plugin {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "transport-"+name), []byte(content), 0o755))
	p, err := Find(name, []string{dir})
	require.NoError(t, err)
	return p
}

// actAsPlugin never returns.
func actAsPlugin(name string) {
	forever := func() { _, _ = unix.Poll(nil, -1) }
	switch name {
	case "garbage":
		fmt.Println("hello, I am some other program")
		forever()
	case "flood":
		for {
			if _, err := os.Stdout.Write(make([]byte, 1<<16)); err != nil {
				forever()
			}
		}
	case "silent":
		forever()
	case "quitter":
		os.Exit(0)
	case "failing":
		fmt.Fprintln(os.Stderr, "some warning")
		fmt.Fprintln(os.Stderr, "the license has expired")
		os.Exit(7)
	case "crashing":
		crash()
	case "shot":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case "shotonce":
		once(unix.SIGTERM)
		plugin.Serve(fakeDriver{name}, newFakeRank)
	case "stoppedonce":
		once(unix.SIGSTOP)
		plugin.Serve(fakeDriver{name}, newFakeRank)
	case "shotlater":
		handshakeOnly(name)
	case "deaf": // ignores signals, spins, and prints nothing
		signal.Ignore()
		leaveNumber()
		for range 2 * runtime.NumCPU() {
			go spin()
		}
		forever()
	case "closing", "mute", "otherversion":
		handshakeOnly(name)
	case "stopparent":
		_ = unix.Kill(os.Getppid(), unix.SIGSTOP)
		forever()
	case "imposter":
		plugin.Serve(fakeDriver{"somethingelse"}, newFakeRank)
	case "daemon": // the process between a plugin and its daemon
		startDaemon(&syscall.SysProcAttr{Setsid: true}, "silent")
		os.Exit(0)
	case "breeding":
		litter()
		breed()
		plugin.Serve(fakeDriver{name}, newFakeRank)
	default:
		plugin.Serve(fakeDriver{name}, newFakeRank)
	}
	os.Exit(99)
}

// once sends this process a signal if it is the first of its plugin.
func once(signal unix.Signal) {
	marker, err := os.OpenFile(filepath.Join(filepath.Dir(os.Args[0]), "once"),
		os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return
	}
	if err != nil {
		panic(err)
	}
	_ = marker.Close()
	_ = unix.Kill(os.Getpid(), signal)
	_, _ = unix.Poll(nil, -1)
}

// spin occupies a core and never calls a function, so that the Go runtime cannot preempt it.
func spin() {
	var n atomic.Uint64
	for n.Add(1) != 0 {
	}
}

// leaveNumber writes this process's number to a file for the tests.
func leaveNumber() {
	path := filepath.Join(filepath.Dir(os.Args[0]), "pid")
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

// litter makes shared memory of both kinds, which nobody removes, and leaves their names in a file.
func litter() {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(shm.Dir(), "litter"), nil, 0o600); err != nil {
		panic(err)
	}
	text := fmt.Sprintf("%s %d", shm.Dir(), id)
	if err := os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), "litter"), []byte(text),
		0o600); err != nil {
		panic(err)
	}
}

// breed starts three processes: one in the plugin's group, one in a session of its own, and a
// daemon whose parent has ended and that has no environment. It leaves their numbers in files.
func breed() {
	startDaemon(nil, "silent")
	startDaemon(&syscall.SysProcAttr{Setsid: true}, "silent")
	between := startDaemon(nil, "daemon")
	if _, err := between.Process.Wait(); err != nil {
		panic(err)
	}
}

// startDaemon starts this binary as a plugin and leaves its number in a file.
func startDaemon(attributes *syscall.SysProcAttr, name string) *exec.Cmd {
	child := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{filepath.Join(filepath.Dir(os.Args[0]),
			"transport-"+name)},
		Env: []string{"NONE="}, SysProcAttr: attributes,
	}
	if err := child.Start(); err != nil {
		panic(err)
	}
	if name == "silent" {
		path := filepath.Join(filepath.Dir(os.Args[0]), fmt.Sprintf("bred-%d", child.Process.Pid))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			panic(err)
		}
	}
	return child
}

// handshakeOnly prints a valid handshake and then does not serve.
func handshakeOnly(name string) {
	path := filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	version := plugin.ProtocolVersion
	if name == "otherversion" {
		version = 1
	}
	fmt.Printf("1|%d|unix|%s|grpc|\n", version, path)
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		if name == "closing" {
			_ = conn.Close()
		}
		if name == "shotlater" {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}
}

// crash ends the process like a crash in native code.
func crash() {
	_ = unix.Kill(os.Getpid(), unix.SIGSEGV)
	_, _ = unix.Poll(nil, -1)
}

type fakeDriver struct{ name string }

func (d fakeDriver) Info() transport.Info {
	info := transport.Info{Name: d.name, Version: "1.2.3", Summary: "a fake for tests",
		Providers: []string{"none"}}
	if d.name == "huge" { // its description is longer than any answer may be
		info.Summary = strings.Repeat("x", 8<<20)
	}
	return info
}

func (d fakeDriver) Open(context.Context, transport.Config) (transport.Transport, error) {
	return nil, transport.ErrUnsupported
}

// fakeRank does what the option "do" of its plan says; see Prepare.
type fakeRank struct {
	do   string
	stop chan struct{}
}

func newFakeRank(transport.Driver) record.Control { return &fakeRank{stop: make(chan struct{}, 1)} }

func (f *fakeRank) Prepare(_ context.Context, plan record.Plan) (record.Prepared, error) {
	f.do = plan.Config.Options["do"]
	prepared := record.Prepared{
		Workers:    record.RankWorkers{Rank: plan.Rank},
		Properties: transport.Properties{Provider: "none"}, PID: os.Getpid(),
	}
	switch f.do {
	case "breed":
		litter()
		breed()
	case "breed and panic":
		litter()
		breed()
		panic("boom")
	case "stop parent":
		return prepared, unix.Kill(os.Getppid(), unix.SIGSTOP)
	case "panic":
		panic("boom")
	case "crash":
		crash()
	case "fail":
		return prepared, transport.NewOpError("fake", "open",
			transport.Unavailable("no device: install one"))
	case "chatter":
		junk := make([]byte, 1<<20) // larger than any buffer, without a line break
		for _, fd := range []int{1, 2} {
			for rest := junk; len(rest) > 0; {
				n, err := unix.Write(fd, rest)
				if err != nil && !errors.Is(err, unix.EINTR) {
					return prepared, err
				}
				rest = rest[max(n, 0):]
			}
		}
		fmt.Println(strings.Repeat("to standard output\n", 1<<16))
	case "log":
		slog.Warn("careful", "rank", plan.Rank)
		slog.Debug("detail")
	case "environment":
		return prepared, os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), "environment"),
			[]byte(strings.Join(os.Environ(), "\x00")), 0o600)
	case "child":
		child := exec.Command(os.Args[0])
		child.Args[0] = "transport-silent"
		child.Stdout, child.Stderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")
		err := child.Start()
		if err == nil {
			prepared.PID = child.Process.Pid
		}
		return prepared, err
	}
	return prepared, nil
}

func (f *fakeRank) Connect(context.Context, []record.RankWorkers) error { return nil }

func (f *fakeRank) Overhead(context.Context, time.Duration) (record.Overhead, error) {
	return record.Overhead{PerOpNS: 1}, nil
}

func (f *fakeRank) Probe(context.Context, record.Probe) (transport.Floor, error) {
	return transport.Floor{}, transport.ErrUnsupported
}

func (f *fakeRank) Run(ctx context.Context, _ record.Window, started func(),
	progress func(record.Progress)) (record.Report, error) {
	started()
	if f.do == "spin" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		for range 2 * runtime.NumCPU() {
			go spin()
		}
	}
	progress(record.Progress{})
	select {
	case <-f.stop:
	case <-ctx.Done():
	}
	return record.Report{Rank: 4, Stopped: true, Process: record.ProcessReport{Clock: "monotonic"}},
		nil
}

func (f *fakeRank) Advance(_ context.Context, to record.State) error {
	if to == record.StateStopped {
		f.stop <- struct{}{}
	}
	return nil
}

func (f *fakeRank) Close(context.Context) error {
	if f.do == "never closes" {
		select {}
	}
	return nil
}

// do prepares p with the option "do".
func do(ctx context.Context, p record.Control, what string) (record.Prepared, error) {
	var plan record.Plan
	plan.Rank = 4
	plan.Config.Options = map[string]string{"do": what}
	return p.Prepare(ctx, plan)
}

const hostHelper = "host-helper"

// actAsHost launches the plugin named by its arguments, prints the plugin's process number, and
// waits to be killed.
func actAsHost() {
	dir, name := os.Args[1], os.Args[2]
	p, err := Find(name, []string{dir})
	if err != nil {
		panic(err)
	}
	fmt.Println("launching")
	process, err := p.Launch(context.Background(), LaunchOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(process.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_, _ = unix.Poll(nil, -1)
}
