package shmperf

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) {
	if Child() {
		return
	}
	if fabrictest.RunChild(map[string]fabrictest.Role{victimRole: victim}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// skipUnderRace skips a test if the race detector is on: it sees neither the memory of a
// measurement nor other processes, and takes most of the time.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if fabrictest.Race {
		t.Skip("the race detector does not see mapped memory: go test without -race runs it")
	}
}

func parse(options map[string]string) (Options, error) {
	v, err := transport.ParseOptions(Schema, options)
	if err != nil {
		return Options{}, err
	}
	return ParseOptions(v, 2*time.Millisecond)
}

func TestParseOptions(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, Options{Duration: 2 * time.Millisecond,
		Segments: []int{1, 10, 100, 1000, 10000}, SegmentSize: 64 << 20,
		Allocations: []int{4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30},
		Transfers:   []int{4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20}}, o)
	o, err = parse(map[string]string{"segments": "7, 9", "segment-size": "1GiB"})
	require.NoError(t, err)
	require.Equal(t, []int{7, 9}, o.Segments)
	require.Equal(t, 1<<30, o.SegmentSize)
	for option, wrong := range map[string][2]string{
		"segments":     {"10,x", `"x" is not a number from 1 to`},
		"segment-size": {"96KiB", "96KiB is no power of two"},
		"allocations":  {"1KiB", `"1KiB" is not a size from 4KiB to`},
		"transfers":    {"100", "100 is no multiple of 64"},
	} {
		_, err := parse(map[string]string{option: wrong[0]})
		require.ErrorContains(t, err, option)
		require.ErrorContains(t, err, wrong[1])
	}
	_, err = parse(map[string]string{"segment-size": "1GiB", "segments": "100000"})
	require.ErrorContains(t, err, "100000 segments of 1GiB do not fit into an address space")
}

// readings runs one benchmark with short windows.
func readings(t *testing.T, name string,
	options map[string]string) map[string]transport.Measurement {
	t.Helper()
	skipUnderRace(t)
	o, err := parse(options)
	require.NoError(t, err)
	all := map[string]transport.Measurement{}
	err = Run(t.Context(), o, func(n string) bool { return n == name },
		func(m transport.Measurement) error {
			key := fmt.Sprintf("%s %d", m.Name, m.Size)
			require.NotContains(t, all, key)
			if m.Baseline != "" {
				require.Contains(t, all, fmt.Sprintf("%s %d", m.Baseline, m.Size),
					"the baseline of %s",
					key)
			}
			if m.Note != "" {
				if m.Name == "spsc/"+demoted {
					require.False(t, demotes(), m.Note)
				} else {
					require.Equal(t, freeHugePages() == 0, strings.HasSuffix(m.Name, "/hugepages"),
						m.Note)
				}
				require.Zero(t, m.Samples, key)
				return nil
			}
			require.Positive(t, m.Samples, key)
			all[key] = m
			return nil
		})
	require.NoError(t, err)
	return all
}

func TestAllocate(t *testing.T) {
	sizes := []int{4 << 10, 64 << 10}
	dir := filepath.Join(shm.NamedDir, fmt.Sprintf("transportbench-test-%d", os.Getpid()))
	require.NoError(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() { require.NoError(t, os.Remove(dir), "no segment is left") })
	t.Setenv(shm.EnvDir, dir)
	all := readings(t, "allocate", map[string]string{"allocations": "4KiB,64KiB"})
	for _, size := range sizes {
		sum := 0.0
		for _, step := range stepNames {
			m := all[fmt.Sprintf("allocate/memfd/%s %d", step, size)]
			require.Positive(t, m.Latency, step)
			if m.LatencyP99 > 0 {
				require.GreaterOrEqual(t, m.LatencyP99, m.Latency, step)
			}
			sum += m.Latency
		}
		life := all[fmt.Sprintf("allocate/memfd/life %d", size)]
		made := all[fmt.Sprintf("allocate/memfd/make %d", size)]
		require.Greater(t, life.Latency, made.Latency)
		require.Positive(t, sum)
		require.Contains(t, all, fmt.Sprintf("allocate/dev-shm/unlink %d", size))
		for _, kind := range []string{"bump", "size-classes"} {
			require.Positive(t, all[fmt.Sprintf("allocate/arena/%s %d", kind, size)].Latency, kind)
		}
	}
}

func TestLookup(t *testing.T) {
	all := readings(t, "lookup", map[string]string{"segments": "1,1000", "segment-size": "4KiB"})
	require.Len(t, all, 2*2*4)
	for name, m := range all {
		require.Positive(t, m.Latency, name)
	}
}

