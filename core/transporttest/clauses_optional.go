package transporttest

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

var statsClauses = []clause{
	{name: "stats/names", run: statsNames, needs: []need{needsStats},
		says: "The counters have distinct names, help and known meanings, the same each time."},
	{name: "stats/append", run: statsAppend, needs: []need{needsStats},
		says: "ReadStats appends to its argument."},
	{name: "stats/grow", run: statsGrow, needs: []need{needsStats},
		says: "The values never decrease."},
	{name: "stats/work", run: statsWork, needs: []need{needsStats},
		says: "Counters of work agree: copies have bytes, bytes pass through the kernel in " +
			"system calls, and every payload is copied by Post or by the kernel."},
}

var pathClauses = []clause{
	{name: "path/stated", run: pathStated, needs: []need{needsPaths},
		says: "ReadPaths appends the paths of a worker that has made calls, each with " +
			"its carrier."},
	{name: "path/silence", run: pathSilence, needs: []need{needsPaths},
		says: "Silence returns nil for a peer that answers."},
}

var seriesClauses = []clause{
	{name: "series/values", run: seriesValues, needs: []need{needsRecorder},
		says: "A recording has series with distinct names, help, and one finite value for " +
			"each part."},
	{name: "series/restart", run: seriesRestart, needs: []need{needsRecorder},
		says: "ReadRecording returns nothing before StartRecording, and only the recording since " +
			"the last one."},
}

var traceClauses = []clause{
	{name: "trace/steps", run: traceSteps, needs: []need{needsTraces},
		says: "A recording has the transfers since StartRecording, as many as that asked for, " +
			"with their connection, and steps in the order of time."},
}

var microClauses = []clause{
	{name: "micro/names", run: microNames, needs: []need{needsMicro},
		says: "Microbenchmarks have distinct names, the same each time, and only wanted ones run."},
}

var probeClauses = []clause{
	{name: "probe/reading", run: probeReading, needs: []need{needsProber},
		says: "The initiator of a probe returns the reading, and the other side a zero Floor."},
	{name: "probe/alone", run: probeAlone, needs: []need{needsProber},
		says: "A probe whose peer does not take part ends with its context and returns an error. " +
			"Until then it sleeps now and then."},
	{name: "probe/unknown", run: probeUnknown, needs: []need{needsProber},
		says: "A probe of a kind that the worker cannot measure returns ErrUnsupported without " +
			"waiting."},
	{name: "probe/then-calls", run: probeThenCalls, needs: []need{needsProber},
		says: "A probe does not disturb later calls."},
}

func (n *node) stats() []transport.Stat {
	return n.worker.(transport.StatsReader).ReadStats(nil)
}

func statsNames(t *trial) {
	c, a, _ := t.pair(layout{})
	before := a.stats()
	seen := map[string]bool{}
	for _, s := range before {
		require.NotEmpty(t, s.Name, "a counter's name")
		require.False(t, seen[s.Name], "counter %q is there twice", s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Help, "the help of counter %q", s.Name)
		require.Contains(t, []transport.Meaning{"", transport.MeansShortage,
			transport.MeansRetransmission, transport.MeansStranger}, s.Means,
			"the meaning of counter %q", s.Name)
	}
	a.call(0, pattern(1, 16))
	c.drain()
	after := a.stats()
	require.Len(t, after, len(before), "counters after a call")
	for i, s := range after {
		require.Equal(t, before[i].Name, s.Name, "the name of counter %d", i)
		require.Equal(t, before[i].Help, s.Help, "the help of counter %q", s.Name)
	}
}

func statsAppend(t *trial) {
	_, a, _ := t.pair(layout{})
	first := transport.Stat{Name: "first", Help: "not the transport's", Value: 7}
	both := a.worker.(transport.StatsReader).ReadStats([]transport.Stat{first})
	require.NotEmpty(t, both)
	require.Equal(t, first, both[0], "the argument of ReadStats")
	require.Len(t, both, 1+len(a.stats()), "counters appended to one")
}

func statsGrow(t *trial) {
	c, a, _ := t.pair(layout{})
	last := a.stats()
	for i := range uint64(20) {
		a.call(0, pattern(i, c.layout.maxPayload)) // some have series of large messages only
		c.drain()
		for range 2 { // reading changes nothing
			now := a.stats()
			for k, s := range now {
				require.GreaterOrEqual(t, s.Value, last[k].Value, "the value of counter %q", s.Name)
			}
			last = now
		}
	}
}

