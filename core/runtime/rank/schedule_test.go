package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

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
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	client := ranks[1].threads[0].client
	client.Worker = &staller{client.Worker, 1000, stall}
	_, others := runUntil(t, ranks, 1, samples)
	report := others[0].Clients[0]

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

// TestBurnInOpenLoop checks that each call of an open loop is burned for, although few are issued
// in an iteration that polls a response.
func TestBurnInOpenLoop(t *testing.T) {
	const burn = time.Millisecond
	cfg := testConfig()
	cfg.Rate, cfg.Arrival, cfg.Burn = 200, config.ArrivalConstant, config.Duration(burn)
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	_, others := runUntil(t, ranks, 1, 20)
	// A call is posted after its burn.
	service, err := record.DecodeHistogram(others[0].Clients[0].Latency)
	require.NoError(t, err)
	require.GreaterOrEqual(t, service.Quantile(0.5), float64(burn)*0.9)
}

// TestRateBeyondReach checks that operations that were due but not issued are counted.
func TestRateBeyondReach(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight, cfg.Rate = 1, config.Rate(900e6)
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	_, others := runUntil(t, ranks, 1, 1000)
	report := others[0].Clients[0]
	require.Greater(t, report.Open.Scheduled, 2*(report.Reads+report.Writes))
}
