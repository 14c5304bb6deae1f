package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest/hosts"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// faultKind is what a schedule of faults does to a run.
type faultKind string

const (
	faultKill      faultKind = "kill"      // a rank, by SIGKILL
	faultStop      faultKind = "stop"      // a rank, by SIGSTOP, until SIGCONT
	faultDelay     faultKind = "delay"     // a rank, by many short stops
	faultStarve    faultKind = "starve"    // a processor, by threads that spin on it
	faultCut       faultKind = "cut"       // the wire between two hosts
	faultInterrupt faultKind = "interrupt" // the command, by SIGINT
	faultEnd       faultKind = "end"       // the command, by SIGKILL
)

// fault is one step of a schedule.
type fault struct {
	kind     faultKind
	at, last time.Duration // since the command was started; how long it lasts
	target   int           // index of the rank or the processor, modulo their number
}

func (f fault) String() string {
	return fmt.Sprintf("%s %d at %v for %v", f.kind, f.target, f.at, f.last)
}

// schedule is a command and what happens to it. It follows from its seed alone, so a seed may
// choose a transport that cannot be built here.
type schedule struct {
	transport string
	args      []string
	sweep     bool
	repeats   int
	onHosts   bool
	faults    []fault
}

func newSchedule(seed uint64) (s schedule) {
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	s.transport = pick("shm", "copyrpc", "erpc", "tcpx", "sockets", "ucxam")
	s.repeats = 2 + r.IntN(3)
	window := 50 + r.IntN(200)
	s.args = []string{"--transport", s.transport, "--repeats", strconv.Itoa(s.repeats),
		"--duration", fmt.Sprintf("%dms", window), "--warmup", "20ms", "--verify-every", "1",
		"--topology", pick("client-server", "mesh-direct", "mesh-proxied"),
		"--value-size", pick("32", "1KiB", "100KiB"), "--keys", "256"}
	wired := s.transport == "erpc" || s.transport == "tcpx" || s.transport == "sockets"
	switch s.onHosts = wired && r.IntN(2) == 0; {
	case s.onHosts:
		s.args = append(s.args, "--launches", "1", "--ranks", "2", "--in-flight",
			pick("1", "4", "16"))
	case r.IntN(3) == 0:
		s.sweep = true
		s.args = append(s.args, "--in-flight", "1,8")
	default:
		s.args = append(s.args, "--ranks", pick("2", "3"), "--clients", pick("1", "2"),
			"--in-flight", pick("1", "4", "16"))
	}
	switch s.transport {
	case "erpc":
		s.args = append(s.args, "--set", "provider=udp", "--set", "fault-drop="+
			pick("0", "1000", "10000"),
			"--set", "fault-delay="+pick("0", "10000"))
	case "copyrpc":
		s.args = append(s.args, "--set", "provider=soft")
	}
	kinds := []faultKind{faultKill, faultKill, faultStop, faultDelay, faultStarve, faultInterrupt,
		faultEnd}
	if s.onHosts {
		kinds = []faultKind{faultKill, faultCut, faultCut, faultCut, faultStop}
	}
	for range 1 + r.IntN(3) {
		s.faults = append(s.faults, fault{kind: kinds[r.IntN(len(kinds))], target: r.IntN(8),
			at:   time.Duration(r.IntN(2500)) * time.Millisecond,
			last: time.Duration(20+r.IntN(980)) * time.Millisecond})
	}
	slices.SortFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	return s
}

// has reports whether the schedule has a fault of one of these kinds.
func (s *schedule) has(kinds ...faultKind) bool {
	return slices.ContainsFunc(s.faults,
		func(f fault) bool { return slices.Contains(kinds, f.kind) })
}

