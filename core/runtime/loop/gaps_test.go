package loop

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// fakeGaps returns a watch that is fed with looks at chosen times. It does not ask the kernel what
// happened to the thread: a busy machine switches threads, and a goroutine changes them.
func fakeGaps() *GapWatch {
	g := NewGapWatch(machine.Calibrated())
	g.shared = true
	g.Begin()
	return &g
}

// feed gives the watch an iteration of that length, in which the thread was switched switches
// times.
func (g *GapWatch) feed(length time.Duration, switches int64) {
	g.seen = g.causes()
	g.seen.usage.Nivcsw -= switches
	g.Look(g.last + g.clock.Ticks(length))
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
				g.Work(ticks)
				g.Stop()
				g.Begin()
			}
			for range 1000 {
				g.Work(ticks)
				g.feed(working*3/2, 0)
			}
			g.feed(50*working, 0)
			g.Work(g.clock.Ticks(50 * working)) // one was stopped
			g.Stop()
			var r record.ThreadReport
			g.Report(&r)
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
	g.Stop()
	var r record.ThreadReport
	g.Report(&r)
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
		g.Work(g.clock.Ticks(working))
		g.Stop()
		g.Begin()
		if c.away {
			g.Restart()
		}
		g.feed(c.length, c.switches)
		g.Stop()
		var r record.ThreadReport
		g.Report(&r)
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
		g.Look(now)
	}))
	at := gapClass(g.clock.Ticks(time.Millisecond))
	require.Positive(t, g.sums[gapPlain][at].count+g.sums[gapCaused][at].count)
}

// TestLongestGapsAreKept feeds more gaps than are kept, in a window in which they are rare.
func TestLongestGapsAreKept(t *testing.T) {
	g := fakeGaps()
	for range fewestWork {
		g.Work(g.clock.Ticks(time.Microsecond))
	}
	second := g.clock.Ticks(time.Second)
	now, sum := g.last, uint64(0)
	for i := range 100 {
		length := uint64(21+(i*37)%100) * uint64(time.Microsecond)
		g.last = now + second
		now = g.last + g.clock.Ticks(time.Duration(length))
		g.Look(now)
		sum += length
	}
	g.Stop()
	var r record.ThreadReport
	g.Report(&r)
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
		i := NewIdler(strategy, sleeper{}, g)
		restarts := 0
		for end := time.Now().Add(2 * ParkAfter); restarts == 0 || time.Now().Before(end); {
			last := g.clock.Now() - 1
			g.last = last
			require.NoError(t, i.Pause())
			if g.last != last {
				restarts++
			}
		}
		require.Positive(t, restarts, strategy)
		last := g.clock.Now() - 1
		g.last = last
		require.NoError(t, i.Sleep(SleepMargin+time.Microsecond))
		require.NotEqual(t, last, g.last, strategy)
		var r record.ThreadReport
		g.Report(&r)
		require.LessOrEqual(t, r.GapCount, uint64(1), "the machine may have stalled the test")
	}
}

// TestWaitsThatEndLateAreGaps parks a thread that wakes long after its wait was over.
func TestWaitsThatEndLateAreGaps(t *testing.T) {
	const late = 5 * time.Millisecond
	g := fakeGaps()
	i := NewIdler(config.IdlePark, sleeper{late: late}, g)
	require.NoError(t, i.wait(ParkLimit))
	g.Stop()
	var r record.ThreadReport
	g.Report(&r)
	require.EqualValues(t, 1, r.GapCount)
	require.True(t, r.Gaps[0].Parked)
	require.GreaterOrEqual(t, r.Gaps[0].ForNS, uint64(late-ParkLimit)*99/100,
		"the wait itself is no gap")

	i.gaps.parked(0)
	g.Report(&r)
	require.EqualValues(t, 1, r.GapCount, "outside of a window")
}

// sleeper is a worker whose Wait returns at once, or late.
type sleeper struct {
	transport.Worker
	late time.Duration
}

func (s sleeper) Wait(time.Duration) error { spinFor(s.late); return nil }

func (sleeper) Wake() {}
