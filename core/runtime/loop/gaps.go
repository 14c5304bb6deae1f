package loop

import (
	"math/bits"
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
	// An iteration is a gap if it takes causedGap times as long as the long ones of the thread's
	// working iterations (the 90th percentile, which stalls do not move) and the kernel or the Go
	// runtime counted something that stops a thread, or if it takes plainGap times as long. What is
	// shorter may be work: a batch of large values, or system calls.
	causedGap = 2
	plainGap  = 4
	longWork  = 0.9
	// With fewer working iterations known, what seems to be gaps without a cause is work if it
	// takes more than ordinaryShare of the time.
	fewestWork    = 10
	ordinaryShare = 0.25
	// keptGaps is the number of gaps of a window that are recorded one by one.
	keptGaps = 8
	// A loop looks at the clock at least once in lookEvery iterations, and more often if these
	// take longer than lookWithin. Looks cost less than half a nanosecond per iteration.
	lookEvery  = 32
	lookWithin = 4 * time.Microsecond
)

// GapWatch finds the gaps between the iterations of a loop. The loop calls BeginIteration in each,
// and Look if it has read the clock anyway. Time that the loop gives away, for example by parking,
// is not a gap: Restart and parked leave it out.
type GapWatch struct {
	left   uint32 // iterations until the next look
	stride uint32
	last   uint64 // ticks of the last look
	limit  uint64 // ticks from which on an iteration may be a gap
	within uint64 // ticks
	away   bool   // the thread gave time away since its counts were read
	shared bool   // the loop is a goroutine, for which the kernel has no counts

	clock    *machine.Clock
	began    uint64              // ticks
	worked   *[gapClasses]uint64 // working iterations of the window, by their length
	working  uint64              // ticks of a long working iteration
	sums     *[gapKinds][gapClasses]gapSum
	list     []listedGap // the longest
	seen     causeCounts
	collects []metrics.Sample
}

// gapKind is what is known of a gap.
type gapKind int

const (
	gapParked gapKind = iota // the thread woke late
	gapCaused
	gapPlain
	gapKinds
)

// listedGap is a gap of a kind.
type listedGap struct {
	record.Gap
	kind gapKind
}

// gapSum counts gaps.
type gapSum struct{ count, ticks uint64 }

func (s *gapSum) add(count, ticks uint64) { s.count, s.ticks = s.count+count, s.ticks+ticks }

// gapClasses is the number of classes of lengths, four for each power of two.
const gapClasses = 4 * 64

// gapClass returns the class of a length in ticks.
func gapClass(ticks uint64) (class int) {
	shift := max(bits.Len64(ticks), 3) - 3
	return 4*shift + int(ticks>>shift&3)
}

// shortestOf returns the shortest length of a class that gapClass returns.
func shortestOf(class int) (ticks uint64) { return (4 + uint64(class%4)) << (class / 4) }

// causeCounts are counts of what may cause a gap.
type causeCounts struct {
	usage       unix.Rusage
	collections uint64
}

// NewGapWatch returns a watch that is outside of a window.
func NewGapWatch(clock *machine.Clock) GapWatch {
	return GapWatch{
		clock: clock, left: 1, stride: 1, limit: NoLimit, within: clock.Ticks(lookWithin),
		sums: &[gapKinds][gapClasses]gapSum{}, worked: &[gapClasses]uint64{},
		list:     make([]listedGap, 0, keptGaps),
		collects: []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}},
	}
}

// NoLimit is the limit outside of windows.
const NoLimit = ^uint64(0)

// Begin starts a window.
func (g *GapWatch) Begin() {
	g.list, *g.sums, *g.worked = g.list[:0], [gapKinds][gapClasses]gapSum{}, [gapClasses]uint64{}
	g.seen, g.away = g.causes(), false
	g.limit = g.limitOf(gapCaused)
	g.began = g.clock.Now()
	g.last = g.began
}

// Work counts an iteration that found work and took that time. Loops call it for some of them.
func (g *GapWatch) Work(ticks uint64) { g.worked[gapClass(ticks)]++ }

// Stop ends the window.
func (g *GapWatch) Stop() {
	g.limit = NoLimit
	work, all := *g.worked, uint64(0)
	for _, n := range work {
		all += n
	}
	var plain gapSum
	for _, s := range g.sums[gapPlain] {
		plain.add(s.count, s.ticks)
	}
	if all < fewestWork && plain.count >= fewestWork &&
		float64(plain.ticks) > ordinaryShare*float64(g.clock.Now()-g.began) {
		for class, s := range g.sums[gapPlain] {
			work[class] += s.count
		}
		all += plain.count
	}
	counted := uint64(0)
	for class, n := range work {
		if counted += n; all > 0 && float64(counted) >= longWork*float64(all) {
			g.working = shortestOf(class)
			return
		}
	}
}