// inflict carries out a fault and returns the process that it killed, or 0.
func (f fault) inflict(i *invocation, wire *hosts.Host) (killed int, err error) {
	ranks := plugins()
	slices.Sort(ranks)
	rank := 0
	if len(ranks) > 0 {
		rank = ranks[f.target%len(ranks)]
	}
	signal := func(s syscall.Signal) bool { // false if no process got it
		return rank > 0 && syscall.Kill(rank, s) == nil
	}
	switch f.kind {
	case faultKill:
		if signal(syscall.SIGKILL) {
			killed = rank
		}
	case faultStop:
		signal(syscall.SIGSTOP)
		time.Sleep(f.last)
		signal(syscall.SIGCONT)
	case faultDelay:
		for until := time.Now().Add(f.last); time.Now().Before(until); {
			signal(syscall.SIGSTOP)
			time.Sleep(5 * time.Millisecond)
			signal(syscall.SIGCONT)
			time.Sleep(5 * time.Millisecond)
		}
	case faultStarve:
		until := time.Now().Add(f.last)
		var spinners sync.WaitGroup
		for range 3 {
			spinners.Go(func() {
				runtime.LockOSThread() // and never unlock: the thread ends with its affinity
				var one unix.CPUSet
				one.Set(f.target % runtime.NumCPU())
				_ = unix.SchedSetaffinity(0, &one)
				for time.Now().Before(until) {
				}
			})
		}
		spinners.Wait()
	case faultCut:
		if wire != nil {
			err = wire.CutWire(f.last)
		}
	case faultInterrupt:
		_ = i.cmd.Process.Signal(os.Interrupt)
	case faultEnd:
		_ = i.cmd.Process.Kill()
	}
	return killed, err
}

// longestSchedule bounds a command under faults: 10 s for a start, and as much for a call that
// hangs, several times over on a busy machine.
const longestSchedule = 2 * time.Minute

// died matches the part of a message that says which process died.
var died = regexp.MustCompile(`rank (\d+): .*\(pid (\d+)\) died: signal: killed`)

// run runs the schedule and checks what every command promises whatever happens to it.
func (s *schedule) run(t *testing.T) {
	var wire *hosts.Host
	command := command(t, "run")
	args := append([]string{"run"}, s.args...)
	if s.sweep {
		args[0] = "sweep"
	}
	if s.onHosts {
		a, b := hosts.Pair(t, hosts.Wire{})
		wire = b
		args = append(args, "--set", "address=10.77.0.0/24", "--plugin-dir",
			onHosts(t, "transport-"+s.transport, a, b))
	}
	command.cmd.Args = append(append(command.cmd.Args[:1], args...), "--out", command.out)
	require.NoError(t, command.cmd.Start())
	ended := make(chan struct{})
	var killed []int
	var fault error
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		began := time.Now()
		for _, f := range s.faults {
			select {
			case <-ended:
				return
			case <-time.After(time.Until(began.Add(f.at))):
				pid, err := f.inflict(command, wire)
				if pid > 0 {
					killed = append(killed, pid)
				}
				fault = errors.Join(fault, err)
			}
		}
	}()
	late := time.AfterFunc(longestSchedule, func() { _ = command.cmd.Process.Kill() })
	_ = command.cmd.Wait()
	inTime := late.Stop()
	close(ended)
	<-faults
	require.NoError(t, fault)
	require.True(t, inTime, "it did not end within %v:\n%s", longestSchedule,
		command.stderr.String())
	code := command.cmd.ProcessState.ExitCode()
	said := command.stderr.String()
	t.Logf("exit %d: %s", code, lastLine(said))

	require.Eventually(t, func() bool { return len(processes(t)) == 0 }, 10*time.Second,
		10*time.Millisecond, "processes are left")
	if code >= 0 {
		requireNothingLeft(t, command.tmp)
	}
	requireWholeJSON(t, command.out, code)
	var results []*result.Result
	if s.sweep {
		results = s.readSweep(t, command.out, killed)
	} else {
		results = command.results(t)
	}
	for _, r := range results {
		s.check(t, r, killed)
	}
	require.NotContains(t, said, "panic")
	require.NotContains(t, said, "goroutine ")
	switch code {
	case 0, 4: // with 4 a check failed, as in a window of which most was stopped
		for _, r := range results {
			require.False(t, r.Incomplete, "exit %d: %s", code, said)
			require.Len(t, r.Repeats, s.repeats)
		}
		require.NotEmpty(t, results)
	case 1:
		if s.sweep { // readSweep has checked the cells
			require.NotEmpty(t, killed, said)
			break
		}
		require.NotEmpty(t, killed, "nothing was killed:\n%s", said)
		requireBlame(t, lastLine(said), killed)
	case 130:
		require.True(t, s.has(faultInterrupt), said)
	case -1:
		require.True(t, s.has(faultEnd), said)
	default:
		require.Fail(t, "undocumented exit code", "%d: %s", code, said)
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// requireBlame checks that an error names a rank, and as dead no process but those that were
// killed.
func requireBlame(t *testing.T, said string, killed []int) {
	t.Helper()
	// the latter when it is asked for its description
	require.Regexp(t, `rank \d+: |plugin \w+ \(pid`, said)
	for _, m := range died.FindAllStringSubmatch(said, -1) {
		pid, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		require.Contains(t, killed, pid, said)
	}
	require.Contains(t, said, "killed", "the cause")
}

// processes returns the processes of this test's binaries.
func processes(t *testing.T) (pids []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, bin+"/") {
			pids = append(pids, link)
		}
	}
	return pids
}

