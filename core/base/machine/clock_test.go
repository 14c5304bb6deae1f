package machine

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/base/record"
	"transportbench/core/fabric/clock"
)

// The clock agrees with the standard library's: it measures a sleep within the time between
// readings around the sleep.
func TestClockAgreesWithMonotonic(t *testing.T) {
	for _, clock := range []*Clock{Calibrated(), monotonicClock("test")} {
		outer := time.Now()
		from := clock.Now()
		inner := time.Now()
		time.Sleep(20 * time.Millisecond)
		atLeast := time.Since(inner)
		elapsed := time.Duration(clock.Nanos(clock.Now() - from))
		atMost := time.Since(outer)
		slack := atMost / 500
		require.GreaterOrEqual(t, elapsed, atLeast-slack, clock.Name())
		require.LessOrEqual(t, elapsed, atMost+slack, clock.Name())
	}
}

// Transports read the clock of the measured loop.
func TestShareCalibrated(t *testing.T) {
	ShareCalibrated()
	outer, from := time.Now(), clock.Now()
	inner := time.Now()
	time.Sleep(20 * time.Millisecond)
	atLeast, elapsed := time.Since(inner), time.Duration(clock.Now()-from)
	atMost := time.Since(outer)
	require.GreaterOrEqual(t, elapsed, atLeast-atMost/500)
	require.LessOrEqual(t, elapsed, atMost+atMost/500)
}

func TestCalibratedIsShared(t *testing.T) {
	require.Same(t, Calibrated(), Calibrated())
	require.Equal(t, Calibrated().Fallback() == "", Calibrated().Name() != "monotonic")
}

func TestMonotonicClockTicksAreNanoseconds(t *testing.T) {
	clock := monotonicClock("a reason")
	require.Equal(t, "monotonic", clock.Name())
	require.Equal(t, "a reason", clock.Fallback())
	require.Equal(t, uint64(1<<63+12345), clock.Nanos(1<<63+12345))
	require.EqualValues(t, time.Hour, clock.Ticks(time.Hour))
	require.EqualValues(t, 0, clock.Ticks(-time.Second))
	require.InDelta(t, 1e9, clock.Hertz(), 1e-3)
}

// TestModalStep reads counters that advance in steps and are sometimes off by one.
func TestModalStep(t *testing.T) {
	for _, step := range []uint64{1, 26, 100} {
		at, n := uint64(1000), uint64(0)
		read := func() uint64 {
			at, n = at+18, n+1 // 18 ticks for each reading
			value := at / step * step
			if step > 1 && n%97 == 0 {
				value++
			}
			return value
		}
		want := step
		if step < 18 {
			want = 18 // a reading takes longer than a step
		}
		require.Equal(t, want, modalStep(read))
	}
	require.Zero(t, modalStep(func() uint64 { return 7 }), "a clock that stands still")
	require.Positive(t, Calibrated().Step())
	require.Less(t, Calibrated().Step(), 1000.0)
}

// Conversion does not overflow at any real rate, and is within 10 ppm and 1 ns of exact arithmetic.
func TestConversion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hertz := rapid.Uint64Range(1e6, 6e9).Draw(t, "hertz")
		window := uint64(2 * calibrationHalf)
		ticksInWindow := hertz * window / 1e9
		clock := Clock{counter: true, perTick: fixedRatio(window, ticksInWindow),
			perNano: fixedRatio(ticksInWindow, window)}

		ticks := rapid.Uint64Range(0, hertz*3600*24).Draw(t, "ticks")
		exact := new(big.Int).SetUint64(ticks)
		exact.Mul(exact, new(big.Int).SetUint64(window)).Div(exact,
			new(big.Int).SetUint64(ticksInWindow))
		require.InDelta(t, float64(exact.Uint64()), float64(clock.Nanos(ticks)),
			float64(exact.Uint64())*1e-5+1)

		d := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "duration"))
		back := clock.Nanos(clock.Ticks(d))
		perTick := 1e9/float64(hertz) + 1
		require.InDelta(t, float64(d), float64(back), float64(d)*1e-5+2*perTick)
	})
}

// fakeClocks advances a counter and a monotonic clock; the test sets the counter's rate for each
// sleep, in ticks per microsecond.
type fakeClocks struct {
	rates []int64
	now   pair
}

