package cellpage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// The phases of a start are those of the slowest rank, means over the launches, stacked and without
// a rest that nothing explains.
func TestStart(t *testing.T) {
	setup := result.Setup{CloseMS: 0.2, Ranks: []record.RankSetup{
		{OpenNS: 1e6, ConnectAllNS: 3e5, RegisterNS: 9e5},
		{OpenNS: 1e6, WorkersNS: 5e5, ConnectAllNS: 1e5, RegisterNS: 5e5, FirstCallMaxNS: 5e4},
	}}
	slower := result.Setup{CloseMS: 0.4,
		Ranks: []record.RankSetup{{OpenNS: 35e5, ConnectAllNS: 5e5, RegisterNS: 5e5}}}
	b := startOf([]*result.Result{
		// an older version's has no ranks
		{Launches: []result.Launch{{Setup: setup}, {Setup: result.Setup{CloseMS: 1}}}},
		{Launches: []result.Launch{{Setup: slower}}},
	})
	means := map[string]float64{}
	for _, p := range b.Parts {
		means[p.Label()] = p.Mean
	}
	require.Equal(t, map[string]float64{"open: register": 5e5, "open": 2e6, "connect": 4e5,
		"first call": 2.5e4, "close": 3e5}, means)
	require.InDelta(t, 3.225e6, b.Whole, 1)
	require.Nil(t, startOf([]*result.Result{{Launches: []result.Launch{{}}}}))
}

func TestRates(t *testing.T) {
	window := func(slices ...[]uint64) result.Repeat {
		report := record.Report{Rank: 1}
		for _, counts := range slices {
			report.Clients = append(report.Clients, record.ClientReport{Slices: counts})
		}
		return result.Repeat{Ranks: []record.Report{report}}
	}
	r := &result.Result{Repeats: []result.Repeat{
		window([]uint64{10, 20, 30, 40}, []uint64{1, 1, 1, 1})}}
	r.Config.Duration = config.Duration(2 * time.Second)
	require.Equal(t, [][]float64{{22, 42, 62, 82}}, ratesOf(r)) // in 0.5 s each
	r.Repeats[0] = window([]uint64{10, 20, 30, 40}, nil)
	require.Empty(t, ratesOf(r), "a window that was cut short")
}
