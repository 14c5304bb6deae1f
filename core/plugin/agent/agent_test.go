package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

// A reference tool runs on the agent's host, until the coordinator or the connection ends
// it.
func TestWitness(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nif [ $1 = server ]; then echo $$ >" + dir + "/new; mv " + dir + "/new " +
		dir + "/pid; exec sleep 60; fi\n" +
		"if [ $1 = --version ]; then echo fake 7.8; exit; fi\nif [ ! -e " + dir +
		"/pid ]; then echo refused; exit 1; fi\necho Total 12 observations; echo percentile " +
		"50.000 = 2.5\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sockperf"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	p := connected(t)
	load := witness.Load{Transport: "erpc", Medium: transport.MediumUDP, Size: 8, InFlight: 1,
		Address: "127.0.0.1",
		Daemon:  witness.End{CPU: -1}, Client: witness.End{CPU: -1}}
	w, missing := witness.Find(t.Context(), nil, load, p, p)
	require.Empty(t, missing)
	reading, err := w.Measure(t.Context())
	require.NoError(t, err)
	require.Equal(t, transport.Floor{Name: "sockperf ping-pong", RoundTrip: 5000, Samples: 12},
		reading)
	require.Equal(t, "7.8", w.Result().Version)
	requireGone := func() {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
		require.NoError(t, os.Remove(filepath.Join(dir, "pid")))
	}
	requireGone()

	_, missing = witness.Find(t.Context(),
		nil, witness.Load{Transport: "shm", Medium: transport.MediumMemory, InFlight: 1}, p, p)
	require.Equal(t, "none is known for round trips of shm over memory", missing)
	load.Address = "--help"
	_, missing = witness.Find(t.Context(), nil, load, p, p)
	require.Equal(t, `host h1: "--help" cannot be passed to a reference tool`, missing)

	load.Address = "127.0.0.1"
	served := make(chan error, 1)
	go func() {
		_, err := p.Witness(context.Background(), witness.Request{Step: witness.StepServe,
			Load: load})
		served <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "pid"))
		return err == nil
	}, 10*time.Second, time.Millisecond)
	p.Close()
	require.Error(t, <-served)
	require.ErrorIs(t, <-p.served, ErrEnded)
	requireGone()
}

// The test binary also acts as the plugin that the tests start, by the name of the link to it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "transport-fake" {
		plugin.Serve(fakeDriver{}, func(transport.Driver) record.Control {
			return &fakeRank{stop: make(chan struct{}, 1)}
		})
	}
	tmp, err := os.MkdirTemp("/tmp", "tb") // sockets need a short path
	if err == nil {
		err = errors.Join(os.Setenv("TMPDIR", tmp), os.Unsetenv("XDG_RUNTIME_DIR"))
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(tmp)
	os.Exit(code)
}

type fakeDriver struct{}

func (fakeDriver) Info() transport.Info {
	return transport.Info{Name: "fake", Version: "1.2.3", Summary: "a fake for tests",
		Providers: []string{"none"}}
}

func (fakeDriver) Open(context.Context, transport.Config) (transport.Transport, error) {
	return nil, transport.ErrUnsupported
}

// fakeRank does what the option "do" of its plan says.
type fakeRank struct {
	rank int
	stop chan struct{}
}

func (f *fakeRank) Prepare(_ context.Context, plan record.Plan) (record.Prepared, error) {
	f.rank = plan.Rank
	switch plan.Config.Options["do"] {
	case "die":
		panic("boom")
	case "fail":
		return record.Prepared{}, &transport.OpError{Transport: "fake", Op: "open",
			Err: transport.Unavailable("no device: install one")}
	case "spin":
		cpus, err := machine.AllowedCPUs()
		if err != nil {
			return record.Prepared{}, err
		}
		go func() {
			runtime.LockOSThread()
			_ = machine.Pin(cpus[0])
			for {
				// A loop without calls may not be stopped for a collection: near the end of its
				// stack, the runtime cannot preempt it by a signal.
				runtime.Gosched()
			}
		}()
	case "log":
		slog.Error("careful", "rank", plan.Rank)
	}
	return record.Prepared{Workers: record.RankWorkers{Rank: plan.Rank},
		Properties: transport.Properties{Provider: "none"}, PID: os.Getpid()}, nil
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
	progress(record.Progress{})
	select {
	case <-f.stop:
	case <-ctx.Done():
	}
	return record.Report{Rank: f.rank, Stopped: true,
		Process: record.ProcessReport{Clock: "monotonic"}}, nil
}