// workStats are the counters of work.
var workStats = []string{transport.StatCopies, transport.StatCopiedBytes,
	transport.StatChecksummedBytes, transport.StatSyscalls, transport.StatKernelBytes,
	transport.StatDoorbells, transport.StatHelperThreads}

// statsWork checks the counters of work, if there are any, over a number of echoed calls.
func statsWork(t *trial) {
	c, a, b := t.pair(layout{maxPayload: 1024})
	work := func() map[string]uint64 {
		sum := map[string]uint64{}
		for _, n := range []*node{a, b} {
			for _, s := range n.stats() {
				if slices.Contains(workStats, s.Name) {
					sum[s.Name] += s.Value
					require.Equal(t, s.Name == transport.StatHelperThreads, s.Level,
						"whether counter %q is a level", s.Name)
				}
			}
		}
		return sum
	}
	before := work()
	posted := uint64(0)
	for i := range uint64(20) {
		payload := pattern(i, min(1024, c.layout.maxPayload))
		a.call(0, payload)
		c.drain()
		posted += 2 * uint64(len(payload)) // the request and its echo
	}
	after := work()
	grown := func(name string) uint64 { return after[name] - before[name] }
	if _, counts := after[transport.StatCopies]; !counts {
		return
	}
	copies, copied, kernel := grown(transport.StatCopies), grown(transport.StatCopiedBytes),
		grown(transport.StatKernelBytes)
	require.GreaterOrEqual(t, copied, copies, "%s, of %d %s", transport.StatCopiedBytes, copies,
		transport.StatCopies)
	require.False(t, copies == 0 && copied > 0, "%d %s without %s", copied,
		transport.StatCopiedBytes, transport.StatCopies)
	require.GreaterOrEqual(t, copied+kernel, posted,
		"%s and %s of %d bytes that Post took, and has to copy", transport.StatCopiedBytes,
		transport.StatKernelBytes, posted)
	calls := grown(transport.StatSyscalls)
	if kernel > 0 {
		require.Positive(t, calls, "%s, which copied %d bytes", transport.StatSyscalls, kernel)
	}
	switch p := t.traits.properties; {
	case p.Uncounted != "":
	case p.Medium == transport.MediumUDP || p.Medium == transport.MediumTCP:
		require.GreaterOrEqual(t, kernel, posted, "%s of a socket, which copies all that is sent",
			transport.StatKernelBytes)
	case p.Medium == transport.MediumMemory: // the workers of this clause poll, and never sleep
		require.Zero(t, calls, "%s of workers that spin on shared memory", transport.StatSyscalls)
	}
}

func pathStated(t *trial) {
	c, a, b := t.pair(layout{})
	a.call(0, pattern(1, 16))
	c.drain()
	for _, n := range []*node{a, b} {
		first := transport.Path{Carrier: "first"}
		paths := n.worker.(transport.PathReader).ReadPaths([]transport.Path{first})
		require.Equal(t, first, paths[0], "the argument of ReadPaths")
		require.Greater(t, len(paths), 1, "paths of a worker that has made calls")
		for _, p := range paths {
			require.NotEmpty(t, p.Carrier, "the carrier of a path")
			require.GreaterOrEqual(t, p.Overhead, 0, "the overhead of a path")
		}
	}
}

func pathSilence(t *trial) {
	c, a, b := t.pair(layout{})
	for i := range uint64(3) {
		a.call(0, pattern(i, 16))
		b.call(0, pattern(i, 16))
		c.drain()
		for _, n := range []*node{a, b} {
			require.NoError(t, n.worker.(transport.PathReader).Silence(0),
				"Silence of a peer that answers")
		}
	}
}

func (n *node) record(parts, transfers int) {
	n.worker.(transport.Recorder).StartRecording(transport.Recording{
		Parts: parts, Window: time.Minute, // nothing is left out, however busy the machine
		Transfers: transfers,
	})
}

func (n *node) recorded() transport.Recorded {
	return n.worker.(transport.Recorder).ReadRecording()
}

func seriesValues(t *trial) {
	c, a, _ := t.pair(layout{})
	const parts = 7
	a.record(parts, 0)
	for i := range uint64(20) {
		a.call(0, pattern(i, c.layout.maxPayload)) // some have series of large messages only
		c.drain()
	}
	list := a.recorded().Series
	require.NotEmpty(t, list, "series after StartRecording")
	seen := map[string]bool{}
	for _, s := range list {
		require.NotEmpty(t, s.Name, "a series' name")
		require.False(t, seen[s.Name], "series %q is there twice", s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Help, "the help of series %q", s.Name)
		require.Len(t, s.Values, parts, "the values of series %q", s.Name)
		for _, v := range s.Values {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "series %q has the value %v",
				s.Name, v)
		}
	}
}