func (f *fakeClocks) sleep(d time.Duration) {
	r := f.rates[0]
	f.rates = f.rates[1:]
	f.now.nanos += uint64(d)
	f.now.ticks += uint64(int64(d) * r / 1000)
}

func TestCalibrate(t *testing.T) {
	tests := []struct {
		name  string
		rates []int64
		want  float64 // ticks per nanosecond
		left  int     // rates not used up
	}{
		{"steady", []int64{2600, 2600}, 2.6, 0},
		{"slow counter", []int64{25, 25, 25}, 0.025, 1},
		{"steady at the second attempt", []int64{2600, 2000, 2600, 2600, 1}, 2.6, 1},
		{"unsteady", []int64{2600, 2000, 2000, 2600, 1000, 3000}, 0, 0},
		{"standing", []int64{0, 0, 0, 0, 0, 0}, 0, 0},
		{"backwards", []int64{-2600, -2600, -2600, -2600, -2600, -2600}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clocks := &fakeClocks{rates: test.rates, now: pair{ticks: 1 << 62, nanos: 5}}
			perTick, perNano, err := calibrate(func() pair { return clocks.now }, clocks.sleep)
			require.Len(t, clocks.rates, test.left)
			if test.want == 0 {
				require.ErrorContains(t, err, "not steady")
				return
			}
			require.NoError(t, err)
			require.InEpsilon(t, test.want, float64(perNano)/(1<<32), 1e-6)
			require.InEpsilon(t, 1/test.want, float64(perTick)/(1<<32), 1e-6)
		})
	}
}

func TestCounterFault(t *testing.T) {
	const source = "sys/devices/system/clocksource/clocksource0/current_clocksource"
	const good = "processor : 0\nflags : fpu constant_tsc nonstop_tsc\n\nprocessor : 1\n"
	tests := []struct {
		name, arch string
		files      map[string]string
		want       string
	}{
		{"tsc", "amd64", map[string]string{"proc/cpuinfo": good, source: "tsc\n"}, ""},
		{"paravirtual", "amd64", map[string]string{"proc/cpuinfo": good, source: "kvm-clock\n"},
			""},
		{"hpet", "amd64", map[string]string{"proc/cpuinfo": good, source: "hpet\n"}, "hpet"},
		{"stops when idle", "amd64", map[string]string{"proc/cpuinfo": "flags : constant_tsc\n",
			source: "tsc\n"}, "nonstop_tsc"},
		{"varies", "amd64", map[string]string{"proc/cpuinfo": "flags : nonstop_tsc xconstant_tsc\n",
			source: "tsc\n"}, "constant_tsc"},
		{"no sysfs", "amd64", map[string]string{"proc/cpuinfo": good}, "cannot be read"},
		{"nothing", "amd64", nil, "constant_tsc"},
		{"arm", "arm64", map[string]string{source: "arch_sys_counter\n"}, ""},
		{"arm on another timer", "arm64", map[string]string{source: "timer\n"}, "timer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fault := tree(t, test.files).counterFault(test.arch)
			if test.want == "" {
				require.Empty(t, fault)
			} else {
				require.Contains(t, fault, test.want)
			}
		})
	}
}

func TestClockAndHistogramDoNotAllocate(t *testing.T) {
	clock, histogram := Calibrated(), record.NewRecorder()
	last := clock.Now()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now := clock.Now()
		histogram.Record(clock.Nanos(now - last))
		last = now
	}))
}

var sink uint64

func BenchmarkNow(b *testing.B) {
	for _, clock := range []*Clock{Calibrated(), monotonicClock("benchmark")} {
		b.Run(clock.Name(), func(b *testing.B) {
			for b.Loop() {
				sink = clock.Now()
			}
		})
	}
}

func BenchmarkNanos(b *testing.B) {
	clock, ticks := Calibrated(), uint64(1)
	for b.Loop() {
		ticks += clock.Nanos(ticks) | 1
	}
	sink = ticks
}

func BenchmarkRecord(b *testing.B) {
	histogram, ns := record.NewRecorder(), uint64(1)
	for b.Loop() {
		ns = (ns*6364136223846793005 + 1442695040888963407)
		histogram.Record(ns >> 50)
	}
}

// BenchmarkStamp measures the cost of timing one op.
func BenchmarkStamp(b *testing.B) {
	clock, histogram := Calibrated(), record.NewRecorder()
	last := clock.Now()
	for b.Loop() {
		now := clock.Now()
		histogram.Record(clock.Nanos(now - last))
		last = now
	}
}
