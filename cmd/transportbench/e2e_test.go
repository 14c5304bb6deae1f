package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/core/lab/store/result"
)

// bin has links to the command and its plugins, built as scripts/build.sh does. The directory's
// name tells this run's processes from others.
var bin string

// built has the binaries that bin links to. They stay there, so that the next run of tests only
// builds what has changed.
const built = "../../bin/test"

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	_ = os.Unsetenv("XDG_RUNTIME_DIR") // so that a command's directories are in its TMPDIR
	var err error
	if bin, err = os.MkdirTemp("", "transportbench-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	for _, b := range []struct {
		directory, program string
		names              []string
	}{
		{"", "transportbench", []string{"transportbench"}},
		{"plugins", "transports-libc", []string{"transport-shm", "transport-tcpx",
			"transport-sockets", "transport-calibration", "transport-copyrpc", "transport-erpc"}},
		{"mixed", "transports-libc", []string{"transport-shm"}},
	} {
		if err := build(b.directory, b.program, b.names...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// prebuilt means that built is up to date, as in the guest, which cannot build.
var prebuilt = os.Getenv("CI_PREBUILT") != ""

// build builds a program without its native libraries, and links it into a directory of bin under
// names. One of mixed has other compiler settings, which make another runtime.
func build(directory, program string, names ...string) error {
	arguments := []string{"build", "-buildvcs=false", "-trimpath", "-o",
		filepath.Join(built, directory) + "/"}
	if directory == "mixed" {
		arguments = append(arguments, "-gcflags=-l")
	}
	arguments = append(arguments, "transportbench/cmd/"+program)
	cmd := exec.Command("go", arguments...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if !prebuilt {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, out)
		}
	}
	for _, name := range names {
		if err := link(filepath.Join(built, directory, program),
			filepath.Join(bin, directory, name)); err != nil {
			return err
		}
	}
	return nil
}

// link makes target a link to the file source, or on another file system a copy.
func link(source, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	source, err := filepath.EvalSymlinks(source) // a plugin of make build is one
	if err != nil {
		return err
	}
	if os.Link(source, target) == nil {
		return nil
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, text, 0o755)
}

// An installed command finds the plugins that make install puts below its prefix.
func TestInstalled(t *testing.T) {
	prefix := t.TempDir()
	for from, to := range map[string]string{"transportbench": "bin/transportbench",
		"plugins/transport-shm": "lib/transportbench/plugins/transport-shm"} {
		require.NoError(t, link(filepath.Join(bin, from), filepath.Join(prefix, to)))
	}
	i := command(t, "plugins", "list", "--json")
	i.cmd.Path = filepath.Join(prefix, "bin/transportbench")
	require.Zero(t, i.run(t), i.stderr.String())
	require.Contains(t, i.stdout.String(),
		filepath.Join(prefix, "lib/transportbench/plugins/transport-shm"))
}

// window is long enough for operations to complete on a busy machine: one in which threads got no
// processor is measured again. A run that completes none fails.
const window = "200ms"

// short has the options of a short run.
var short = []string{"--transport", "shm", "--duration", window, "--warmup", "20ms",
	"--repeats", "2"}

// invocation is one run of the built command.
type invocation struct {
	cmd            *exec.Cmd
	out, tmp       string // results, and TMPDIR
	stdout, stderr bytes.Buffer
}

func command(t testing.TB, args ...string) *invocation {
	t.Helper()
	i := &invocation{out: filepath.Join(t.TempDir(), "results"), tmp: shortTempDir(t)}
	if args[0] == "run" || args[0] == "bench" {
		args = append([]string{args[0], "--out", i.out}, args[1:]...)
	}
	i.cmd = exec.Command(filepath.Join(bin, "transportbench"), args...)
	i.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(),
		"TMPDIR="+i.tmp)
	i.cmd.Stdout, i.cmd.Stderr = &i.stdout, &i.stderr
	return i
}

// shortTempDir returns a directory whose path is short enough for a socket's.
func shortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tb")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// wait waits for the command and all its plugins, checks that they left nothing, and returns the
// exit code.
func (i *invocation) wait(t *testing.T) int {
	t.Helper()
	i.await(t)
	requireNothingLeft(t, i.tmp)
	return i.cmd.ProcessState.ExitCode()
}

// await waits for the command and all its plugins.
func (i *invocation) await(t *testing.T) {
	t.Helper()
	err := i.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(plugins()) == 0 }, 10*time.Second,
		10*time.Millisecond, "plugins are still running")
}