// Mappings do not overlap, are apart by a page at least, and are in no order of their addresses.
func TestSegments(t *testing.T) {
	const segmentSize = 1 << 20
	list := drawSegments(1000, segmentSize, rand.New(rand.NewPCG(1, 2))).at
	less := func(i, j int) bool { return list[i].remote < list[j].remote }
	require.False(t, sort.SliceIsSorted(list, less))
	sort.Slice(list, less)
	for i := range list[1:] {
		require.GreaterOrEqual(t, list[i+1].remote-list[i].remote, uint64(segmentSize+pageSize))
		require.Zero(t, list[i].remote%pageSize)
	}
}

// Every way finds the same as the others, in segments, at their ends and beside them.
func TestFinders(t *testing.T) {
	const segmentSize = 1 << 20
	for _, count := range []int{1, 2, 1000} {
		random := rand.New(rand.NewPCG(uint64(count), 3))
		list := drawSegments(count, segmentSize, random)
		queries := append(list.queries(true, random), list.queries(false, random)...)
		for i, s := range list.at {
			for _, offset := range []uint64{0, segmentSize - 1} {
				queries = append(queries,
					query{s.remote + offset, uint64(i), offset, s.local + offset, true})
			}
			queries = append(queries,
				query{address: s.remote - 1, segment: uint64(count)},
				query{address: s.remote + segmentSize, segment: uint64(i), offset: segmentSize})
		}
		names, find := list.finders()
		for i := range find {
			for _, q := range queries {
				require.NoError(t, q.check(find[i](&q)), names[i])
			}
		}
	}
}

// A finder that finds nothing, or something else, is an error.
func TestLookupChecks(t *testing.T) {
	b := &bench{Options: Options{Duration: time.Millisecond}, ctx: t.Context()}
	random := rand.New(rand.NewPCG(1, 2))
	list := drawSegments(10, 1<<20, random)
	for _, hit := range []bool{true, false} {
		_, err := b.find(func(q *query) (uint64, bool) { return q.local + 1, true },
			list.queries(hit, random))
		require.ErrorContains(t, err, "(found: true), want")
	}
	_, err := b.find(func(*query) (uint64, bool) { return 0, false }, list.queries(true, random))
	require.ErrorContains(t, err, "(found: false), want")
}

func TestTransfer(t *testing.T) {
	all := readings(t, "transfer", map[string]string{"transfers": "4KiB,256KiB"})
	for _, size := range []int{4 << 10, 256 << 10} {
		for _, mode := range transferModes {
			if mode.nontemporal && !nontemporal {
				continue
			}
			m := all[fmt.Sprintf("transfer/%s %d", mode.name, size)]
			require.Positive(t, m.Latency, mode.name)
			require.Equal(t, mode.in || mode.out, m.Bandwidth > 0, mode.name)
		}
		for _, name := range []string{"memcpy", "read"} {
			require.Positive(t, all[fmt.Sprintf("transfer/%s %d", name, size)].Bandwidth, name)
		}
	}
}

func TestCopies(t *testing.T) {
	segment, err := shm.Create("shmperf-test", 8192, shm.Memfd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, segment.Close()) })
	memory := segment.Bytes()
	src, dst := memory[:4096], memory[4096:]
	fillPayload(src, 7)
	copyAround(dst, src)
	require.NoError(t, checkWhole(dst, 7))
	require.ErrorContains(t, checkWhole(dst, 8), "at offset 0")
	dst[4088]++
	require.ErrorContains(t, checkWhole(dst, 7), "at offset 4088")
	stampPayload(dst, 9)
	require.NoError(t, checkStamp(dst, 9))
	dst[4095]++
	require.ErrorContains(t, checkStamp(dst, 9), "transfer 9")
	readLines(src)
}

func TestSPSC(t *testing.T) {
	all := readings(t, "spsc", nil)
	require.Len(t, all, 3*len(variants())*2)
	for name, m := range all {
		require.Positive(t, m.Rate, name)
		require.Positive(t, m.Floor, name)
		require.Equal(t, strings.Contains(name, "call-1/"), m.Latency > 0, name)
	}
}

// A profiler of the process takes one reading.
func TestOneReading(t *testing.T) {
	for _, name := range []string{"spsc/lamport/stream/threads", "mesh/mpsc/notify/2-threads"} {
		benchmark, _, _ := strings.Cut(name, "/")
		all := readings(t, benchmark, map[string]string{"reading": name})
		require.Len(t, all, 1)
		require.Contains(t, all, name+" 32")
	}
	o, err := parse(map[string]string{"reading": "spsc/lamprot"})
	require.NoError(t, err)
	err = Run(t.Context(), o, func(name string) bool {
		return name == "spsc" ||
			name == "transfer"
	},
		func(transport.Measurement) error { return nil })
	require.ErrorContains(t, err, `no reading has a name that begins with "spsc/lamprot"`)
	all := readings(t, "spsc", map[string]string{"reading": "spsc/" + demoted + "/stream/threads"})
	require.Equal(t, demotes(), len(all) == 1, "else there is a note")
}

