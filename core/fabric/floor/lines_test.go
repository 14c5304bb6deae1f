package floor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// lines returns memory for probes, outside the Go heap as in a rank.
func lines(tb testing.TB, size int) *Lines {
	memory, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, unix.Munmap(memory)) })
	return &Lines{Control: new(atomic.Uint64), Forth: memory[:size], Back: memory[size:]}
}

// probeLines probes with both sides.
func probeLines(tb testing.TB, l *Lines, probe transport.Probe) transport.Floor {
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	var far sync.WaitGroup
	far.Go(func() {
		follower := *l
		reading, err := follower.Probe(ctx, probe)
		require.NoError(tb, err)
		require.Zero(tb, reading)
	})
	lead := probe
	lead.Initiate = true
	reading, err := l.Probe(ctx, lead)
	far.Wait()
	require.NoError(tb, err)
	require.Positive(tb, reading.Samples)
	require.Zero(tb, l.Control.Load())
	return reading
}

func TestLines(t *testing.T) {
	l := lines(t, 1<<20)
	for _, size := range []int{0, 16, 48, 49, 1000, 70_000, 500_000,
		1<<20 - transport.ProbeHeader} {
		for _, inFlight := range []int{0, 1, 3, 32, 1000} {
			probe := transport.Probe{Kind: transport.ProbeRate, Duration: time.Millisecond,
				Forth: 16, Back: size, InFlight: inFlight}
			require.Positive(t, probeLines(t, l, probe).PerOp, "%d bytes, %d in flight", size,
				inFlight)
		}
		probe := transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond,
			Forth: size, Back: 16}
		require.Positive(t, probeLines(t, l, probe).RoundTrip, "%d bytes", size)
	}
}

func TestLinesThatDoNotFit(t *testing.T) {
	l := lines(t, 1<<12)
	for _, probe := range []transport.Probe{
		{Kind: transport.ProbeMedium, Forth: 1 << 12},
		{Kind: transport.ProbeRate, Back: 1 << 12, Initiate: true},
		{Kind: transport.ProbeMedium, Forth: -1},
		{Kind: transport.ProbeLibrary},
	} {
		_, err := l.Probe(t.Context(), probe)
		require.ErrorIs(t, err, transport.ErrUnsupported)
	}
}

// TestLinesGivenUp: sides that end early leave the memory usable, and memory with any contents
// neither crashes a side nor keeps it beyond its context.
func TestLinesGivenUp(t *testing.T) {
	l := lines(t, 1<<13)
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(),
			time.Duration(rand.IntN(1000))*time.Microsecond)
		kind := []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate}[i%2]
		var sides sync.WaitGroup
		for _, initiate := range []bool{true, false} {
			if i%4 == 3 && initiate {
				continue
			}
			sides.Go(func() {
				side := *l
				_, err := side.Probe(ctx, transport.Probe{Kind: kind, Initiate: initiate,
					Duration: time.Hour, Forth: 100, Back: 30, InFlight: 5})
				// An end may be among the contents, and the initiator sends one when it gives up.
				if i%4 < 2 && (initiate || err != nil) {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		}
		if i%4 >= 2 {
			l.Control.Store(rand.Uint64())
			for range 100 {
				*word(l.Forth, rand.IntN(1<<10)*8) = rand.Uint64()
				*word(l.Back, rand.IntN(1<<10)*8) = rand.Uint64()
			}
		}
		sides.Wait()
		cancel()
	}
	probeLines(t, l, transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond})
}

// BenchmarkLinesOverCacheLine shows what the ping-pong of one line each way takes over the
// alternation on a single line.
func BenchmarkLinesOverCacheLine(b *testing.B) {
	l := lines(b, 1<<20)
	var ratios []float64
	var line struct {
		_    [128]byte
		word atomic.Uint64
		_    [128]byte
	}
	for range 40 {
		var far sync.WaitGroup
		far.Go(func() { _, _ = CacheLine(b.Context(), &line.word, false, 0) })
		one, err := CacheLine(b.Context(), &line.word, true, 500*time.Microsecond)
		far.Wait()
		require.NoError(b, err)
		ratios = append(ratios, probeLines(b, l, transport.Probe{Kind: transport.ProbeMedium,
			Duration: time.Millisecond}).RoundTrip/one.RoundTrip)
	}
	b.ReportMetric(Median(ratios), "lines/bounce")
}

// BenchmarkLines shows the floors of memory by payload and in flight.
func BenchmarkLines(b *testing.B) {
	l := lines(b, 8<<20)
	for _, size := range []int{16, 48, 240, 1 << 10, 4 << 10, 64 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("medium/%d", size), func(b *testing.B) {
			f := probeLines(b, l, transport.Probe{Kind: transport.ProbeMedium,
				Duration: 20 * time.Millisecond, Forth: 16, Back: size})
			b.ReportMetric(f.RoundTrip, "ns/trip")
		})
		for _, n := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("rate/%d/%d", size, n), func(b *testing.B) {
				f := probeLines(b, l, transport.Probe{Kind: transport.ProbeRate,
					Duration: 20 * time.Millisecond, Forth: 16, Back: size, InFlight: n})
				b.ReportMetric(f.PerOp, "ns/op")
			})
		}
	}
}

