package floor

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// Values of the word besides the counter itself.
const (
	wordIdle = 0
	wordOver = ^uint64(0)
)

// wordBatch is how many round trips are timed together. Reading the clock costs about a
// hundredth of them at most.
const wordBatch = 128

// wordBatches is how many batches of each way CacheLine goes on for beyond its time.
const wordBatches = 16

// CacheLine measures the shortest round trip between two threads in shared memory: one writes a
// word in a cache line and waits until the other has answered in it. Both sides call it on the same
// word, which is zero and has a cache line to itself; one passes initiate. The initiator measures
// for about d after the other has joined and returns the median over the faster half of the
// batches, because other programs disturb some. The other side returns a zero Floor. Both sides
// spin, and return the cause of ctx if it ends first. Afterwards the word is zero and can be used
// again; after a cancelled run it may hold another value, which the next call ignores.
//
// Batches alternate between two ways to wait: a tight loop, and a loop with a pause
// between two looks. A tight loop sees the answer sooner, but each look takes the line
// away from the thread that is about to write it. Which way is faster depends on the
// processor and on the distance between the cores; the faster one is the floor.
func CacheLine(ctx context.Context, line *atomic.Uint64, initiate bool,
	d time.Duration) (transport.Floor, error) {
	// The loops check a private flag because the peer may overwrite the line at any time.
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	if !initiate {
		if !answerWord(line, &stopped) {
			return transport.Floor{}, context.Cause(ctx)
		}
		return transport.Floor{}, nil
	}
	// The first batch waits for the other side and is not measured.
	value, ok := writeWord(line, 1, &stopped)
	var batches [2][]float64
	for start := time.Now(); ok; {
		before := time.Since(start)
		few := min(len(batches[0]), len(batches[1]))
		if few > 0 && before >= d && (few >= wordBatches || before >= maxOvertime*d) {
			break
		}
		way := &batches[waits(value)]
		if value, ok = writeWord(line, value, &stopped); ok {
			*way = append(*way, float64(time.Since(start)-before)/wordBatch)
		}
	}
	if !ok {
		line.Store(wordIdle)
		return transport.Floor{}, context.Cause(ctx)
	}
	line.Store(wordOver)
	// The other side stores zero once it has seen the end.
	for wait := (spin.Wait{}); line.Load() != wordIdle && !stopped.Load(); wait.Idle() {
	}
	return transport.Floor{
		Name:      "cache-line bounce",
		RoundTrip: min(fasterHalf(batches[0]), fasterHalf(batches[1])),
		Samples:   (len(batches[0]) + len(batches[1])) * wordBatch,
	}, nil
}

// fasterHalf returns the median of the faster half of times, which it sorts.
func fasterHalf(times []float64) float64 {
	slices.Sort(times)
	return Median(times[:(len(times)+1)/2])
}

// waits returns how the batch of a value waits: 1 with a pause, 0 without. Both sides
// derive it from the value.
func waits(value uint64) uint64 { return value / (2 * wordBatch) & 1 }

// writeWord writes odd numbers and waits for the even ones; ok is false if it was
// stopped.
func writeWord(line *atomic.Uint64, value uint64, stopped *atomic.Bool) (next uint64, ok bool) {
	pauses := waits(value) == 1
	var wait spin.Wait
	for range wordBatch {
		line.Store(value)
		looks := 0
		for ; line.Load() != value+1; looks++ {
			if stopped.Load() {
				return value, false
			}
			wait.IdleAfter(looks)
			if pauses {
				spin.Pause()
			}
		}
		wait.FoundAfter(looks)
		value += 2
	}
	return value, true
}

// answerWord answers until the initiator ends the run. It returns false if it was stopped first.
func answerWord(line *atomic.Uint64, stopped *atomic.Bool) (over bool) {
	last := uint64(wordIdle)
	pauses := false
	var wait spin.Wait
	for looks := 0; !stopped.Load(); looks++ {
		wait.IdleAfter(looks)
		seen := line.Load()
		switch {
		case seen == wordOver && last != wordIdle: // not left over from an earlier run
			line.Store(wordIdle)
			return true
		case seen != wordOver && seen != last && seen&1 == 1:
			last = seen + 1
			line.Store(last)
			wait.FoundAfter(looks)
			looks = 0
			pauses = waits(seen+2) == 1 // how the next value is waited for
		case pauses:
			spin.Pause()
		}
	}
	return false
}