func seriesRestart(t *trial) {
	c, a, _ := t.pair(layout{})
	a.call(0, pattern(1, 16))
	c.drain()
	require.Empty(t, a.recorded().Series, "series before StartRecording")
	for _, parts := range []int{3, 5} {
		a.record(parts, 0)
		a.call(0, pattern(2, 16))
		c.drain()
		for _, s := range a.recorded().Series {
			require.Len(t, s.Values, parts, "the values of series %q since the last StartRecording",
				s.Name)
		}
	}
}

func traceSteps(t *trial) {
	c, a, _ := t.pair(layout{})
	calls := func(n int) {
		for i := range n {
			a.call(0, pattern(uint64(i), c.layout.maxPayload)) // some trace large messages only
			c.drain()
		}
	}
	calls(1)
	require.Empty(t, a.recorded().Transfers, "transfers before StartRecording")
	for _, limit := range []int{3, 1} {
		a.record(1, limit)
		began := time.Now().UnixNano()
		calls(2 * limit)
		list := a.recorded().Transfers
		require.Len(t, list, limit, "transfers since StartRecording")
		for _, one := range list {
			require.Zero(t, one.Peer, "the peer of a transfer")
			require.NotEmpty(t, one.Lane, "the lane of a transfer")
			require.GreaterOrEqual(t, one.Size, 0, "the size of a transfer")
			require.NotEmpty(t, one.Steps, "the steps of a transfer")
			last := int64(0)
			for _, s := range one.Steps {
				require.NotEmpty(t, s.Name, "the name of a step")
				require.GreaterOrEqual(t, s.Begin, last,
					"the beginning of a step after that of the last")
				last = s.Begin
			}
			require.GreaterOrEqual(t, one.End, max(last, began), "the end of a transfer")
		}
	}
}

func microNames(t *trial) {
	driver := t.suite.Driver.(transport.Microbenchmarker)
	names := driver.Microbenchmarks()
	require.NotEmpty(t, names, "the microbenchmarks")
	require.Equal(t, names, driver.Microbenchmarks(), "the second Microbenchmarks")
	for i, name := range names {
		require.NotEmpty(t, name, "a microbenchmark's name")
		require.NotContains(t, names[:i], name, "two microbenchmarks with one name")
	}
	if layer := t.traits.info.Layer; layer != "" {
		require.Contains(t, names, layer, "Info.Layer")
	}
	options, err := transport.ParseOptions(t.traits.info.AllMicroOptions(), t.suite.Options)
	require.NoError(t, err, "parsing Suite.Options")
	var asked []string
	err = driver.Microbenchmark(t.Context(), options, func(name string) bool {
		asked = append(asked, name)
		return false
	}, time.Millisecond, func(m transport.Measurement) error {
		t.Fatalf("microbenchmark %q ran, but was not wanted", m.Name)
		return nil
	})
	if !errors.Is(err, transport.ErrUnavailable) {
		require.NoError(t, err, "Microbenchmark without wanted measurements")
		require.Subset(t, names, asked, "the names passed to wanted")
	}
}

var probeKinds = []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate,
	transport.ProbeLibrary}

func (n *node) probe(ctx context.Context, kind transport.ProbeKind, initiate bool,
	d time.Duration) (transport.Floor, error) {
	return n.worker.(transport.Prober).Probe(ctx, 0, transport.Probe{
		Kind: kind, Initiate: initiate, Duration: d, Forth: 16, Back: 300, InFlight: 8})
}