func TestMesh(t *testing.T) {
	all := readings(t, "mesh", nil)
	require.Len(t, all, 2*3*3+2*3*2+2*(len(variants())-1))
	require.Contains(t, all, "mesh/rings-lamport/call-reply/4-processes 32")
	for name, m := range all {
		require.Positive(t, m.Rate, name)
	}
}

// The first message after each Publish is demoted, and all arrive.
func TestDemote(t *testing.T) {
	g := ring.Geometry{Slots: 4}
	segment, err := shm.Create("shmperf-test", g.Bytes(), shm.Memfd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, segment.Close()) })
	memory := segment.Bytes()
	p, err := newProducer(memory, demoted, g)
	require.NoError(t, err)
	var offsets []int
	p.(*demotingProducer).demote = func(line *byte) {
		for i := range memory {
			if &memory[i] == line {
				offsets = append(offsets, i)
			}
		}
		demoteLine(line) // does no harm on any processor
	}
	c, err := newConsumer(memory, demoted, g)
	require.NoError(t, err)
	for token := range uint64(7) {
		require.NoError(t, p.Push(ring.KindA, token, nil))
		if token%3 == 2 {
			p.Publish()
		}
		var m ring.Message
		ok, err := c.Pop(&m)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, token, m.Token)
		c.Release()
	}
	require.Equal(t, []int{g.SlotOffset(0), g.SlotOffset(3), g.SlotOffset(6)}, offsets)
	require.Equal(t, g.SlotOffset(2), g.SlotOffset(6), "the same slot, a lap later")
}

// A mesh refuses messages that are out of order, from nobody, or from the node itself.
func TestMeshChecks(t *testing.T) {
	s := newMeshSide(&job{Nodes: 2, Node: 0}, nil)
	require.NoError(t, s.handle(meshMessage{from: 1, token: 0}))
	require.ErrorContains(t, s.handle(meshMessage{from: 1, token: 0}),
		"message 0 from node 1, want 1")
	require.ErrorContains(t, s.handle(meshMessage{from: 1, token: 2}), "want 1")
	require.ErrorContains(t, s.handle(meshMessage{from: 0, token: 0}), "from node 0 of 2")
	require.ErrorContains(t, s.handle(meshMessage{from: 2, token: 0}), "from node 2 of 2")
	require.ErrorContains(t, checkPayload(make([]byte, meshPayload), 1), "wrong payload")
	require.EqualValues(t, 1, s.done)
}

// A node that dies ends the measurement with an error that names it, and the others end.
func TestNodeThatDies(t *testing.T) {
	works["die"] = func(n *node) error {
		if n.Node == 0 {
			return n.window(func() (uint64, error) { n.idle(); return 0, nil })
		}
		return errors.New("out of order")
	}
	t.Cleanup(func() { delete(works, "die") })
	b := &bench{Options: Options{Duration: time.Minute}, ctx: t.Context(), cpus: []int{0}}
	_, err := b.team(job{Work: "die", Nodes: 2}, threads)
	require.ErrorContains(t, err, "out of order")
}

func TestCancelled(t *testing.T) {
	for _, where := range []between{threads, processes} {
		ctx, cancel := context.WithCancel(t.Context())
		b := &bench{Options: Options{Duration: time.Hour}, ctx: ctx, cpus: []int{0}}
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err := b.team(job{Work: "stream", Variant: "lamport", Nodes: 2,
			Body: 2 * spscGeometry.Bytes()}, where)
		require.ErrorIs(t, err, context.Canceled)
	}
}

const victimRole = "victim"

// victim measures between processes until it is killed.
func victim(*fabrictest.Parent) error {
	b := &bench{Options: Options{Duration: time.Hour}, ctx: context.Background(), cpus: []int{0}}
	_, err := b.team(job{Work: "stream", Variant: "lamport", Nodes: 3,
		Body: 2 * spscGeometry.Bytes()}, processes)
	return err
}

// The nodes of a process that is killed end with it.
func TestKilled(t *testing.T) {
	c := fabrictest.Start(t, victimRole, nil)
	nodes := func() []string { return processesWith(t, c.PID) }
	var seen []string
	require.Eventually(t, func() bool { seen = nodes(); return len(seen) == 2 }, 20*time.Second,
		time.Millisecond)
	c.Kill()
	require.Eventually(t, func() bool {
		for _, pid := range seen {
			if status, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil &&
				!strings.Contains(string(status), ") Z") {
				return false
			}
		}
		return true
	}, 20*time.Second, time.Millisecond)
}

// processesWith returns the children of a process.
func processesWith(t *testing.T, parent int) (children []string) {
	t.Helper()
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		children = append(children, strings.Fields(string(text))...)
	}
	return children
}