// limitOf returns the shortest gap of a kind, in ticks.
func (g *GapWatch) limitOf(kind gapKind) uint64 {
	switch kind {
	case gapParked:
		return 0
	case gapCaused:
		return max(g.clock.Ticks(gapLimit), causedGap*g.working)
	default:
		return max(g.clock.Ticks(gapLimit), plainGap*g.working)
	}
}

// BeginIteration counts an iteration, and looks at the clock if that is due. It returns the
// reading, or 0.
func (g *GapWatch) BeginIteration() uint64 {
	if g.left--; g.left == 0 {
		return g.lookNow()
	}
	return 0
}

// Look takes a reading of the clock.
func (g *GapWatch) Look(now uint64) {
	if now-g.last > g.limit {
		g.gap(now, false)
		return
	}
	g.last = now
}

// lookNow looks at the clock and returns the reading.
func (g *GapWatch) lookNow() uint64 {
	now := g.clock.Now()
	switch spent := now - g.last; {
	case spent > g.within:
		g.stride = max(g.stride/2, 1)
	case spent < g.within/4:
		g.stride = min(g.stride*2, lookEvery)
	}
	g.left = g.stride
	g.Look(now)
	return now
}

// Restart leaves out the time since the last look.
func (g *GapWatch) Restart() {
	g.away = true
	g.last = g.clock.Now()
}

// parked leaves out the time since the last look, in which the thread was parked for at most limit.
// What goes far beyond that is a gap: the wait was over, and the thread got no processor.
func (g *GapWatch) parked(limit time.Duration) {
	g.away = true
	now := g.clock.Now()
	if g.limit == NoLimit || now-g.last < g.clock.Ticks(limit+SleepMargin) {
		g.last = now
		return
	}
	g.last += g.clock.Ticks(limit)
	g.gap(now, true)
}

// gap records the time since the last look. The kernel counts a thread that yields or parks as
// switched, so its switches explain no gap.
func (g *GapWatch) gap(now uint64, parked bool) {
	spent := now - g.last
	causes := g.causes()
	gap := causes.since(&g.seen, g.clock.Nanos(spent))
	gap.Parked = parked
	switched := gap.Involuntary > 0 && !g.away
	g.seen, g.away = causes, false
	kind := gapPlain
	switch {
	case parked:
		kind = gapParked
	case switched || gap.MajorFaults+gap.Collections > 0:
		kind = gapCaused
	}
	g.sums[kind][gapClass(spent)].add(1, spent)
	if spent >= g.limitOf(kind) {
		g.keep(listedGap{gap, kind})
	}
	g.last = g.clock.Now()
}

// keep lists a gap if it is one of the longest.
func (g *GapWatch) keep(gap listedGap) {
	if len(g.list) < keptGaps {
		g.list = append(g.list, gap)
	} else if shortest := g.shortest(); gap.ForNS > shortest.ForNS {
		*shortest = gap
	}
}

func (g *GapWatch) shortest() *listedGap {
	shortest := &g.list[0]
	for i := range g.list {
		if g.list[i].ForNS < shortest.ForNS {
			shortest = &g.list[i]
		}
	}
	return shortest
}

func (g *GapWatch) causes() (e causeCounts) {
	if !g.shared {
		_ = unix.Getrusage(unix.RUSAGE_THREAD, &e.usage) // without it, the cause is unknown
	}
	metrics.Read(g.collects)
	e.collections = g.collects[0].Value.Uint64()
	return e
}

// since returns the gap between the counts before and e.
func (e *causeCounts) since(before *causeCounts, length uint64) record.Gap {
	return record.Gap{
		AtNS: machine.Monotonic() - length, ForNS: length,
		Voluntary:   uint64(e.usage.Nvcsw - before.usage.Nvcsw),
		Involuntary: uint64(e.usage.Nivcsw - before.usage.Nivcsw),
		MinorFaults: uint64(e.usage.Minflt - before.usage.Minflt),
		MajorFaults: uint64(e.usage.Majflt - before.usage.Majflt),
		Collections: e.collections - before.collections,
	}
}

// Report fills in the gaps of the window: those that were far longer than the working iterations of
// this window, too.
func (g *GapWatch) Report(r *record.ThreadReport) {
	var all gapSum
	for kind := range gapKinds {
		for _, s := range g.sums[kind][gapClass(g.limitOf(kind)):] {
			all.add(s.count, s.ticks)
		}
	}
	r.GapCount, r.GapNS, r.GapLimitNS = all.count, g.clock.Nanos(all.ticks),
		g.clock.Nanos(g.limitOf(gapPlain))
	r.Gaps = nil
	for _, gap := range g.list {
		if gap.ForNS >= g.clock.Nanos(g.limitOf(gap.kind)) {
			r.Gaps = append(r.Gaps, gap.Gap)
		}
	}
	slices.SortFunc(r.Gaps, func(a, b record.Gap) int {
		return int(int64(b.ForNS) - int64(a.ForNS))
	})
}