func (f *fakeRank) Advance(_ context.Context, to record.State) error {
	if to == record.StateStopped {
		f.stop <- struct{}{}
	}
	return nil
}

func (f *fakeRank) Close(context.Context) error { return nil }

// pair is an agent and its coordinator in one process.
type pair struct {
	*Remote
	plugin *host.Plugin
	conn   net.Conn   // the agent's end
	served chan error // what Serve returned
	logs   chan string
}

func connected(t *testing.T) *pair {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "transport-fake")))
	p := &pair{served: make(chan error, 1), logs: make(chan string, 10)}
	p.plugin, err = host.Find("fake", []string{dir})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p.conn, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	go func() {
		p.served <- Serve(context.Background(), p.conn, hosts.DefaultTimeout, []string{dir})
	}()
	accepted, err := l.Accept()
	require.NoError(t, err)
	p.Remote, err = Connect("h1", accepted, hosts.DefaultTimeout,
		func(text string) { p.logs <- text })
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func (p *pair) launch(t *testing.T, rank int) *Process {
	t.Helper()
	sum, err := p.plugin.SHA256()
	require.NoError(t, err)
	process, err := p.Launch(t.Context(), wire.LaunchRequest{
		PluginRequest: wire.PluginRequest{Name: "fake", SHA256: sum}, Rank: rank,
		StartTimeout: time.Minute, LogLevel: slog.LevelError})
	require.NoError(t, err)
	return process
}

func prepare(p *Process, rank int, what string) (record.Prepared, error) {
	var plan record.Plan
	plan.Rank, plan.Config.Options = rank, map[string]string{"do": what}
	return p.Prepare(context.Background(), plan)
}

func TestRanks(t *testing.T) {
	p := connected(t)
	var pids []int
	for rank := range 2 {
		r := p.launch(t, rank)
		prepared, err := prepare(r, rank, "log")
		require.NoError(t, err)
		require.Equal(t, rank, prepared.Workers.Rank, "calls reach the rank that they name")
		require.Equal(t, fmt.Sprintf("rank %d: ", rank), (<-p.logs)[:8])
		report, err := r.Run(t.Context(), record.Window{},
			func() { go func() { _ = r.Advance(context.Background(), record.StateStopped) }() },
			func(record.Progress) {})
		require.NoError(t, err)
		require.True(t, report.Stopped)
		pids = append(pids, prepared.PID)
	}
	require.NotEqual(t, pids[0], pids[1])
	r := p.launch(t, 2)
	r.Kill()
	<-r.Exited()
	require.Error(t, r.Connect(t.Context(), nil))
	state, err := p.State(t.Context(), []int{0})
	require.NoError(t, err)
	require.Positive(t, state.Times.KernelNS)

	p.Close()
	require.ErrorIs(t, <-p.served, ErrEnded)
	for _, pid := range pids {
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "the agent ended its ranks")
	}
}

// TestOtherAgentsAreLate: an agent that has joined waits for hours until the others have.
func TestOtherAgentsAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, other := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- Serve(context.Background(), own, hosts.DefaultTimeout, nil) }()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Empty(t, served)
		remote, err := Connect("h1", other, hosts.DefaultTimeout, func(string) {})
		require.NoError(t, err)
		_, err = remote.State(t.Context(), nil)
		require.NoError(t, err)
		remote.Close()
		require.ErrorIs(t, <-served, ErrEnded)
	})
}

