package shm

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Values of a bounced line besides the counter itself.
const (
	bounceIdle = 0
	bounceOver = ^uint64(0)
)

// bounceBatch round trips are timed together, so that reading the clock costs
// less than a thousandth of them.
const bounceBatch = 256

// bounceSpins looks in vain take far longer than any answer of a thread that runs.
// The other side has no processor then, and may be waiting for this one's.
const bounceSpins = 1 << 14

// giveWay lets other threads run every so many looks.
func giveWay(spins int) {
	if spins%bounceSpins == bounceSpins-1 {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// Bounce is one side of the least that two threads can do to each other: write
// a word in a cache line and wait until the other has answered in it. Both
// sides call it on the same word, which holds zero and has its cache line to
// itself, one with initiate true. That side measures for about d after the
// other has joined and returns the median over batches of the round trip in
// nanoseconds, and the round trips behind it; the other returns zeros. It spins
// until then and gives up when ctx ends. The word is zero again afterwards, so
// that it can serve once more; only where ctx ended may something be left in it,
// which the next call does not mind.
//
// Batches take turns in how they wait: in a tight loop, and with a pause between
// two looks. A tight loop sees the answer sooner, but each look takes the line
// away from who is about to write it; which of the two is faster depends on the
// processor and on how far apart the cores are. The faster one is the floor.
func Bounce(ctx context.Context, line *atomic.Uint64, initiate bool, d time.Duration) (roundTrip float64, samples int, err error) {
	// The loops look at a flag of this side's own: what stands in the line, the
	// other side may overwrite at any time.
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	if !initiate {
		if !bounceBack(line, &stopped) {
			err = context.Cause(ctx)
		}
		return 0, 0, err
	}
	// The first batch waits for the other side and is not measured.
	value, ok := bounceForth(line, 1, &stopped)
	var batches [2][]float64
	for start := time.Now(); ok; {
		before := time.Since(start)
		if before >= d && len(batches[0]) > 0 && len(batches[1]) > 0 {
			break
		}
		way := &batches[waits(value)]
		if value, ok = bounceForth(line, value, &stopped); ok {
			*way = append(*way, float64(time.Since(start)-before)/bounceBatch)
		}
	}
	if !ok {
		line.Store(bounceIdle)
		return 0, 0, context.Cause(ctx)
	}
	line.Store(bounceOver)
	// The other side leaves zero behind when it has seen the end.
	for spins := 0; line.Load() != bounceIdle && !stopped.Load(); spins++ {
		giveWay(spins)
	}
	for i, way := range batches {
		slices.Sort(way)
		if median := way[len(way)/2]; i == 0 || median < roundTrip {
			roundTrip = median
		}
		samples += len(way) * bounceBatch
	}
	return roundTrip, samples, nil
}

// waits is how a batch waits, which both sides know from its values: 1 with a
// pause, 0 without.
func waits(value uint64) uint64 { return value / (2 * bounceBatch) & 1 }

// bounceForth writes odd numbers and waits for the even ones; ok is false when it
// was stopped.
func bounceForth(line *atomic.Uint64, value uint64, stopped *atomic.Bool) (next uint64, ok bool) {
	pauses := waits(value) == 1
	for range bounceBatch {
		line.Store(value)
		for spins := 0; line.Load() != value+1; spins++ {
			if stopped.Load() {
				return value, false
			}
			giveWay(spins)
			if pauses {
				pause()
			}
		}
		value += 2
	}
	return value, true
}

// bounceBack answers until the initiator says that it is over, or until it is
// stopped, and says which.
func bounceBack(line *atomic.Uint64, stopped *atomic.Bool) (over bool) {
	last := uint64(bounceIdle)
	pauses := false
	for spins := 0; !stopped.Load(); spins++ {
		giveWay(spins)
		seen := line.Load()
		switch {
		case seen == bounceOver && last != bounceIdle: // and not left from before
			line.Store(bounceIdle)
			return true
		case seen != bounceOver && seen != last && seen&1 == 1:
			last, spins = seen+1, 0
			line.Store(last)
			pauses = waits(seen+2) == 1 // how the next value is waited for
		case pauses:
			pause()
		}
	}
	return false
}
