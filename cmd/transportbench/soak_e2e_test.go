package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
)

// soakWindows is how many windows a soak of a transport has.
const soakWindows = 40

// TestSoak runs windows of each transport in one launch, for SOAK_TEST_TIME, such as 1h, in all. It
// checks that what the processes hold and latency stay flat, and ends with a table for the
// documents.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK_TEST_TIME") == "" {
		t.Skip("make soak runs it")
	}
	total, err := time.ParseDuration(os.Getenv("SOAK_TEST_TIME"))
	require.NoError(t, err)
	list := linkSoak(t)
	runs := 0
	for _, plugin := range list {
		if plugin.Unavailable == "" {
			runs++
		}
	}
	share := total / time.Duration(max(runs, 1))
	table := []string{"", "| transport | process | " +
		strings.Join(append(soakColumns[:], driftColumns[:]...), " | ") + " |",
		strings.Repeat("|---", 2+len(soakColumns)+len(driftColumns)) + "|"}
	for _, plugin := range list {
		t.Run(plugin.Name, func(t *testing.T) {
			s := &soak{name: plugin.Name, seen: map[int][]holding{}, segments: map[string]bool{}}
			defer func() { table = append(table, s.rows()...) }()
			if plugin.Unavailable != "" {
				s.note = "not run: " + plugin.Unavailable
				require.NotNil(t, plugin.Description, plugin.Unavailable) // a stub describes itself
				t.Skip(plugin.Unavailable)
			}
			s.note = "failed"
			s.run(t, share)
		})
	}
	t.Log(strings.Join(table, "\n"))
}

// linkSoak links the command and all plugins of make build into a directory of bin, and returns
// what the command says of the plugins.
func linkSoak(t *testing.T) (list []listing.Plugin) {
	t.Helper()
	paths, err := filepath.Glob("../../bin/plugins/transport-*")
	require.NoError(t, err)
	require.NotEmpty(t, paths, "run make build first")
	for _, path := range append(paths, "../../bin/transportbench") {
		require.NoError(t,
			link(path, filepath.Join(bin, "soak", strings.TrimPrefix(path, "../../bin/"))))
	}
	i := soakCommand(t, "plugins", "list", "--json")
	require.Zero(t, i.run(t), i.stderr.String())
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &list))
	require.Len(t, list, len(paths))
	return list
}

// soakCommand is command with all plugins of make build.
func soakCommand(t *testing.T, args ...string) *invocation {
	t.Helper()
	i := command(t, args...)
	i.cmd.Path = filepath.Join(bin, "soak", "transportbench")
	return i
}

// soak is the soak of one transport.
type soak struct {
	name     string
	seen     map[int][]holding // by process
	segments map[string]bool   // paths of all files in /dev/shm that were mapped
	held     []held
	drift    [len(driftMetrics)]string
	note     string // why there are no rows
}

// held is what a process held in the first and in the last quarter of a soak.
type held struct {
	process     string
	first, last holding
}

// The columns of a holding.
const (
	heldMemory = iota
	heldDescriptors
	heldSockets
	heldThreads
	heldMemfds
	heldFiles
	heldSystemV
)

var soakColumns = [...]string{
	heldMemory: "memory, KiB", heldDescriptors: "descriptors", heldSockets: "sockets",
	heldThreads: "threads",
	heldMemfds:  "memfds mapped", heldFiles: "files of /dev/shm mapped",
	heldSystemV: "System V segments",
}

// driftColumns are the columns of driftMetrics.
var (
	driftMetrics = [...]string{result.Throughput, "latency_p50", result.OpTimeRatio}
	driftColumns = [len(driftMetrics)]string{"throughput", "p50", "time per operation over floor"}
)

// holding is what a process holds.
type holding [len(soakColumns)]int

