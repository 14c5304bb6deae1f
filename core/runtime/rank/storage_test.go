package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/workload"
	"transportbench/core/transporttest/memory"
)

// TestStorage runs loads against a storage: every call is answered and verified, reads and writes
// take at least their delays, and lookups take less than a read.
func TestStorage(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"client-server": func(c *config.Config) {},
		"proxied":       func(c *config.Config) { c.Topology = config.TopologyMeshProxied },
		"immediate": func(c *config.Config) {
			c.Flush, c.Topology = config.FlushImmediate,
				config.TopologyMeshDirect
		},
		"sizes vary": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("uniform:1-100"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.ReadDelay, cfg.WriteDelay, cfg.StorageLanes = "300us", "uniform:200us-400us", 4
			require.NoError(t, cfg.Pattern.Set("lookup:7,read:6,write:3"))
			shape(&cfg)
			require.NoError(t, cfg.Validate())
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			runOnOneThread(t, ranks, 800)
			reads, writes := uint64(0), uint64(0)
			for _, r := range ranks {
				for _, thread := range r.threads {
					if thread.daemon != nil {
						continue
					}
					report := thread.client.Report(record.ThreadReport{})
					reads, writes = reads+report.Reads, writes+report.Writes
					require.Zero(t, report.Lost, "all are answered")
					require.Empty(t, report.Failures)
					shortest := func(op workload.Op) float64 {
						h, err := record.DecodeHistogram(
							report.Operations[op.String()].Latency.Histogram)
						require.NoError(t, err)
						return h.Quantile(0)
					}
					require.GreaterOrEqual(t, shortest(workload.Read), 295_000.0)
					require.GreaterOrEqual(t, shortest(workload.Write), 195_000.0)
					require.Less(t, shortest(workload.Lookup), 195_000.0,
						"does not wait for the storage")
				}
			}
			require.NotZero(t, reads)
			require.NotZero(t, writes)
		})
	}
}