// TestBounds: a coordinator cannot start processes without end, and a plugin cannot send logs of
// any length.
func TestBounds(t *testing.T) {
	s := &server{ranks: map[string]*rank{}, logs: make(chan string, 1)}
	for i := range config.MaxRanks {
		s.ranks[fmt.Sprint(i)] = nil
	}
	_, err := s.Launch(t.Context(), wire.LaunchRequest{})
	require.EqualError(t, err, "an agent starts at most 1024 ranks")
	delete(s.ranks, "0")
	_, err = s.Launch(t.Context(), wire.LaunchRequest{})
	require.EqualError(t, err, `"" is no transport's name`)
	require.Zero(t, s.starts)
	_, err = s.State(t.Context(), make([]int, maxCPUs+1))
	require.ErrorContains(t, err, "at most 65536 are allowed")
	n, err := logWriter{s, "rank 1: "}.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.Equal(t, 1<<20, n)
	require.Len(t, <-s.logs, len("rank 1: ")+longestLog)
}

// TestDroppedLogs: the coordinator learns how many lines it has not got.
func TestDroppedLogs(t *testing.T) {
	s := &server{logs: make(chan string, 2)}
	for range 5 {
		_, err := logWriter{s, "rank 1: "}.Write([]byte("a line"))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	require.ErrorIs(t, s.Logs(ctx, func(text string) error {
		if got = append(got, text); len(got) == 3 {
			cancel()
		}
		return nil
	}), context.Canceled)
	require.Equal(t, []string{"rank 1: a line", "rank 1: a line",
		"3 more lines of logs were dropped: they came faster than the coordinator took them"}, got)
}

// liar is an agent that answers what it likes.
type liar struct {
	wire.Agent
	id   string
	text string
	sent chan error // the end of Logs
}

func (l *liar) Launch(context.Context, wire.LaunchRequest) (wire.Launched, error) {
	return wire.Launched{ID: l.id}, nil
}

func (l *liar) End(context.Context) error { return nil }

func (l *liar) Logs(ctx context.Context, send func(string) error) error {
	err := send(l.text)
	if err == nil {
		<-ctx.Done()
		err = ctx.Err()
	}
	l.sent <- err
	return err
}

// TestLiars: an agent's answers are checked, and bounded.
func TestLiars(t *testing.T) {
	for name, c := range map[string]struct {
		liar   liar
		launch string
		logged bool
	}{
		"no number": {liar{id: "1\r\nauthorization: x", text: "a line"}, "is no rank's ID", true},
		"a long ID": {liar{id: strings.Repeat("9", 1<<20), text: "a line"},
			"is no rank's ID", true},
		"a long answer": {liar{id: strings.Repeat("9", 5<<20), text: "a line"},
			"an answer that is too long", true},
		"a long log": {liar{id: "x", text: strings.Repeat("x", 1<<20)}, "is no rank's ID", false},
	} {
		t.Run(name, func(t *testing.T) {
			own, other := net.Pipe()
			server := grpc.NewServer(grpc.MaxSendMsgSize(math.MaxInt32))
			c.liar.sent = make(chan error, 1)
			wire.RegisterAgent(server, &c.liar)
			served := make(chan struct{})
			watched := watch(own)
			go func() {
				defer close(served)
				_ = server.Serve(
					&oneConn{conn: watched, closed: watched.closed})
			}()
			logs := make(chan string, 1)
			remote, err := Connect("h1", other, hosts.DefaultTimeout,
				func(text string) { logs <- text })
			require.NoError(t, err)
			_, err = remote.Launch(t.Context(), wire.LaunchRequest{})
			require.ErrorContains(t, err, c.launch)
			require.ErrorContains(t, err, "host h1: ")
			require.Less(t, len(err.Error()), 500)
			if c.logged {
				require.Equal(t, "a line", <-logs)
			} else {
				require.Error(t, <-c.liar.sent)
				require.Empty(t, logs)
			}
			remote.Close()
			server.Stop()
			<-served
		})
	}
}

// countedConn counts the bytes that are written.
type countedConn struct {
	net.Conn
	bytes atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// TestCompression: what a coordinator sends is compressed.
func TestCompression(t *testing.T) {
	own, other := net.Pipe()
	go func() { _ = Serve(context.Background(), own, hosts.DefaultTimeout, nil) }()
	counted := &countedConn{Conn: other}
	remote, err := Connect("h1", counted, hosts.DefaultTimeout, func(string) {})
	require.NoError(t, err)
	defer remote.Close()
	_, err = remote.Describe(t.Context(), strings.Repeat("9", 1<<20), "")
	require.ErrorContains(t, err, "there is no plugin")
	require.Less(t, counted.bytes.Load(), int64(10_000))
}

// Time in which a rank waits for a processor is not its own. All time is, if the agent does not
// know.
func TestUsesUp(t *testing.T) {
	const limit = 200 * time.Millisecond
	p := connected(t)
	r := p.launch(t, 0)
	_, err := prepare(r, 0, "spin")
	require.NoError(t, err)
	_, err = prepare(p.launch(t, 1), 1, "spin") // on the same processor
	require.NoError(t, err)
	began := time.Now()
	require.True(t, r.UsesUp(t.Context(), limit))
	require.Greater(t, time.Since(began), limit*5/4, "it has half of a processor at most")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, r.UsesUp(ctx, time.Hour))
	r.Kill()
	began = time.Now()
	require.True(t, r.UsesUp(t.Context(), limit), "the agent has no such rank")
	require.GreaterOrEqual(t, time.Since(began), limit)
	_, err = wire.CallAgent[struct{}](t.Context(), p.client, "UsesUp",
		wire.PatienceRequest{ID: "1", Limit: 1})
	require.ErrorContains(t, err, "patience of 1ns; 10ms is the least")
}

// What a rank fails with arrives with its type, and the last output of one that died with it.
func TestFailures(t *testing.T) {
	p := connected(t)
	_, err := prepare(p.launch(t, 0), 0, "fail")
	require.EqualError(t, err, "fake: open peer 0: unavailable: no device: install one")
	require.ErrorIs(t, err, transport.ErrUnavailable)
	r := p.launch(t, 1)
	_, err = prepare(r, 1, "die")
	var died *record.ExitError
	require.ErrorAs(t, err, &died)
	require.Contains(t, died.Output, "panic: boom")
	require.Equal(t, "panic: boom", died.Reason)
	<-r.Exited()
}

// An agent starts no file but the coordinator's.
func TestOtherPlugins(t *testing.T) {
	p := connected(t)
	for _, c := range []struct{ name, sum, says string }{
		{"fake", strings.Repeat("0", 64),
			"the coordinator's 000000000000: install the same build on all hosts"},
		{"other", "", `host h1: there is no plugin "other" in `},
		{"../fake", "", `"../fake" is no transport's name`},
	} {
		_, err := p.Launch(t.Context(), wire.LaunchRequest{
			PluginRequest: wire.PluginRequest{Name: c.name, SHA256: c.sum}})
		require.ErrorContains(t, err, c.says)
		_, err = p.Describe(t.Context(), c.name, c.sum)
		require.ErrorContains(t, err, c.says)
	}
	sum, err := p.plugin.SHA256()
	require.NoError(t, err)
	d, err := p.Describe(t.Context(), "fake", sum)
	require.NoError(t, err)
	require.Equal(t, "fake", d.Info.Name)
}

// A connection that breaks ends the calls with the host's name, and the agent's ranks.
func TestLostAgent(t *testing.T) {
	p := connected(t)
	r := p.launch(t, 0)
	prepared, err := prepare(r, 0, "")
	require.NoError(t, err)
	failed := make(chan error, 1)
	running := make(chan struct{})
	go func() {
		_, err := r.Run(context.Background(), record.Window{}, func() { close(running) },
			func(record.Progress) {})
		failed <- err
	}()
	<-running
	require.NoError(t, p.conn.Close())
	var lost *lostError
	require.ErrorAs(t, <-failed, &lost)
	require.EqualError(t, lost, "host h1 is lost: its agent ended")
	<-r.Exited()
	<-p.ctx.Done()
	require.Error(t, <-p.served)
	require.ErrorIs(t, unix.Kill(prepared.PID, 0), unix.ESRCH)
	r.Kill()
	_, err = p.Launch(t.Context(), wire.LaunchRequest{
		PluginRequest: wire.PluginRequest{Name: "fake"}, Rank: 1})
	require.ErrorAs(t, err, &lost)
}