// requireWholeJSON checks that every file under a directory that a reader would open is whole.
func requireWholeJSON(t *testing.T, dir string, code int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(path, ".json"):
			require.True(t, json.Valid(content), "%s is torn", path)
		case code >= 0:
			require.NotContains(t, path, ".tmp", "a temporary file is left")
		}
		return nil
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
}

// readSweep reads a sweep and checks its failed cells.
func (s *schedule) readSweep(t *testing.T, dir string, killed []int) (all []*result.Result) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "index.json")); os.IsNotExist(err) {
		return nil // it ended before its first cell
	}
	loaded, err := set.Load(dir)
	require.NoError(t, err)
	for _, c := range loaded.Cells {
		if c.Status == set.Failed {
			requireBlame(t, c.Reason, killed)
		}
		results, err := loaded.Results(&c)
		require.NoError(t, err)
		all = append(all, results...)
	}
	return all
}

// check checks a result: every response of its repeats is right, and the rank that the failure says
// died was killed.
func (s *schedule) check(t *testing.T, r *result.Result, killed []int) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == "verified" && len(r.Repeats) > 0 &&
			!strings.Contains(c.Message, "no operation was completed") {
			require.True(t, c.OK, c.Message)
		}
		if c.Name == "served" {
			require.True(t, c.OK, c.Message)
		}
	}
	if r.Failure == nil {
		return
	}
	m := died.FindStringSubmatch(fmt.Sprintf("rank %d: %s", r.Failure.Rank, r.Failure.Error))
	if m == nil {
		return
	}
	pid, err := strconv.Atoi(m[2])
	require.NoError(t, err)
	require.Contains(t, killed, pid, "%+v", r.Failure)
	for _, l := range r.Launches {
		for _, p := range l.Placement {
			require.True(t, p.PID != pid || p.Rank == r.Failure.Rank, "process %d was rank %d: %+v",
				pid, p.Rank, r.Failure)
		}
	}
}

// TestFaults inflicts random schedules of faults on the built command for FAULTTIME: ranks that are
// killed, stopped, delayed and starved, wires that are cut, and a command that is interrupted or
// killed, with all transports but grpc and ofi. FAULTSEED runs the one schedule of that seed.
func TestFaults(t *testing.T) {
	text, one := os.LookupEnv("FAULTSEED")
	first := uint64(time.Now().UnixNano() / 1e6)
	var until time.Time
	if one {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "FAULTSEED")
		first = seed
	} else {
		d, err := time.ParseDuration(os.Getenv("FAULTTIME"))
		if err != nil {
			t.Skip("FAULTTIME says for how long faults are inflicted, and FAULTSEED replays a " +
				"schedule")
		}
		until = time.Now().Add(d)
	}
	noUCXAM := buildUCXAM(t)
	counts := map[string]int{}
	for seed := first; seed == first || time.Now().Before(until); seed++ {
		s := newSchedule(seed)
		if s.onHosts {
			counts[s.transport+" between hosts"]++
		} else {
			counts[s.transport]++
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf(
						"to replay: FAULTSEED=%d go test -run '^TestFaults$' ./cmd/transportbench",
						seed)
					t.Logf("%+v", s)
				}
			}()
			if s.transport == "ucxam" && noUCXAM != nil {
				t.Skip(noUCXAM)
			}
			s.run(t)
		})
	}
	t.Logf("schedules: %v", counts)
}
