package machine

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/fabric/clock"
)

// Clock is the time source of the measured loop, in ticks. It reads the processor's counter if the
// kernel trusts it, else the monotonic clock. A Clock is immutable; any thread may use it.
//
// Ticks of the counter are comparable between the processes of one host, ticks of the monotonic
// clock only within one process.
type Clock struct {
	counter  bool
	perTick  uint64 // nanoseconds, times 2^32
	perNano  uint64 // ticks, times 2^32
	name     string
	fallback string
}

// The length of half a calibration, and the largest relative difference between the rates of its
// halves. A reading is accurate to about 100 ns, which is 20 ppm of a half.
const (
	calibrationHalf      = 5 * time.Millisecond
	calibrationTolerance = 1e-3
	calibrationAttempts  = 3
)

var epoch = time.Now()

// Calibrated returns the clock of the process. The first call takes about 10 ms. If the
// calibration fails, it is the monotonic clock, and [Clock.Fallback] has the error.
var Calibrated = sync.OnceValue(func() *Clock {
	c, err := newClock()
	if err != nil {
		return monotonicClock(err.Error())
	}
	return c
})

// ShareCalibrated calibrates the clock of the process, and has transports (core/fabric/clock) read
// the same counter.
func ShareCalibrated() {
	if c := Calibrated(); c.counter {
		clock.UseTicks(c.perTick)
	}
}

// newClock calibrates the processor's counter against CLOCK_MONOTONIC, which takes about 10 ms. If
// the kernel does not trust the counter, it returns the monotonic clock at once. It fails if the
// kernel trusts the counter but its rate is not steady.
func newClock() (*Clock, error) {
	if fault := Root("/").counterFault(runtime.GOARCH); fault != "" {
		return monotonicClock(fault), nil
	}
	perTick, perNano, err := calibrate(readPair, time.Sleep)
	if err != nil {
		return nil, err
	}
	return &Clock{counter: true, perTick: perTick, perNano: perNano,
		name: counterName(runtime.GOARCH)}, nil
}

func monotonicClock(why string) *Clock {
	return &Clock{perTick: 1 << 32, perNano: 1 << 32, name: "monotonic", fallback: why}
}

func counterName(arch string) string {
	if arch == "arm64" {
		return "cntvct"
	}
	return "tsc"
}

// Now returns the time in ticks. It does not allocate or make a system call.
func (c *Clock) Now() uint64 {
	if c.counter {
		return clock.Ticks()
	}
	return uint64(time.Since(epoch))
}

// Nanos converts ticks to nanoseconds, rounded down. It does not overflow below 2^64 ns.
func (c *Clock) Nanos(ticks uint64) uint64 {
	hi, lo := bits.Mul64(ticks, c.perTick)
	return hi<<32 | lo>>32
}

// Ticks converts a duration to ticks, rounded down; a negative duration is 0 ticks.
func (c *Clock) Ticks(d time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(max(d, 0)), c.perNano)
	return hi<<32 | lo>>32
}

// Step returns the resolution of the clock in nanoseconds: the most frequent difference between two
// successive readings that differ. It takes about 100 us.
func (c *Clock) Step() float64 { return float64(c.Nanos(modalStep(c.Now)<<10)) / (1 << 10) }

// modalStep returns the most frequent difference between successive readings that differ, in ticks.
// The least difference would not do: a counter that advances by many ticks at a time is sometimes
// off by one.
func modalStep(read func() uint64) (ticks uint64) {
	var readings [1 << 12]uint64 // counted afterwards, so that they follow each other closely
	for i := range readings {
		readings[i] = read()
	}
	counts := make(map[uint64]int)
	for i := range readings[1:] {
		counts[readings[i+1]-readings[i]]++
	}
	delete(counts, 0)
	count := 0
	for step, n := range counts {
		if n > count || n == count && step < ticks {
			ticks, count = step, n
		}
	}
	return ticks
}

// Name returns "tsc", "cntvct" or "monotonic".
func (c *Clock) Name() string { return c.name }

// Hertz returns the clock's rate in ticks per second.
func (c *Clock) Hertz() float64 { return float64(c.perNano) / (1 << 32) * 1e9 }

// Fallback returns the reason why the clock is not the processor's counter, or an empty string if
// it is.
func (c *Clock) Fallback() string { return c.fallback }

// Both reads both clocks: this one, in ticks, and the kernel's monotonic clock, in nanoseconds.
func (c *Clock) Both() (ticks, monotonic uint64) {
	p := closest(8, c.Now, Monotonic)
	return p.ticks, p.nanos
}

// pair is a reading of both clocks at about the same time.
type pair struct {
	ticks uint64
	nanos uint64
}

// readPair reads the counter and the monotonic clock.
func readPair() pair {
	return closest(32, clock.Ticks, func() uint64 { return uint64(time.Since(epoch)) })
}

// closest reads one clock between two readings of the other, several times, and returns the
// readings that are closest: an interrupt between them, or the loss of the processor, moves them
// apart.
func closest(times int, ticks, nanos func() uint64) (best pair) {
	width := uint64(math.MaxUint64)
	for range times {
		before := ticks()
		at := nanos()
		if after := ticks(); after-before < width {
			width = after - before
			best = pair{before + width/2, at}
		}
	}
	return best
}

func calibrate(read func() pair, sleep func(time.Duration)) (perTick, perNano uint64, err error) {
	var first, second float64
	for range calibrationAttempts {
		start := read()
		sleep(calibrationHalf)
		middle := read()
		sleep(calibrationHalf)
		end := read()
		first, second = rate(start, middle), rate(middle, end)
		if first > 0 && math.Abs(second-first) <= calibrationTolerance*first {
			ticks, nanos := end.ticks-start.ticks, end.nanos-start.nanos
			return fixedRatio(nanos, ticks), fixedRatio(ticks, nanos), nil
		}
	}
	return 0, 0, fmt.Errorf("calibrating the processor's counter: its rate is not steady (%.4g, "+
		"then %.4g ticks per ns): "+
		"the host is overloaded or moved the virtual machine; run again", first, second)
}

// rate returns ticks per nanosecond, or 0 if one of the clocks did not advance.
func rate(from, to pair) float64 {
	if to.ticks <= from.ticks || to.nanos <= from.nanos {
		return 0
	}
	return float64(to.ticks-from.ticks) / float64(to.nanos-from.nanos)
}

// fixedRatio returns a/b times 2^32.
func fixedRatio(a, b uint64) uint64 {
	q, _ := bits.Div64(a>>32, a<<32, b)
	return q
}

// counterFault returns the reason why the processor's counter cannot be the clock, or an empty
// string if it can. The counter must have the same rate in every power state, and the kernel,
// which also checks that it is the same on all cores, must not have marked it unstable.
func (r Root) counterFault(arch string) string {
	source := r.Text("sys/devices/system/clocksource/clocksource0/current_clocksource")
	trusted := []string{"arch_sys_counter"}
	if arch == "amd64" {
		// The paravirtual clock sources are computed from the TSC.
		trusted = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"}
		flags := strings.Fields(r.cpuInfo()["flags"])
		for _, flag := range []string{"constant_tsc", "nonstop_tsc"} {
			if !slices.Contains(flags, flag) {
				return "the processor does not report " + flag + ", so the TSC's rate may change"
			}
		}
	}
	switch {
	case source == "":
		return "the kernel's clock source cannot be read, so the counter may be unreliable"
	case !slices.Contains(trusted, source):
		return fmt.Sprintf("the kernel uses the clock source %s, so it does not trust the counter",
			source)
	}
	return ""
}