func (i *invocation) run(t *testing.T) int {
	t.Helper()
	require.NoError(t, i.cmd.Start())
	return i.wait(t)
}

// TestLoads runs the parts of a load over a real transport with every response
// verified.
func TestLoads(t *testing.T) {
	sizes := filepath.Join(t.TempDir(), "sizes.txt")
	require.NoError(t, os.WriteFile(sizes, []byte("0 1\n32 5\n1000 3\n5KiB 1\n"), 0o600))
	for name, args := range map[string][]string{
		"ycsb-d":  {"--profile", "ycsb-d", "--keys", "1000", "--in-flight", "4"},
		"kvcache": {"--profile", "kvcache"},
		"bulk":    {"--profile", "bulk"},
		"echo": {"--profile", "echo", "--in-flight", "32", "--clients", "2",
			"--verify-every", "1"},
		"proxied": {"--profile", "echo", "--in-flight", "4", "--topology", "mesh-proxied"},
		"striped": {"--profile", "bulk", "--transport", "tcpx", "--set", "sockets=2"},
		"hotspot": {"--distribution", "hotspot", "--mix",
			"read:0.4,write:0.4,lookup:0.1,insert:0.1"},
		"any size": {"--value-size", "file:" + sizes, "--keys", "8", "--clients", "2",
			"--in-flight", "8", "--daemons", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			i := command(t, append(append([]string{"run", "--json"}, short...), args...)...)
			require.Zero(t, i.run(t), i.stderr.String())
			r, err := result.Parse(i.stdout.Bytes())
			require.NoError(t, err)
			requireVerified(t, r)
			if name == "any size" {
				require.Equal(t, "histogram:0=1,32=5,1000=3,5KiB=1", r.Config.ValueSize.String())
			}
		})
	}
}

var topologies = []string{"client-server", "mesh-direct", "mesh-proxied"}

// TestTopologies runs every topology over every transport that needs no special
// hardware. In short mode, loads that differ in the runtime alone run over shm alone.
func TestTopologies(t *testing.T) {
	for _, topology := range topologies {
		for _, transport := range []string{"shm", "copyrpc", "erpc", "tcpx"} {
			for name, args := range map[string][]string{
				"plain": {},
				"many": {"--ranks", "3", "--daemons", "2", "--clients", "3",
					"--in-flight", "4"},
				"immediate": {"--flush", "immediate", "--in-flight", "2"},
				"open loop": {"--rate", "2000", "--in-flight", "64", "--profile", "kvcache"},
			} {
				if testing.Short() && transport != "shm" &&
					(name == "immediate" || name == "open loop") {
					continue
				}
				t.Run(topology+"/"+transport+"/"+name, func(t *testing.T) {
					args := append([]string{"run", "--json", "--transport", transport, "--topology",
						topology,
						"--duration", window, "--warmup", "20ms", "--repeats", "1"}, args...)
					i := command(t, args...)
					i.run(t) // a busy machine may not keep the rate
					r, err := result.Parse(i.stdout.Bytes())
					require.NoError(t, err, i.stderr.String())
					requireVerified(t, r)
				})
			}
		}
	}
}

func TestBadLoads(t *testing.T) {
	sizes := filepath.Join(t.TempDir(), "sizes.txt")
	require.NoError(t, os.WriteFile(sizes, []byte("32 5\n64 x\n"), 0o600))
	for problem, args := range map[string][]string{
		"--rate: 0 op/s is out of range": {"--rate", "0"},
		"--remote-share: 1.5 is out of range (0 to 1)": {"--remote-share", "1.5", "--topology",
			"mesh-direct"},
		"--remote-share: cannot be combined with --topology=client-server, " +
			"where every": {"--remote-share", "0.5"},
		"--idle: park cannot be combined with --topology=mesh": {"--idle", "park", "--topology",
			"mesh-proxied"},
		`--topology: "mesh" is not one of`:     {"--topology", "mesh"},
		"--daemons: 9 daemons for 8 keys":      {"--daemons", "9", "--keys", "8"},
		`sizes.txt: line 2: "x" is not a weig`: {"--value-size", "file:" + sizes},
	} {
		i := command(t, append([]string{"run"}, args...)...)
		require.Equal(t, 2, i.run(t))
		require.Contains(t, i.stderr.String(), problem)
		require.Equal(t, 1, strings.Count(i.stderr.String(), "\n"), i.stderr.String())
	}
}

