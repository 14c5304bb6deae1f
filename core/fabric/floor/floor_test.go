package floor

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

func TestMain(m *testing.M) {
	// Two sides spin; the tests that cancel them need a processor of Go's scheduler as well.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	goleak.VerifyTestMain(m)
}

// words is a Medium of two words in memory, as RDMA WRITE has it: Take returns the last
// number again and again. It loses a share of what is posted.
type words struct {
	in, out *atomic.Uint64
	loss    float64
	err     error
}

func (m *words) Post(number uint64) error {
	if rand.Float64() >= m.loss {
		m.out.Store(number)
	}
	return m.err
}

func (m *words) Take() (uint64, bool, error) {
	runtime.Gosched()
	number := m.in.Load()
	return number, number != 0, nil
}

func sides() (a, b *PingPong) {
	var forth, back atomic.Uint64
	return &PingPong{Name: "words", Medium: &words{in: &back, out: &forth}, Batch: 4},
		&PingPong{Name: "words", Medium: &words{in: &forth, out: &back}, Batch: 4}
}

func TestPingPong(t *testing.T) {
	a, b := sides()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 4 { // each side leads in turn, on the same words
		var far sync.WaitGroup
		far.Go(func() {
			reading, err := b.Run(ctx, false, 0)
			require.NoError(t, err)
			require.Zero(t, reading)
		})
		reading, err := a.Run(ctx, true, time.Millisecond)
		far.Wait()
		require.NoError(t, err)
		require.Equal(t, "words", reading.Name)
		require.Positive(t, reading.RoundTrip)
		require.Positive(t, reading.Samples)
		require.Zero(t, reading.Samples%4)
		require.Equal(t, a.number, b.number)
		// A side that led without an answer is ahead of the other.
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, err = a.Run(short, true, time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		a, b = b, a
	}
}

// farAway is a Medium that echoes each number after an exact delay.
type farAway struct {
	delay  time.Duration
	after  time.Time // when the echo of number arrives
	number uint64
}

func (m *farAway) Post(number uint64) error {
	m.number, m.after = number, time.Now().Add(m.delay)
	return nil
}

func (m *farAway) Take() (uint64, bool, error) { return m.number, !time.Now().Before(m.after), nil }

// TestPingPongFarAway: a side does not sleep while the answer is on a long way. The least of many
// runs counts, because load can only lengthen a round trip. A side that slept after 100 us, for at
// least 50 us, would need 150 us.
func TestPingPongFarAway(t *testing.T) {
	const delay = 120 * time.Microsecond
	p := &PingPong{Medium: &farAway{delay: delay}}
	minimum := math.Inf(1)
	for tries := 0; tries < 100 && minimum > 1.2*float64(delay); tries++ {
		reading, err := p.Run(t.Context(), true, 2*time.Millisecond)
		require.NoError(t, err)
		minimum = min(minimum, reading.RoundTrip)
	}
	require.InDelta(t, float64(delay), minimum, 0.2*float64(delay))
}

func TestPingPongAlone(t *testing.T) {
	for _, initiate := range []bool{true, false} {
		a, _ := sides()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := a.Run(ctx, initiate, time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
}

func TestPingPongOfLosses(t *testing.T) {
	a, b := sides()
	a.Medium.(*words).loss, b.Medium.(*words).loss = 0.1, 0.1
	a.LostAfter = 1000
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	over, end := context.WithCancel(ctx)
	var far sync.WaitGroup
	far.Go(func() {
		_, err := b.Run(over, false, 0)
		require.ErrorIs(t, err, context.Canceled, "a medium that loses numbers sends no end mark")
	})
	reading, err := a.Run(ctx, true, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, reading.Samples)
	end()
	far.Wait()
}

// lateJoiner is a Medium that drops the first number and echoes the others.
type lateJoiner struct {
	number uint64
	looks  int // for the first
}

func (m *lateJoiner) Post(number uint64) error {
	m.number = number
	return nil
}

func (m *lateJoiner) Take() (uint64, bool, error) {
	if m.number <= 1 {
		m.looks++
		return 0, false, nil
	}
	return m.number, true, nil
}

// TestPingPongBeforeTheOtherSide: a first number that gets lost is given up soon.
func TestPingPongBeforeTheOtherSide(t *testing.T) {
	m := &lateJoiner{}
	p := &PingPong{Medium: m, LostAfter: 1 << 20}
	reading, err := p.Run(t.Context(), true, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, reading.Samples)
	require.Less(t, m.looks, 1<<12)
}

func TestPingPongOfABrokenMedium(t *testing.T) {
	a, _ := sides()
	broken := errors.New("broken")
	a.Medium.(*words).err = broken
	_, err := a.Run(t.Context(), true, time.Millisecond)
	require.ErrorIs(t, err, broken)
}

func TestMedian(t *testing.T) {
	require.Zero(t, Median(nil))
	require.InDelta(t, 2, Median([]float64{3, 1, 2}), 0)
}

func TestCacheLine(t *testing.T) {
	var line atomic.Uint64
	for range 2 { // on the same line
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		var far sync.WaitGroup
		far.Go(func() {
			reading, err := CacheLine(ctx, &line, false, 0)
			require.NoError(t, err)
			require.Zero(t, reading)
		})
		reading, err := CacheLine(ctx, &line, true, time.Millisecond)
		require.NoError(t, err)
		far.Wait()
		require.Positive(t, reading.RoundTrip)
		require.Positive(t, reading.Samples)
		require.Zero(t, line.Load())
		cancel()
	}
}

func TestCacheLineAlone(t *testing.T) {
	for _, initiate := range []bool{true, false} {
		var line atomic.Uint64
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		_, err := CacheLine(ctx, &line, initiate, time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
}

// TestCacheLineCancelled cancels both sides at random moments, repeatedly on the same line, while a
// hostile peer writes into it.
func TestCacheLineCancelled(t *testing.T) {
	var line atomic.Uint64
	for i := range 60 {
		ctx, cancel := context.WithCancel(context.Background())
		var sides sync.WaitGroup
		for _, initiate := range []bool{true, false} {
			sides.Go(func() { _, _ = CacheLine(ctx, &line, initiate, time.Hour) })
		}
		for range i % 7 {
			line.Store(wordOver)
			time.Sleep(100 * time.Microsecond)
		}
		cancel()
		sides.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var far sync.WaitGroup
	far.Go(func() { _, _ = CacheLine(ctx, &line, false, 0) })
	reading, err := CacheLine(ctx, &line, true, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, reading.RoundTrip)
	far.Wait()
}

// Batches that another program disturbed do not count, even if they are half of all.
func TestFasterHalf(t *testing.T) {
	require.InDelta(t, 301, fasterHalf([]float64{900, 300, 1700, 301, 302, 800, 303, 850}), 1)
	require.InDelta(t, 50, fasterHalf([]float64{50}), 0)
}

// TestAloneSleeps: a probe of memory without the other side gives its processor away.
func TestAloneSleeps(t *testing.T) {
	sleeps := func() int64 {
		var usage unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &usage))
		return usage.Nvcsw
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := lines(t, 1<<16)
	for _, initiate := range []bool{true, false} {
		for name, probe := range map[string]func(context.Context) (transport.Floor, error){
			"cache line": func(ctx context.Context) (transport.Floor, error) {
				return CacheLine(ctx, new(atomic.Uint64), initiate, time.Second)
			},
			"lines": func(ctx context.Context) (transport.Floor, error) {
				return l.Probe(ctx, transport.Probe{Kind: transport.ProbeMedium, Initiate: initiate,
					Duration: time.Second})
			},
		} {
			// On a busy machine the thread may not run at all for some milliseconds.
			for tries, before := 0, sleeps(); tries == 0 || sleeps() < before+5; tries++ {
				require.Less(t, tries, 100, "%s, initiate %v", name, initiate)
				before = sleeps()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				_, err := probe(ctx)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
	}
}
