package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transporttest/memory"
)

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