// plugins returns the processes that run a plugin from bin. It is for any goroutine.
func plugins() []int { return running("/transport-") }

// running returns the processes whose executable is in bin and has part in its path. It is for any
// goroutine.
func running(part string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, link := range links {
		exe, err := os.Readlink(link)
		pid, notPID := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && notPID == nil && strings.Contains(exe, bin) &&
			strings.Contains(exe, part) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// footprint is what processes hold.
type footprint struct{ processes, descriptors, threads, memory int } // memory in KiB

// footprintOf adds up what processes hold. It fails if one of them has ended.
func footprintOf(pids ...int) (sum footprint, err error) {
	for _, pid := range pids {
		descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return sum, err
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return sum, err
		}
		var threads, memory int
		for line := range strings.Lines(string(status)) {
			_, _ = fmt.Sscanf(line, "Threads: %d", &threads)
			_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &memory)
		}
		if memory == 0 {
			return sum, fmt.Errorf("process %d has ended", pid)
		}
		sum.processes++
		sum.descriptors += len(descriptors)
		sum.threads += threads
		sum.memory += memory
	}
	return sum, nil
}

// buildUCXAM builds the plugin that needs UCX, for the time of a test.
func buildUCXAM(t *testing.T) error {
	t.Helper()
	plugin := filepath.Join(bin, "plugins", "transport-ucxam")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "ucx", "-o",
		plugin, "transportbench/cmd/transports-ucx")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the plugin ucxam does not build: %w\n%s", err, out)
	}
	t.Cleanup(func() { os.Remove(plugin) })
	return nil
}

// requireVerified requires that a run verified responses and that all of them were right.
func requireVerified(t *testing.T, r *result.Result) {
	t.Helper()
	verified := slices.IndexFunc(r.Checks,
		func(c result.Finding) bool { return c.Name == "verified" })
	require.GreaterOrEqual(t, verified, 0, "the check is missing")
	require.True(t, r.Checks[verified].OK, r.Checks[verified].Message)
}

// requireNothingLeft checks that a command and its plugins left no files.
func requireNothingLeft(t *testing.T, tmp string) {
	t.Helper()
	// Of a command that was killed, the keeper removes them once the plugins have ended.
	require.Eventually(t, func() bool {
		left, err := filepath.Glob(filepath.Join(tmp, "transportbench-*"))
		require.NoError(t, err)
		return len(left) == 0
	}, 5*time.Second, 10*time.Millisecond, "directories for sockets")
	// A directory of a command that runs is locked. Other tests may run commands at the same time,
	// and may be about to lock theirs.
	require.Eventually(t, func() bool {
		dirs, err := filepath.Glob("/dev/shm/transportbench-*-*")
		require.NoError(t, err)
		return !slices.ContainsFunc(dirs, func(dir string) bool {
			file, err := os.Open(dir)
			if err != nil {
				return false
			}
			defer file.Close()
			return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		})
	}, 5*time.Second, 10*time.Millisecond, "directories for shared memory")
}