// run runs the transport for a time and watches its processes.
func (s *soak) run(t *testing.T, total time.Duration) {
	t.Helper()
	window := max(total/soakWindows, 100*time.Millisecond)
	i := soakCommand(t, "run", "--transport", s.name, "--in-flight", "8", "--launches", "1",
		"--repeats", fmt.Sprint(soakWindows), "--duration", window.String())
	require.NoError(t, i.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = i.cmd.Wait() // its exit code is checked below
	}()
	// a transport must not keep the others from their soak
	hung := time.After(4*total + 5*time.Minute)
	for watching := true; watching; {
		select {
		case <-ended:
			watching = false
		case <-hung:
			t.Errorf("%s has not ended after %v", s.name, 4*total+5*time.Minute)
			require.NoError(t, i.cmd.Process.Signal(syscall.SIGTERM))
		case <-time.After(total / 200):
			for _, pid := range running("/soak/") {
				s.watch(pid)
			}
		}
	}
	// With 4 a check failed, as that of quiet windows on a busy machine.
	require.Contains(t, []int{0, 4}, i.cmd.ProcessState.ExitCode(), i.stderr.String())
	all := i.results(t)
	require.Len(t, all, 1, i.stderr.String())
	s.summarize(all[0], i.cmd.Process.Pid)

	require.Empty(t, plugins())
	requireNothingLeft(t, i.tmp)
	s.requireNoSegments(t)
	require.Len(t, all[0].Repeats, soakWindows)
	requireVerified(t, all[0])
	var names []string
	for _, h := range s.held {
		names = append(names, h.process)
		was, is := h.first, h.last
		assert.Less(t, is[heldMemory], was[heldMemory]+was[heldMemory]/10+8<<10,
			"KiB of memory of the %s", h.process)
		assert.LessOrEqual(t, is[heldDescriptors], was[heldDescriptors]+1, "descriptors of the %s",
			h.process)
		assert.LessOrEqual(t, is[heldSockets], was[heldSockets]+1, "sockets of the %s", h.process)
		// Go starts a thread when all others are in system calls, and keeps it.
		assert.LessOrEqual(t, is[heldThreads], was[heldThreads]+3, "threads of the %s", h.process)
		for _, kind := range []int{heldMemfds, heldFiles, heldSystemV} {
			assert.LessOrEqual(t, is[kind], was[kind], "%s: %s", h.process, soakColumns[kind])
		}
	}
	require.Equal(t, []string{"command", "keeper", "rank 0", "rank 1"}, names)
	requireFlatLatency(t, all[0].Repeats)
}

// watch notes what a process holds, unless it has ended.
func (s *soak) watch(pid int) {
	sum, err := footprintOf(pid)
	if err != nil {
		return
	}
	var now holding
	now[heldMemory], now[heldDescriptors], now[heldThreads] = sum.memory, sum.descriptors,
		sum.threads
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
	for _, descriptor := range descriptors {
		if target, _ := os.Readlink(descriptor); strings.HasPrefix(target, "socket:") {
			now[heldSockets]++
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return
	}
	counted := map[string]bool{} // by device and inode: a segment may be mapped several times
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line) // addresses, access, offset, device, inode, path
		if len(fields) < 6 || counted[fields[3]+" "+fields[4]] {
			continue
		}
		for kind, prefix := range map[int]string{heldMemfds: "/memfd:", heldFiles: "/dev/shm/",
			heldSystemV: "/SYSV"} {
			if strings.HasPrefix(fields[5], prefix) {
				counted[fields[3]+" "+fields[4]] = true
				now[kind]++
			}
		}
		if strings.HasPrefix(fields[5], "/dev/shm/") {
			s.segments[fields[5]] = true
		}
	}
	s.seen[pid] = append(s.seen[pid], now)
}

// summarize compares the last quarter with the first.
func (s *soak) summarize(r *result.Result, command int) {
	s.name += " (" + r.Plugin.Provider + ")"
	names := map[int]string{command: "command"}
	for _, rank := range r.Launches[0].Placement {
		names[rank.PID] = fmt.Sprintf("rank %d", rank.Rank)
	}
	for pid, list := range s.seen {
		if len(list) < 40 {
			continue // asked for its description only
		}
		name, known := names[pid]
		if !known {
			name = "keeper"
		}
		// The first windows touch memory for the first time; the end closes.
		first, last := quarters(list[len(list)/5 : len(list)*19/20])
		s.held = append(s.held, held{name, minimum(first), minimum(last)})
	}
	slices.SortFunc(s.held, func(a, b held) int { return strings.Compare(a.process, b.process) })
	for i, metric := range driftMetrics {
		s.drift[i] = driftOf(r.Repeats, metric)
	}
}

