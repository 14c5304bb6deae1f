package runner

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/store/result"
)

func TestSetupMetrics(t *testing.T) {
	samples := map[string]float64{}
	sample.Setup(&result.Setup{CloseMS: 3, Steps: []result.Step{{Name: StepLaunch, MS: 7},
		{Name: StepConnect, MS: 2}}, Ranks: []record.RankSetup{
		{OpenNS: 100, WorkersNS: 50, RegisteredBytes: 1 << 20, RegisterNS: 40, Connections: 3,
			ConnectNS: 30, ConnectAllNS: 25},
		{OpenNS: 10, WorkersNS: 20, RegisteredBytes: 3 << 20, RegisterNS: 40, Connections: 1,
			ConnectNS: 50, ConnectAllNS: 51, FirstCalls: 1, FirstCallNS: 7, FirstCallMaxNS: 7},
		{OpenNS: 10, Connections: 1, ConnectNS: 20, ConnectAllNS: 20, FirstCalls: 1, FirstCallNS: 9,
			FirstCallMaxNS: 9},
	}}, samples)
	require.Equal(t, map[string]float64{
		result.SetupOpen: 150, result.SetupRegister: 20, result.SetupConnect: 20,
		result.SetupConnectAll: 51, result.SetupExchange: 2e6 - 51,
		result.FirstCall: 8, result.Teardown: 3e6,
	}, samples)

	samples = map[string]float64{}
	sample.Setup(&result.Setup{Ranks: []record.RankSetup{{OpenNS: 1}}}, samples)
	require.Equal(t, map[string]float64{result.SetupOpen: 1}, samples,
		"what did not happen has no metric")
}

// Each launch of a run has the setup of all its ranks, and one sample of its metrics.
func TestSetupOfLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), launched(newCluster(), 2), nil)
		require.NoError(t, err)
		require.Len(t, r.Launches, 2)
		for _, l := range r.Launches {
			require.Len(t, l.Setup.Ranks, r.Config.Ranks)
		}
		require.Equal(t, 2, r.Summary[result.SetupOpen].N)
		var first []bool
		for _, repeat := range r.Repeats {
			_, has := repeat.Samples[result.SetupOpen]
			first = append(first, has)
			for _, report := range repeat.Ranks {
				require.Nil(t, report.Setup, "the result has it once")
			}
		}
		require.Equal(t, []bool{true, false, false, true, false}, first)
	})
}