// results reads the result files and checks them against the schema.
func (i *invocation) results(t *testing.T) []*result.Result {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(i.out, "*.json"))
	require.NoError(t, err)
	var all []*result.Result
	for _, path := range paths {
		r, err := result.Read(path)
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func TestRun(t *testing.T) {
	i := command(t, append([]string{"run", "--setup"}, short...)...)
	require.Zero(t, i.run(t), i.stderr.String())
	require.Contains(t, i.stdout.String(), "throughput")
	require.Contains(t, i.stdout.String(), "what a start took")
	require.Contains(t, i.stderr.String(), "shm kv: repeat 2 of 2 done")

	results := i.results(t)
	require.Len(t, results, 1)
	r := results[0]
	require.Len(t, r.Repeats, 2)
	require.Equal(t, "shm", r.Plugin.Name)
	require.Len(t, r.Plugin.SHA256, 64)
	require.NotZero(t, r.Repeats[0].Ranks[1].Clients[0].Reads)
	require.NotZero(t, r.Repeats[0].Ranks[1].Clients[0].VerifiedSums)
	require.NotNil(t, r.Repeats[0].Before.Medium)
	require.NotEqual(t, r.Placement[0].PID, r.Placement[1].PID, "two separate processes")
	for _, name := range []string{result.SetupOpen, result.SetupConnect, result.SetupConnectAll,
		result.FirstCall, result.Teardown} {
		require.Positive(t, r.Summary[name].Median, name)
		// A client without a processor for its whole warm-up makes no first call.
		if n := r.Summary[name].N; name != result.FirstCall || n == 0 {
			require.Equal(t, len(r.Launches), n, name)
		}
	}
}

// The reference tool runs beside the windows, and the table has its ratio.
func TestWitness(t *testing.T) {
	if _, err := exec.LookPath("sockperf"); err != nil {
		t.Skip("sockperf is not installed: apt install sockperf")
	}
	i := command(t, "run", "--transport", "shm,sockets", "--profile", "pingpong", "--duration",
		window, "--warmup", "20ms", "--repeats", "1", "--witness")
	require.Zero(t, i.run(t), i.stderr.String())
	require.Contains(t, i.stdout.String(), "x reference tool")
	require.Contains(t, i.stderr.String(),
		"shm: no reference tool: none is known for round trips of shm over memory")
	for _, r := range i.results(t) {
		if r.Plugin.Name != "sockets" {
			continue
		}
		require.Empty(t, r.Witness.Missing)
		require.Contains(t, r.Witness.Client, "ping-pong")
		require.Positive(t, r.Summary[result.WitnessRoundTrip].Median)
		require.Positive(t, r.Repeats[0].After.Witness.Samples)
	}
}

// TestTrace checks that a trace has all steps of both directions, from both ranks on one clock, and
// that the result has none.
func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	i := command(t, "run", "--transport", "tcpx", "--value-size", "64KiB", "--in-flight", "4",
		"--duration", window, "--warmup", "20ms", "--repeats", "2", "--trace", path)
	began := time.Now()
	require.Zero(t, i.run(t), i.stderr.String())
	lasted := time.Since(began)
	require.Regexp(t, `trace\.json: the steps of \d+ transfers`, i.stderr.String())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var trace struct {
		TraceEvents []struct {
			Phase    string `json:"ph"`
			Name     string
			Process  int     `json:"pid"`
			Begin    float64 `json:"ts"`
			Duration float64 `json:"dur"`
			Args     struct{ Bytes int }
		}
	}
	require.NoError(t, json.Unmarshal(text, &trace))
	steps, bytes := map[string]int{}, 0
	for _, e := range trace.TraceEvents {
		if e.Phase != "X" {
			continue
		}
		steps[fmt.Sprintf("%d %s", e.Process, e.Name[:2])]++
		bytes += e.Args.Bytes
		require.Less(t, e.Begin+e.Duration, float64(lasted.Microseconds()),
			"the ranks have one clock")
	}
	for _, process := range []string{"1 ", "2 "} {
		for _, step := range []string{"t0", "t1", "t2", "t3", "se"} {
			require.NotZero(t, steps[process+step], "%s of process %s", step, process)
		}
		require.Equal(t, steps[process+"t0"], steps[process+"t3"])
	}
	require.Positive(t, bytes)
	for _, r := range i.results(t) {
		for _, repeat := range r.Repeats {
			require.Empty(t, repeat.Ranks[0].Daemons[0].Trace)
			require.Empty(t, repeat.Ranks[1].Clients[0].Trace)
		}
	}
}

func TestJSON(t *testing.T) {
	i := command(t, append([]string{"run", "--json", "--in-flight", "32", "--set", "ring=lamport"},
		short...)...)
	require.Zero(t, i.run(t), i.stderr.String())
	r, err := result.Parse(i.stdout.Bytes())
	require.NoError(t, err, "the result and nothing else")
	require.Equal(t, 32, r.Config.InFlight)
	require.Equal(t, "lamport", r.Config.Options["ring"])
	require.Len(t, i.results(t), 1)
}

func TestBench(t *testing.T) {
	i := command(t, "bench", "--duration", "100ms", "--warmup", "20ms", "--repeats", "1")
	require.Zero(t, i.run(t), i.stderr.String())
	for _, load := range []string{"pingpong", "kv"} {
		for _, transport := range []string{"shm", "copyrpc", "erpc", "tcpx"} {
			require.Regexp(t, `(?m)^`+load+` +`+transport+` `, i.stdout.String())
		}
	}
}

