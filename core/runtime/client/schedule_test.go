package client

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestScheduleKeepsItsRate(t *testing.T) {
	clock := machine.Calibrated()
	for _, arrival := range []string{config.ArrivalConstant, config.ArrivalPoisson} {
		cfg := testConfig()
		cfg.Rate, cfg.Arrival, cfg.Ranks, cfg.Clients = 1e6, arrival, 3, 2 // 250k each
		p := newSchedule(cfg, clock, 1, 1, nil)
		p.begin(1000)
		const n = 200_000
		gap := clock.Hertz() / 250_000
		sum, squares, last := 0.0, 0.0, p.due
		for range n {
			p.next()
			d := float64(p.due-last) / gap
			sum += d
			squares += d * d
			last = p.due
		}
		mean := sum / n
		deviation := math.Sqrt(max(0, squares/n-mean*mean)) // which rounding may take below 0
		require.InDelta(t, 1, mean, 0.02)
		if arrival == config.ArrivalPoisson {
			require.InDelta(t, 1, deviation, 0.05, "exponential gaps deviate by their mean")
		} else {
			require.InDelta(t, 0, deviation, 0.01)
		}
		require.EqualValues(t, 0, p.overdue(p.due-1))
		require.EqualValues(t, 1, p.overdue(p.due))
		require.EqualValues(t, 11, p.overdue(p.due+uint64(10.5*gap)))
	}
}

func TestSliceCounter(t *testing.T) {
	var s sliceCounter
	s.reset(60 * record.Slices)
	s.start(1000)
	for tick := range uint64(60 * record.Slices) {
		s.record(1000+tick, tick+1)
	}
	list := s.report()
	require.Len(t, list, record.Slices)
	for _, ops := range list {
		require.EqualValues(t, 60, ops)
	}
	s.reset(60 * record.Slices)
	s.start(0)
	s.record(90, 7)
	require.Nil(t, s.report(), "cut short")
	s.record(60*record.Slices-50, 9) // in the first step of the last slice
	require.Equal(t, uint64(7), s.report()[1])
	require.Equal(t, uint64(2), s.report()[record.Slices-1])
}

// TestBurnTakesItsTime checks that over many calls a burn takes at least its time, even if the
// clock's steps are longer.
func TestBurnTakesItsTime(t *testing.T) {
	clock := machine.Calibrated()
	b := newBurner(clock, 30*time.Nanosecond)
	const calls = 100_000
	start := clock.Now()
	for range calls {
		b.spend(1)
	}
	spent := clock.Nanos(clock.Now() - start)
	// The time of the calls outside the spin counts as well.
	require.GreaterOrEqual(t, spent, uint64(calls*30*95/100))
	require.LessOrEqual(t, b.debt, int64(0))

	var none burner
	none.spend(1) // must not use its nil clock
}

// staller delays one poll by stall, after it has delivered a number of events.
type staller struct {
	transport.Worker
	after int
	stall time.Duration
}

func (s *staller) Poll(events []transport.Event) (int, error) {
	n, err := s.Worker.Poll(events)
	if s.after -= n; s.after <= 0 && s.stall > 0 {
		time.Sleep(s.stall)
		s.stall = 0
	}
	return n, err
}

// TestStallShowsInResponseTime checks against coordinated omission: one call in flight meets the
// stall, and all calls that are due during it have to wait.
func TestStallShowsInResponseTime(t *testing.T) {
	const stall, rate, samples = 50 * time.Millisecond, 10_000, 5000
	cfg := testConfig()
	cfg.InFlight, cfg.Rate, cfg.Arrival = 1, rate, config.ArrivalConstant
	p := newPair(t, cfg,
		func(w transport.Worker) transport.Worker { return &staller{w, 1000, stall} }, nil)
	report := p.windowOf(t, 1, samples)

	service, err := record.DecodeHistogram(report.Latency)
	require.NoError(t, err)
	response, err := record.DecodeHistogram(report.Open.Response.Histogram)
	require.NoError(t, err)
	// 500 of 5000 were due in the stall, so the median was not.
	require.GreaterOrEqual(t, response.Quantile(0.999), float64(stall)*0.9)
	require.Less(t, service.Quantile(0.5), float64(stall)/2)
	require.GreaterOrEqual(t, response.Quantile(0.5), service.Quantile(0.5)*0.99)
	// Waiting for the call in flight is not a lag of the schedule.
	lag, err := record.DecodeHistogram(report.Open.Lag.Histogram)
	require.NoError(t, err)
	require.Less(t, lag.Quantile(0.5), float64(stall)/2)
	require.GreaterOrEqual(t, report.Open.Scheduled, report.Reads+report.Writes)
}