// TestLongMessagesBypassTheCaches checks that probes of long messages try stores that bypass the
// caches, that these reach each line of a message and nothing beyond, and that the other side takes
// such messages, published at once and in chunks.
func TestLongMessagesBypassTheCaches(t *testing.T) {
	if !bypasses {
		t.Skip("no such stores on this processor")
	}
	bypassing := func(lines int) bool {
		s := &lineSide{out: lane{lines: lines}, in: lane{lines: 1}}
		return slices.ContainsFunc(s.ways(1), func(tag uint64) bool { return tag&lineBypass != 0 })
	}
	require.False(t, bypassing(1))
	require.True(t, bypassing(lineBypassed))
	require.True(t, bypassing(8193))

	memory := lines(t, 1<<16)
	for _, tag := range []uint64{lineBypass, lineBypass | lineChunked} {
		for _, payload := range []int{100, 1 << 10, 20_000} {
			clear(memory.Forth)
			lane := newLane(memory.Forth, payload).narrowed(1)
			sender, receiver := lineSide{stopped: new(atomic.Bool), out: lane},
				lineSide{stopped: new(atomic.Bool), in: lane}
			sender.begin(7)
			receiver.begin(7)
			require.False(t, receiver.arrived())
			sender.post(tag, 1)
			for at := 0; at < len(memory.Forth); at += LineSize {
				want := uint64(0)
				if at < lane.stride {
					want = 7
				}
				require.Equal(t, want, *word(memory.Forth, at), "%d bytes, offset %d", payload, at)
			}
			require.True(t, receiver.arrived())
			got, ok := receiver.accept()
			require.True(t, ok)
			require.Equal(t, tag, got)
			chunks := (lane.lines + lane.chunk(tag) - 1) / lane.chunk(tag)
			require.EqualValues(t, 7*(lane.lines-chunks), receiver.in.read,
				"a word of each line, besides the numbers")
		}
	}
}

// BenchmarkBypassOverPlain shows what messages that bypass the caches take over those that do not,
// with 12 in flight between two threads.
func BenchmarkBypassOverPlain(b *testing.B) {
	memory := lines(b, 4<<20)
	for _, size := range []int{1 << 10, 4 << 10, 64 << 10, 512 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			lane := newLane(memory.Forth, size)
			inFlight := min(12, len(memory.Forth)/lane.stride)
			forth, back := lane.narrowed(inFlight), newLane(memory.Back, 0).narrowed(inFlight)
			stopped := new(atomic.Bool)
			initiator := lineSide{control: memory.Control, stopped: stopped, in: back, out: forth}
			follower := lineSide{control: memory.Control, stopped: stopped, in: forth, out: back}
			var far sync.WaitGroup
			far.Go(func() { follower.follow() })
			initiator.begin(rand.Uint64() | 1)
			memory.Control.Store(initiator.base)
			var times [2][]float64
			for range 20 {
				for way, tag := range []uint64{1, lineBypass | 1} {
					n, elapsed := initiator.slice(tag, inFlight, 500*time.Microsecond)
					times[way] = append(times[way], float64(elapsed)/float64(n))
				}
			}
			initiator.post(lineLast|1, 1)
			initiator.take(lineLast|1, 1)
			far.Wait()
			b.ReportMetric(Median(times[1])/Median(times[0]), "bypass/plain")
			b.ReportMetric(Median(times[0]), "plain-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestLongMessagesGoRoundInAllMemory checks that a rate probe of long messages also goes round in
// more memory than those in flight need, and that both sides find the next message after any
// change.
func TestLongMessagesGoRoundInAllMemory(t *testing.T) {
	for payload, wide := range map[int]bool{1 << 10: false, 20_000: true} {
		l := lines(t, 1<<20)
		probeLines(t, l, transport.Probe{Kind: transport.ProbeRate, Duration: 10 * time.Millisecond,
			Forth: payload, InFlight: 3})
		lane := newLane(l.Forth, payload).narrowed(3)
		require.NotZero(t, *word(l.Forth, lane.narrow-lane.stride))
		require.Equal(t, wide, *word(l.Forth, lane.narrow) != 0, "%d bytes", payload)
	}

	lane := newLane(lines(t, 1<<20).Forth, 20_000).narrowed(3)
	sender, receiver := lineSide{stopped: new(atomic.Bool), out: lane},
		lineSide{stopped: new(atomic.Bool), in: lane}
	sender.begin(7)
	receiver.begin(7)
	for range 1000 {
		count, tag := 1+rand.IntN(3), []uint64{0, lineWide, lineWide | lineBypass}[rand.IntN(3)]
		sender.post(tag, count)
		for range count {
			require.True(t, receiver.arrived())
			got, ok := receiver.accept()
			require.True(t, ok)
			require.Equal(t, tag, got)
		}
		require.False(t, receiver.arrived())
		require.Equal(t, sender.out.at, receiver.in.at)
	}
}
