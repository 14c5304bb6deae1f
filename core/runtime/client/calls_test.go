package client

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
)

// TestMeasuredLoopDoesNotAllocate runs a million requests through client and daemon on one thread.
func TestMeasuredLoopDoesNotAllocate(t *testing.T) {
	for _, flush := range []string{config.FlushLoop, config.FlushImmediate} {
		cfg := testConfig()
		cfg.InFlight, cfg.Flush = 32, flush
		p := newPair(t, cfg, nil, nil)
		p.begin(t, 8)
		require.Zero(t, testing.AllocsPerRun(1, func() { p.untilOps(t, 1_000_000) }))
		p.drain(t)
	}
}

// TestWrongTwice checks that a read-modify-write with two wrong responses counts as one operation,
// and that its read is verified as rarely as other reads.
func TestWrongTwice(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight, cfg.VerifyEvery = 1, 2
	require.NoError(t, cfg.Mix.Set("rmw:1"))
	p := newPair(t, cfg, nil, nil)
	take := func(ops uint64) {
		p.begin(t, 1)
		p.untilOps(t, ops)
		p.drain(t)
	}
	take(100)
	require.EqualValues(t, 50, p.counts.sums)
	p.worker = wiringtest.Spoil(p.worker, func(e *transport.Event) { e.Payload = e.Payload[:7] })
	take(100)
	report := p.Report(record.ThreadReport{})
	require.Zero(t, report.VerifiedKeys)
	require.GreaterOrEqual(t, report.Failures[kv.FailureShort.String()], uint64(200))
}

// TestResponsesToNobody gives every response a token that no call has.
func TestResponsesToNobody(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight = 1
	p := newPair(t, cfg, func(w transport.Worker) transport.Worker {
		return wiringtest.Spoil(w, func(e *transport.Event) { e.Token += 1 << 40 })
	}, nil)
	p.begin(t, 1)
	p.until(t, func() bool { return p.counts.unknownToken > 0 })
	require.Equal(t, map[string]uint64{"unknown token": 1}, p.failures())
}

// TestProgressDoesNotWaitForSamples checks that progress has the operations up to liveEvery before
// the last ones, although no latency is sampled.
func TestProgressDoesNotWaitForSamples(t *testing.T) {
	p := newPair(t, testConfig(), nil, nil)
	p.begin(t, 1<<20)
	for range 10 {
		done := p.counts.ops
		for start := time.Now(); time.Since(start) < liveEvery; {
		}
		p.untilOps(t, done+1)
		progress := Progress([]*Client{p.Client}, time.Second)
		require.Equal(t, p.counts.ops, progress.Ops)
	}
	require.Zero(t, p.counts.samples)
	p.drain(t)
}

// TestEveryCallIsTimed integrates the calls in flight over the window. The result must be, to
// the tick, the sum of the latencies of the completed calls and the ages of the calls in flight at
// its end. So the exact mean and the mean of samples are the same figure.
func TestEveryCallIsTimed(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"closed": func(*config.Config) {},
		"open":   func(c *config.Config) { c.Rate = 100_000 },
	} {
		cfg := testConfig()
		shape(&cfg)
		caller := newPair(t, cfg, nil, nil)
		caller.Begin(Window{SampleEvery: 1, Duration: time.Hour})
		start := caller.clock.Now()
		caller.counted = start
		require.NoError(t, caller.Load(start))
		caller.untilOps(t, 2000)
		end := caller.clock.Now()
		caller.count(end)
		caller.counts.found = caller.counts.polls - caller.counts.empty
		caller.counts.window = end - start
		rest := uint64(0)
		for i := range caller.calls {
			if s := &caller.calls[i]; s.state == callInFlight {
				rest += end - s.started
			}
		}
		require.Equal(t, caller.counts.ops, caller.counts.samples)
		require.Equal(t, caller.counts.inFlight, caller.counts.latencySum+rest, name)
		r := caller.Report(record.ThreadReport{})
		require.InDelta(t, r.MeanNS*float64(r.Ops()), r.InFlightNS-caller.clock.Nanos(rest), 3,
			"each of the three is rounded to nanoseconds")
		require.Positive(t, r.BusyNS)
		caller.drain(t)
	}
}

// holder polls nothing while holding is set.
type holder struct {
	transport.Worker
	holding *atomic.Bool
}

func (h holder) Poll(events []transport.Event) (int, error) {
	if h.holding.Load() {
		return 0, nil
	}
	return h.Worker.Poll(events)
}

func TestLateAnswersDoNotSpoilTheNextWindow(t *testing.T) {
	var holding atomic.Bool
	p := newPair(t, testConfig(),
		func(w transport.Worker) transport.Worker { return holder{w, &holding} }, nil)
	p.drainLimit = 10 * time.Millisecond

	holding.Store(true)
	r, err := p.window(t, 1, func() bool { return p.daemon.Requests() == 8 })
	require.NoError(t, err)
	require.EqualValues(t, 8, r.Lost)

	// These calls are still open, so a new window would have twice as many in flight.
	r, err = p.window(t, 1, func() bool { return false })
	require.ErrorContains(t, err, "8 calls of the last window were not answered")
	require.Zero(t, r.ElapsedNS, "it did not measure")

	holding.Store(false)
	p.drainLimit = 10 * time.Second
	r = p.windowOf(t, 1, 100)
	require.Empty(t, r.Failures)
	require.Zero(t, r.Lost)
	require.Zero(t, p.inFlight)
}