func TestBadInput(t *testing.T) {
	cases := []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"value over the transport's limit", []string{"--value-size", "1GiB", "--keys", "1"}, 2,
			"--value-size"},
		{"spin with more threads than cores", []string{"--clients", "1024", "--idle", "spin"}, 2,
			"--idle"},
		{"key range of zero", []string{"--keys", "0"}, 2, "--keys"},
		{"unknown ring", []string{"--set", "ring=lampert"}, 2, `did you mean "lamport"?`},
		{"unwritable results", []string{"--out", "/proc/nowhere"}, 2, "results directory"},
		{"trace of a transport that has none", []string{"--trace", "trace.json"}, 2,
			"shm does not record the steps of its transfers: it lacks the capability traces"},
		{"trace in no directory", []string{"--transport", "tcpx", "--trace", "no/where"}, 2,
			"--trace: there is no directory no"},
		{"missing plugin", []string{"--transport", "shn"}, 2, `did you mean "shm"?`},
		{"plugin of another runtime", []string{"--plugin-dir", "mixed"}, 5,
			"--allow-mixed-runtime"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			i := command(t, append(append([]string{"run"}, short...), c.args...)...)
			i.cmd.Dir = bin
			require.Equal(t, c.code, i.run(t), i.stderr.String())
			lines := strings.Split(strings.TrimSpace(i.stderr.String()), "\n")
			last := lines[len(lines)-1]
			require.True(t, strings.HasPrefix(last, "transportbench: "), last)
			require.Contains(t, last, c.stderr)
			require.Empty(t, i.results(t))
		})
	}
	i := command(t, append([]string{"run", "--allow-mixed-runtime", "--plugin-dir",
		filepath.Join(bin, "mixed")}, short...)...)
	require.Zero(t, i.run(t), i.stderr.String())
}

// begin starts a long run and returns when it prints line.
func begin(t *testing.T, line string, args ...string) *invocation {
	t.Helper()
	i := command(t, append([]string{"run", "--transport", "shm", "--warmup", "10ms", "--repeats",
		"1000"}, args...)...)
	i.cmd.Stderr = nil
	stderr, err := i.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, i.cmd.Start())
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), line) {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return i
		}
		i.stderr.WriteString(lines.Text() + "\n")
	}
	require.Fail(t, "it ended early", i.stderr.String())
	return nil
}

func TestInterrupt(t *testing.T) {
	i := begin(t, "repeat 3 of 1000", "--duration", "20ms")
	require.NoError(t, i.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, i.wait(t))
	results := i.results(t)
	require.Len(t, results, 1)
	require.True(t, results[0].Incomplete)
	require.GreaterOrEqual(t, len(results[0].Repeats), 2)
	require.Contains(t, i.stdout.String(), "incomplete: interrupted")
}

func TestSecondInterrupt(t *testing.T) {
	i := begin(t, "repeat 1 of", "--duration", "30s")
	for _, pid := range plugins() { // so a clean end takes long
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for i.cmd.Process.Signal(os.Interrupt) == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}()
	i.wait(t)
	<-gone
	status, ok := i.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled() && status.Signal() == syscall.SIGINT, "it ended with %v",
		i.cmd.ProcessState)
}

func TestKilledHost(t *testing.T) {
	i := begin(t, "repeat 1 of", "--duration", "30s")
	require.Len(t, plugins(), 2)
	require.NoError(t, i.cmd.Process.Kill())
	i.wait(t)
}

// TestKilledHostKeepsItsRepeats kills the command in its third repeat: those before are a result
// that other commands read, whether or not each had a launch of its own.
func TestKilledHostKeepsItsRepeats(t *testing.T) {
	for _, launches := range []string{"0", "1"} {
		i := begin(t, "repeat 3 of", "--launches", launches, "--duration", "100ms")
		require.NoError(t, i.cmd.Process.Kill())
		i.wait(t)
		results := i.results(t)
		require.Len(t, results, 1)
		r := results[0]
		n := len(r.Repeats) // more than two if this test had no processor
		require.GreaterOrEqual(t, n, 2)
		require.Equal(t, n, r.Summary[result.Throughput].N)
		require.NotZero(t, r.Repeats[1].Ranks[1].Clients[0].Reads)
		require.True(t, r.Incomplete)
		require.Equal(t, fmt.Sprintf("the run had not ended after %d of 1000 repeats", n),
			r.IncompleteReason)
		if launches == "1" {
			continue
		}
		for _, args := range [][]string{{"analyze"}, {"diff", i.out},
			{"report", "-o", filepath.Join(t.TempDir(), "page.html")},
			{"export", "--format", "csv"}} {
			reader := command(t, append(args, i.out)...)
			require.Contains(t, []int{0, 4, 5, 6}, reader.run(t), "%v: %s", args,
				reader.stderr.String())
			if args[0] == "analyze" {
				require.Contains(t, reader.stdout.String(), r.IncompleteReason)
			}
		}
	}
}

