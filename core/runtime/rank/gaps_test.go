package rank

import (
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// stalling is a worker that stalls in its next poll.
type stalling struct {
	transport.Worker
	next func()
}

func (w *stalling) Poll(events []transport.Event) (int, error) {
	if w.next != nil {
		w.next()
		w.next = nil
	}
	return w.Worker.Poll(events)
}

// TestGaps stalls a client and a daemon, both busy and idle, and looks for the stalls in their
// reports, with their times and causes.
func TestGaps(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const length = 3 * time.Millisecond
	memory := unmapped(t)
	causes := map[string]struct {
		stall func()
		count func(g *record.Gap) uint64
	}{
		"page fault": {func() {
			for i := 0; i < len(memory); i += 4096 {
				memory[i] = 1
			}
			spinFor(length)
		}, func(g *record.Gap) uint64 { return g.MinorFaults }},
		"collector": {func() { runtime.GC(); spinFor(length) },
			func(g *record.Gap) uint64 { return g.Collections }},
		"sleep": {func() { time.Sleep(length) }, func(g *record.Gap) uint64 { return g.ForNS }},
	}
	for name, cause := range causes {
		for _, busy := range []bool{false, true} {
			ranks := cluster(t, transporttest.NewMemoryDriver(), testConfig(), config.IdleSpin)
			daemon, client := ranks[0].threads[0].daemon, ranks[1].threads[0].client
			client.begin(8, time.Hour)
			if busy {
				require.NoError(t, client.load(client.clock.Now()))
			}
			loop := func(steps int) {
				for range steps {
					require.NoError(t, errors.Join(client.step(true), daemon.step()))
				}
			}
			loop(1000)
			for _, stalls := range []string{"client", "daemon"} {
				gaps, worker := &client.gaps, &client.worker
				if stalls == "daemon" {
					gaps, worker = &daemon.gaps, &daemon.worker
				}
				inner := *worker
				// Only the longest gaps are kept, and a busy machine adds its own: try again then.
				found := false
				var r record.ThreadReport
				var from, to uint64
				for tries := 5; tries > 0 && !found; tries-- {
					gaps.begin()
					loop(1000)
					*worker = &stalling{inner, cause.stall}
					from = machine.Monotonic()
					loop(1)
					to = machine.Monotonic()
					*worker = inner
					loop(1000)
					gaps.stop()
					gaps.report(&r)
					found = slices.ContainsFunc(r.Gaps, func(g record.Gap) bool {
						slack := g.ForNS / 100 // the lengths are by another clock
						return g.ForNS >= uint64(length)*99/100 && g.AtNS+g.ForNS+slack > from &&
							g.AtNS < to+slack && cause.count(&g) > 0
					})
					if name == "page fault" {
						require.NoError(t, unix.Madvise(memory, unix.MADV_DONTNEED))
					}
				}
				require.True(t, found, "%s, %s, busy %t: %+v from %d to %d", name, stalls, busy,
					r.Gaps, from, to)
				require.GreaterOrEqual(t, r.GapNS+1, r.Gaps[0].ForNS, "rounded down")
				require.Positive(t, r.GapCount)
				require.NotZero(t, r.GapLimitNS)
			}
			require.NoError(t, client.drainInTest(daemon))
		}
	}
}

// unmapped returns memory without pages.
func unmapped(t *testing.T) []byte {
	memory, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	return memory
}

func spinFor(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// fakeGaps returns a watch that is fed with looks at chosen times.
func fakeGaps() *gapWatch {
	g := newGapWatch(machine.Calibrated())
	g.begin()
	return &g
}

// feed gives the watch an iteration of that length, in which the thread was switched switches
// times.
func (g *gapWatch) feed(length time.Duration, switches int64) {
	g.seen = g.evidence()
	g.seen.usage.Nivcsw -= switches
	g.look(g.last + g.clock.Ticks(length))
}

// TestOrdinaryIterationsAreNoGaps feeds loops whose every iteration is longer than the shortest
// gap, as with system calls and with large values. The watch knows their length from the window
// before, or learns it in this one.
func TestOrdinaryIterationsAreNoGaps(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, working := range []time.Duration{18 * time.Microsecond, 300 * time.Microsecond} {
		for _, known := range []bool{false, true} {
			g := fakeGaps()
			ticks := g.clock.Ticks(working)
			if known {
				g.work(ticks)
				g.stop()
				g.begin()
			}
			for range 1000 {
				g.work(ticks)
				g.feed(working*3/2, 0)
			}
			g.feed(50*working, 0)
			g.work(g.clock.Ticks(50 * working)) // one was stopped
			g.stop()
			var r record.ThreadReport
			g.report(&r)
			require.Greater(t, r.GapLimitNS, uint64(3*working))
			require.EqualValues(t, 1, r.GapCount, "%v, known %t", working, known)
			require.InEpsilon(t, 50*working, r.GapNS, 1e-3)
			require.Len(t, r.Gaps, 1)
			require.InEpsilon(t, 50*working, r.Gaps[0].ForNS, 1e-3)
		}
	}
}

// TestFewIterations: a thread of whose work no iteration was timed does nothing but iterations of 1
// ms.
func TestFewIterations(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	g := fakeGaps()
	for range 50 {
		g.feed(time.Millisecond, 0)
	}
	g.feed(time.Millisecond, 1)
	g.feed(30*time.Millisecond, 0)
	g.stop()
	var r record.ThreadReport
	g.report(&r)
	require.EqualValues(t, 1, r.GapCount)
	require.Len(t, r.Gaps, 1)
}

// TestGapsWithACause feeds iterations that are three times as long as those that work.
func TestGapsWithACause(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const working = 100 * time.Microsecond
	for _, c := range []struct {
		name     string
		length   time.Duration
		switches int64
		away     bool
		gaps     uint64
	}{
		{"work", 3 * working, 0, false, 0},
		{"switched", 3 * working, 1, false, 1},
		{"switched, as it gave time away", 3 * working, 1, true, 0},
		{"switched for a moment", working * 3 / 2, 1, false, 0},
		{"far longer", 10 * working, 0, true, 1},
	} {
		g := fakeGaps()
		g.work(g.clock.Ticks(working))
		g.stop()
		g.begin()
		if c.away {
			g.restart()
		}
		g.feed(c.length, c.switches)
		g.stop()
		var r record.ThreadReport
		g.report(&r)
		require.Equal(t, c.gaps, r.GapCount, c.name)
		require.Len(t, r.Gaps, int(c.gaps), c.name)
	}
}

func TestGapsDoNotAllocate(t *testing.T) {
	g := fakeGaps()
	now := g.last
	require.Zero(t, testing.AllocsPerRun(100, func() {
		g.last = now + g.clock.Ticks(10*time.Millisecond)
		now = g.last + g.clock.Ticks(time.Millisecond)
		g.look(now)
	}))
	at := gapClass(g.clock.Ticks(time.Millisecond))
	require.Positive(t, g.sums[gapPlain][at].count+g.sums[gapCaused][at].count)
}

// TestLongestGapsAreKept feeds more gaps than are kept, in a window in which they are rare.
func TestLongestGapsAreKept(t *testing.T) {
	g := fakeGaps()
	for range fewestWork {
		g.work(g.clock.Ticks(time.Microsecond))
	}
	second := g.clock.Ticks(time.Second)
	now, sum := g.last, uint64(0)
	for i := range 100 {
		length := uint64(21+(i*37)%100) * uint64(time.Microsecond)
		g.last = now + second
		now = g.last + g.clock.Ticks(time.Duration(length))
		g.look(now)
		sum += length
	}
	g.stop()
	var r record.ThreadReport
	g.report(&r)
	require.EqualValues(t, 100, r.GapCount)
	require.InEpsilon(t, sum, r.GapNS, 1e-3)
	require.Len(t, r.Gaps, keptGaps)
	for i, gap := range r.Gaps {
		require.InEpsilon(t, (120-i)*1000, gap.ForNS, 1e-3, "gap %d", i)
	}
}

// TestTimeGivenAwayIsNoGap yields, parks and sleeps; the watch restarts after each.
func TestTimeGivenAwayIsNoGap(t *testing.T) {
	for _, strategy := range []string{config.IdleYield, config.IdlePark} {
		g := fakeGaps()
		i := newIdler(strategy, sleeper{}, g)
		restarts := 0
		for range 2 * parkAfter {
			last := g.clock.Now() - 1
			g.last = last
			require.NoError(t, i.pause())
			if g.last != last {
				restarts++
			}
		}
		require.Positive(t, restarts, strategy)
		last := g.clock.Now() - 1
		g.last = last
		require.NoError(t, i.sleep(sleepMargin+time.Microsecond))
		require.NotEqual(t, last, g.last, strategy)
		var r record.ThreadReport
		g.report(&r)
		require.LessOrEqual(t, r.GapCount, uint64(1), "the machine may have stalled the test")
	}
}

// TestWaitsThatEndLateAreGaps parks a thread that wakes long after its wait was over.
func TestWaitsThatEndLateAreGaps(t *testing.T) {
	const late = 5 * time.Millisecond
	g := fakeGaps()
	i := newIdler(config.IdlePark, sleeper{late: late}, g)
	require.NoError(t, i.wait(parkLimit))
	g.stop()
	var r record.ThreadReport
	g.report(&r)
	require.EqualValues(t, 1, r.GapCount)
	require.True(t, r.Gaps[0].Parked)
	require.GreaterOrEqual(t, r.Gaps[0].ForNS, uint64(late-parkLimit)*99/100,
		"the wait itself is no gap")

	i.gaps.parked(0)
	g.report(&r)
	require.EqualValues(t, 1, r.GapCount, "outside of a window")
}

// sleeper is a worker whose Wait returns at once, or late.
type sleeper struct {
	transport.Worker
	late time.Duration
}

func (s sleeper) Wait(time.Duration) error { spinFor(s.late); return nil }
func (sleeper) Wake()                      {}
