package floor

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	memory, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
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
	for _, size := range []int{0, 16, 48, 49, 1000, 70_000, 500_000, 1<<20 - transport.ProbeHeader} {
		for _, inFlight := range []int{0, 1, 3, 32, 1000} {
			probe := transport.Probe{Kind: transport.ProbeRate, Duration: time.Millisecond, Forth: 16, Back: size, InFlight: inFlight}
			require.Positive(t, probeLines(t, l, probe).PerOp, "%d bytes, %d in flight", size, inFlight)
		}
		probe := transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond, Forth: size, Back: 16}
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(1000))*time.Microsecond)
		kind := []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate}[i%2]
		var sides sync.WaitGroup
		for _, initiate := range []bool{true, false} {
			if i%4 == 3 && initiate {
				continue
			}
			sides.Go(func() {
				side := *l
				_, err := side.Probe(ctx, transport.Probe{Kind: kind, Initiate: initiate, Duration: time.Hour, Forth: 100, Back: 30, InFlight: 5})
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

// BenchmarkLinesOverBounce shows what the ping-pong of one line each way takes over the bounce of a
// single line.
func BenchmarkLinesOverBounce(b *testing.B) {
	l := lines(b, 1<<20)
	var ratios []float64
	var line struct {
		_    [128]byte
		word atomic.Uint64
		_    [128]byte
	}
	for range 40 {
		var far sync.WaitGroup
		far.Go(func() { _, _ = Bounce(b.Context(), &line.word, false, 0) })
		bounce, err := Bounce(b.Context(), &line.word, true, 500*time.Microsecond)
		far.Wait()
		require.NoError(b, err)
		ratios = append(ratios, probeLines(b, l, transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond}).RoundTrip/bounce.RoundTrip)
	}
	b.ReportMetric(Median(ratios), "lines/bounce")
}

// BenchmarkLines shows the floors of memory by payload and in flight.
func BenchmarkLines(b *testing.B) {
	l := lines(b, 8<<20)
	for _, size := range []int{16, 48, 240, 1 << 10, 4 << 10, 64 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("medium/%d", size), func(b *testing.B) {
			f := probeLines(b, l, transport.Probe{Kind: transport.ProbeMedium, Duration: 20 * time.Millisecond, Forth: 16, Back: size})
			b.ReportMetric(f.RoundTrip, "ns/trip")
		})
		for _, n := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("rate/%d/%d", size, n), func(b *testing.B) {
				f := probeLines(b, l, transport.Probe{Kind: transport.ProbeRate, Duration: 20 * time.Millisecond, Forth: 16, Back: size, InFlight: n})
				b.ReportMetric(f.PerOp, "ns/op")
			})
		}
	}
}