// probeBoth takes a probe of each kind between two nodes that are peer 0 of each other, and returns
// the kinds that they support.
func probeBoth(t *trial, initiator, other *node) (supported []transport.ProbeKind) {
	for _, kind := range probeKinds {
		var reading, answer transport.Floor
		var errs [2]error
		t.Parallel(
			func() {
				reading, errs[0] = initiator.probe(t.Context(), kind, true,
					5*time.Millisecond)
			},
			func() { answer, errs[1] = other.probe(t.Context(), kind, false, 5*time.Millisecond) })
		if errors.Is(errs[0], transport.ErrUnsupported) &&
			errors.Is(errs[1], transport.ErrUnsupported) {
			continue
		}
		supported = append(supported, kind)
		require.NoError(t, errs[0], "Probe of the initiator (%s)", kind)
		require.NoError(t, errs[1], "Probe of the other side (%s)", kind)
		require.NotEmpty(t, reading.Name, "Floor.Name (%s)", kind)
		if kind == transport.ProbeRate {
			require.Positive(t, reading.PerOp, "Floor.PerOp (%s)", kind)
		} else {
			require.Positive(t, reading.RoundTrip, "Floor.RoundTrip (%s)", kind)
		}
		require.Positive(t, reading.Samples, "Floor.Samples (%s)", kind)
		require.Zero(t, answer, "the Floor of the other side (%s)", kind)
	}
	return supported
}

func probeReading(t *trial) {
	_, a, b := t.pair(layout{})
	probeBoth(t, a, b)
	probeBoth(t, b, a)
	probeBoth(t, b, a)
}

func probeAlone(t *trial) {
	_, a, b := t.pair(layout{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, kind := range probeKinds {
		for _, initiate := range []bool{true, false} {
			require.True(t, restsAlone(t, a, kind, initiate), "sleeps of a probe without the "+
				"other side (%s, initiate %v): in %d tries it spun for %v and more between them",
				kind, initiate, aloneTries, maxSpin)
		}
	}
	probeBoth(t, a, b)
}

// restsAlone reports whether probes without the other side slept often enough, over all of some
// tries: one in which the thread had no processor tells nothing. What a probe that ends soon takes,
// too, is no spinning: it may map the memory of its peer.
func restsAlone(t *trial, n *node, kind transport.ProbeKind, initiate bool) bool {
	const short, long = time.Millisecond, 10 * time.Millisecond
	slept, spun := int64(0), time.Duration(0)
	for range aloneTries {
		_, fixed := probeFor(t, n, kind, initiate, short)
		began := time.Now()
		sleeps, cpu := probeFor(t, n, kind, initiate, long)
		if time.Since(began) < long { // the worker has no such probe
			return true
		}
		slept, spun = slept+sleeps, spun+max(0, cpu-fixed)
		if time.Duration(slept)*maxSpin > spun {
			return true
		}
	}
	return false
}

// probeFor probes without the other side for d, and returns how often the thread slept meanwhile,
// and its processor time.
func probeFor(t *trial, n *node, kind transport.ProbeKind, initiate bool,
	d time.Duration) (sleeps int64, cpu time.Duration) {
	sleepsBefore, cpuBefore := threadRest()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	floor, err := n.probe(ctx, kind, initiate, never)
	require.Error(t, err, "Probe without the other side (%s, initiate %v)", kind, initiate)
	require.Zero(t, floor, "the Floor of a probe that failed (%s)", kind)
	require.NoError(t, t.Context().Err(), "Probe outlived its context (%s)", kind)
	sleeps, cpu = threadRest()
	return sleeps - sleepsBefore, cpu - cpuBefore
}

const (
	// maxSpin is the processor time that a probe may take without its peer before it sleeps, on
	// average. Go's scheduler interrupts a goroutine, which looks the same, after 10 ms.
	maxSpin = 2 * time.Millisecond
	// The first probe may set up what it needs, and a thread's processor time contains what the
	// hypervisor stole. So one that sleeps may look as if it did not, but not each time.
	aloneTries = 20
)

// threadRest returns how often this thread has slept, and its processor time.
func threadRest() (sleeps int64, cpu time.Duration) {
	var usage unix.Rusage
	var t unix.Timespec
	if unix.Getrusage(unix.RUSAGE_THREAD, &usage) != nil ||
		unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0, 0
	}
	return usage.Nvcsw, time.Duration(t.Nano())
}

func probeUnknown(t *trial) {
	_, a, _ := t.pair(layout{})
	for _, initiate := range []bool{true, false} {
		_, err := a.probe(t.Context(), "no such kind", initiate, time.Millisecond)
		require.ErrorIs(t, err, transport.ErrUnsupported, "Probe of an unknown kind (initiate %v)",
			initiate)
	}
}

func probeThenCalls(t *trial) {
	c, a, b := t.pair(layout{})
	for i := range uint64(3) {
		probeBoth(t, a, b)
		takesDepth(c, a)
		c.drain()
		b.call(0, pattern(i, 64))
		c.settle()
	}
}
