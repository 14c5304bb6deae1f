package rank

import (
	"runtime/metrics"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

const (
	// gapLimit is the shortest gap that is recorded: longer than a timer interrupt, and so long
	// that the system calls after it do not matter.
	gapLimit = 20 * time.Microsecond
	// keptGaps is the number of gaps of a window that are recorded one by one.
	keptGaps = 8
	// A loop looks at the clock at least once in lookEvery iterations, and more often if these
	// take longer than lookWithin. Looks cost less than half a nanosecond per iteration.
	lookEvery  = 32
	lookWithin = 4 * time.Microsecond
	// ordinaryShare is the share of the time above which gaps without a cause are how the loop works.
	ordinaryShare = 0.25
	// settling is the time at the start of a window for which one gap may take any share of it.
	settling = 10 * time.Millisecond
)

// gapWatch finds the gaps between the iterations of a loop. The loop calls pass in each iteration,
// and look if pass returns true or if it has read the clock anyway. Time that the loop gives away,
// for example by parking, is not a gap: restart and parked leave it out.
type gapWatch struct {
	left   uint32 // iterations until the next look
	stride uint32
	last   uint64 // ticks of the last look
	limit  uint64 // ticks
	within uint64 // ticks

	clock   *machine.Clock
	began   uint64 // ticks
	reached uint64 // limit at the end of the window
	total   uint64 // ticks of all gaps
	plain   uint64 // ticks of the gaps without a cause
	count   uint64
	list    []record.Gap // the longest
	seen    gapEvidence
	gc      []metrics.Sample
}

// gapEvidence are counts that may explain a gap.
type gapEvidence struct {
	usage       unix.Rusage
	collections uint64
}

func newGapWatch(clock *machine.Clock) gapWatch {
	return gapWatch{
		clock: clock, left: 1, stride: 1, limit: noLimit, within: clock.Ticks(lookWithin), list: make([]record.Gap, 0, keptGaps),
		gc: []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}},
	}
}

// noLimit is the limit outside of windows.
const noLimit = ^uint64(0)

// begin starts a window.
func (g *gapWatch) begin() {
	g.list, g.total, g.plain, g.count = g.list[:0], 0, 0, 0
	g.seen = g.evidence()
	g.limit = g.clock.Ticks(gapLimit)
	g.began = g.clock.Now()
	g.last = g.began
}

// stop ends the window.
func (g *gapWatch) stop() { g.reached, g.limit = g.limit, noLimit }

// pass counts an iteration and reports whether to look at the clock.
func (g *gapWatch) pass() bool {
	g.left--
	return g.left == 0
}

// look takes a reading of the clock.
func (g *gapWatch) look(now uint64) {
	if now-g.last > g.limit {
		g.gap(now, false)
		return
	}
	g.last = now
}

// lookNow looks at the clock when pass returned true, and returns the reading.
func (g *gapWatch) lookNow() uint64 {
	now := g.clock.Now()
	switch spent := now - g.last; {
	case spent > g.within:
		g.stride = max(g.stride/2, 1)
	case spent < g.within/4:
		g.stride = min(g.stride*2, lookEvery)
	}
	g.left = g.stride
	g.look(now)
	return now
}

// restart leaves out the time since the last look.
func (g *gapWatch) restart() {
	g.last = g.clock.Now()
}

// parked leaves out the time since the last look, in which the thread was parked for most at most.
// What goes far beyond that is a gap: the wait was over, and the thread got no processor.
func (g *gapWatch) parked(most time.Duration) {
	now := g.clock.Now()
	if g.limit == noLimit || now-g.last < g.clock.Ticks(most+sleepMargin) {
		g.last = now
		return
	}
	g.last += g.clock.Ticks(most)
	g.gap(now, true)
}

// gap records the time since the last look.
func (g *gapWatch) gap(now uint64, parked bool) {
	spent := now - g.last
	g.count++
	g.total += spent
	evidence := g.evidence()
	gap := evidence.since(&g.seen, g.clock.Nanos(spent))
	gap.Parked = parked
	g.seen = evidence
	if len(g.list) < keptGaps {
		g.list = append(g.list, gap)
	} else if shortest := g.shortest(); gap.ForNS > shortest.ForNS {
		*shortest = gap
	}
	if gap.Voluntary+gap.Involuntary+gap.MajorFaults+gap.Collections == 0 {
		g.plain += spent
	}
	if float64(g.plain) > ordinaryShare*float64(max(now-g.began, g.clock.Ticks(settling))) {
		g.raise()
	}
	g.last = g.clock.Now()
}

// raise doubles the limit, because gaps of this length are how the loop works, and drops those that
// are shorter.
func (g *gapWatch) raise() {
	g.limit *= 2
	limit := g.clock.Nanos(g.limit)
	g.list = slices.DeleteFunc(g.list, func(gap record.Gap) bool { return gap.ForNS < limit })
	g.count, g.total, g.plain = uint64(len(g.list)), 0, 0
	for _, gap := range g.list {
		g.total += g.clock.Ticks(time.Duration(gap.ForNS))
	}
}

func (g *gapWatch) shortest() *record.Gap {
	least := &g.list[0]
	for i := range g.list {
		if g.list[i].ForNS < least.ForNS {
			least = &g.list[i]
		}
	}
	return least
}

func (g *gapWatch) evidence() (e gapEvidence) {
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &e.usage) // without it, the cause is unknown
	metrics.Read(g.gc)
	e.collections = g.gc[0].Value.Uint64()
	return e
}

// since returns a gap that has just ended.
func (e *gapEvidence) since(before *gapEvidence, length uint64) record.Gap {
	return record.Gap{
		AtNS: machine.Monotonic() - length, ForNS: length,
		Voluntary:   uint64(e.usage.Nvcsw - before.usage.Nvcsw),
		Involuntary: uint64(e.usage.Nivcsw - before.usage.Nivcsw),
		MinorFaults: uint64(e.usage.Minflt - before.usage.Minflt),
		MajorFaults: uint64(e.usage.Majflt - before.usage.Majflt),
		Collections: e.collections - before.collections,
	}
}

// report fills in the gaps of the window.
func (g *gapWatch) report(r *record.ThreadReport) {
	r.GapCount, r.GapNS, r.GapLimitNS = g.count, g.clock.Nanos(g.total), g.clock.Nanos(g.reached)
	r.Gaps = slices.Clone(g.list)
	slices.SortFunc(r.Gaps, func(a, b record.Gap) int { return int(int64(b.ForNS) - int64(a.ForNS)) })
}