// TestChildrenOfPlugins checks that a daemon which a plugin starts, without environment and in its
// own session, does not outlive the command.
func TestChildrenOfPlugins(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
(env -i setsid tail -f %s/daemon </dev/null >/dev/null 2>&1 &)
exec %s/plugins/transport-shm "$@"
`, dir, bin)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "transport-shm"), []byte(script), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "daemon"), nil, 0o600))
	daemons := func() (n int) {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, path := range lines {
			if text, _ := os.ReadFile(path); strings.HasPrefix(string(text), "tail\x00-f\x00"+dir) {
				n++
			}
		}
		return n
	}
	for what, end := range map[string]func(*exec.Cmd) error{
		"interrupt": func(c *exec.Cmd) error { return c.Process.Signal(os.Interrupt) },
		"kill":      func(c *exec.Cmd) error { return c.Process.Kill() },
	} {
		t.Run(what, func(t *testing.T) {
			i := begin(t, "repeat 1 of", "--duration", "30s", "--plugin-dir", dir)
			require.NotZero(t, daemons())
			require.NoError(t, end(i.cmd))
			i.wait(t)
			require.Eventually(t, func() bool { return daemons() == 0 }, 10*time.Second,
				10*time.Millisecond)
		})
	}
}

// TestKilledPlugin kills one rank during its window. The run must end and keep
// what the other rank recorded.
func TestKilledPlugin(t *testing.T) {
	for _, topology := range topologies {
		t.Run(topology, func(t *testing.T) {
			i := begin(t, "repeat 1 of", "--duration", "30s", "--topology", topology)
			awaitWindow(t)
			require.NoError(t, syscall.Kill(plugins()[1], syscall.SIGKILL))
			require.Equal(t, 1, i.wait(t))
			results := i.results(t)
			require.Len(t, results, 1)
			require.True(t, results[0].Incomplete)
			require.Contains(t, results[0].Failure.Error, "died: signal: killed")
			ranks := results[0].FailedRepeat.Ranks
			require.Len(t, ranks, 2)
			survivor := ranks[1-results[0].Failure.Rank]
			require.NotZero(t, len(survivor.Daemons)+len(survivor.Clients))
		})
	}
}

// awaitWindow waits until each plugin has polled for a while in the window that [begin] saw
// announced: one that loses its peer before that has recorded nothing.
func awaitWindow(t *testing.T) {
	t.Helper()
	busy := func(pid int) (ns int) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		require.NoError(t, err)
		for _, path := range tasks {
			text, _ := os.ReadFile(path) // a thread may have ended
			var task int
			_, _ = fmt.Sscan(string(text), &task)
			ns += task
		}
		return ns
	}
	for _, pid := range plugins() {
		from := busy(pid)
		require.Eventually(t, func() bool { return busy(pid)-from > 1e8 }, time.Minute,
			10*time.Millisecond)
	}
}

func TestPluginsAndDoctor(t *testing.T) {
	i := command(t, "plugins", "list")
	require.Zero(t, i.run(t))
	require.Regexp(t, `(?m)^shm +\S+ +memfd.*yes`, i.stdout.String())

	i = command(t, "plugins", "show", "shm", "--json")
	require.Zero(t, i.run(t))
	var shown struct {
		Trial listing.Trial `json:"trial"`
	}
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &shown))
	require.Equal(t, listing.Trial{Provider: "memfd", Chosen: map[string]string{"ring": "inplace"},
		Reason: "inplace because one call is in flight on a connection"}, shown.Trial)
	i = command(t, "plugins", "show", "copyrpc")
	require.Zero(t, i.run(t))
	require.Regexp(t,
		`(?m)^opens: +(soft|verbs) \(provider=(soft|verbs)\), here and with the default options\nwhy: (soft|verbs) because`, i.stdout.String())

	i = command(t, "doctor", "-v")
	require.Contains(t, []int{0, 1}, i.run(t))
	require.Contains(t, i.stdout.String(), "cores")
	require.Regexp(t, `(?m)^note +auto-shm +memfd \(ring=inplace\)$`, i.stdout.String())
	require.Regexp(t, `(?m)^note: auto-copyrpc: (soft|verbs) .*\n  (soft|verbs) because`,
		i.stdout.String())
	require.NotContains(t, i.stdout.String(), "auto-calibration", "an instrument")
}