// requireNoSegments checks that no shared memory of the processes is left.
func (s *soak) requireNoSegments(t *testing.T) {
	t.Helper()
	for path := range s.segments {
		require.NoFileExists(t, path)
	}
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	if os.IsNotExist(err) {
		return // a kernel without System V segments
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(segments)) {
		var key, id, access, size, creator int
		if n, _ := fmt.Sscan(line, &key, &id, &access, &size, &creator); n == 5 {
			require.NotContains(t, s.seen, creator, "the System V segment %d is left", id)
		}
	}
}

// rows returns the rows of the table.
func (s *soak) rows() (rows []string) {
	for n, h := range s.held {
		row := fmt.Sprintf("| %s | %s |", s.name, h.process)
		for kind := range soakColumns {
			row += " " + change(h.first[kind], h.last[kind]) + " |"
		}
		drift := s.drift
		if n > 0 {
			drift = [len(driftMetrics)]string{} // it is that of the run
		}
		rows = append(rows, row+" "+strings.Join(drift[:], " | ")+" |")
	}
	if len(rows) == 0 {
		return []string{fmt.Sprintf("| %s | %s |", s.name, s.note)}
	}
	return rows
}

// change formats two readings.
func change(was, is int) string {
	if was == is {
		return fmt.Sprint(is)
	}
	return fmt.Sprintf("%d to %d", was, is)
}

// driftOf returns by how much the median of a metric in the last quarter of windows differs from
// that in the first, in each state of the machine that both have windows of.
func driftOf(windows []result.Repeat, metric string) string {
	of := stateOf(windows)
	byState := func(windows []result.Repeat) map[string][]float64 {
		values := map[string][]float64{}
		for _, w := range windows {
			if value, has := w.Samples[metric]; has {
				values[of(w)] = append(values[of(w)], value)
			}
		}
		return values
	}
	first, last := quarters(windows)
	was, is := byState(first), byState(last)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if len(is[name]) == 0 {
			continue
		}
		text := fmt.Sprintf("%+.1f%%", 100*(median(is[name])/median(was[name])-1))
		if name != "" {
			text = fmt.Sprintf("%s: %s of %d and %d", name, text, len(was[name]), len(is[name]))
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return "no state in common"
	}
	return strings.Join(list, ", ")
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// stateOf returns a function that maps a window to the machine's state: on a virtual machine
// processors may be near each other in some windows and far in others.
func stateOf(windows []result.Repeat) func(result.Repeat) string {
	var distances []float64
	for _, w := range windows {
		distances = append(distances, w.Before.CoreDistance, w.After.CoreDistance)
	}
	states := state.Find(distances)
	return func(w result.Repeat) string {
		return states.Of(w.Before.CoreDistance, w.After.CoreDistance)
	}
}

// requireFlatLatency compares the last quarter of windows with the first, in each state of the
// machine that both have windows of. The fastest of a state counts, because other programs slow the
// rest. Without a state in common the bound is wide enough for any two states.
func requireFlatLatency(t *testing.T, windows []result.Repeat) {
	t.Helper()
	of := stateOf(windows)
	fastestOf := func(windows []result.Repeat) map[string]float64 {
		p50 := map[string]float64{}
		for _, w := range windows {
			name, now := of(w), w.Samples["latency_p50"]
			if was, has := p50[name]; !has || now < was {
				p50[name] = now
			}
		}
		return p50
	}
	first, last := quarters(windows)
	was, is := fastestOf(first), fastestOf(last)
	t.Logf("p50 in ns by state: %v to %v", was, is)
	compared := false
	for name := range was {
		if _, both := is[name]; both && name != state.Mixed {
			require.Less(t, is[name], 1.5*was[name], "p50 in ns, state %q", name)
			compared = true
		}
	}
	if !compared {
		fastest := func(p50 map[string]float64) float64 {
			return slices.Min(slices.Collect(maps.Values(p50)))
		}
		require.Less(t, fastest(is), 3*fastest(was), "p50 in ns, no state in common")
	}
}

// quarters returns the first and the last quarter of a list.
func quarters[T any](list []T) (first, last []T) {
	return list[:len(list)/4], list[len(list)-len(list)/4:]
}

// minimum returns the minimum of each column.
func minimum(list []holding) holding {
	low := list[0]
	for _, now := range list {
		for kind := range low {
			low[kind] = min(low[kind], now[kind])
		}
	}
	return low
}
