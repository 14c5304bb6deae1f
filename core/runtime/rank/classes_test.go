package rank

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/transporttest/memory"
)

// TestClassesOfTraffic runs windows of all classes and of each alone.
func TestClassesOfTraffic(t *testing.T) {
	cfg := testConfig()
	require.NoError(t,
		cfg.Classes.Set("bulk:3000B,in-flight=4;open:100B,rate=5k,in-flight=2;rpc:16B,clients=2"))
	cfg.Service, cfg.ReadRatio = config.ServiceEcho, 1
	cfg.Clients, cfg.InFlight, cfg.ValueSize = 4, 4, config.FixedSize(3000)
	require.NoError(t, cfg.Validate())
	sizes := []uint64{3000, 100, 16, 16}
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	clients := ranks[1].clients()
	require.Len(t, clients, len(sizes))
	for _, only := range []int{0, 2, 3, 1, 0} {
		first, others, err := runWindow(t, ranks, record.Window{Duration: time.Hour,
			SampleEvery: 1, Only: only}, func(record.Progress) {}, func() {
			for i, c := range clients {
				calls := only == 0 || cfg.ClassOf(i) == only-1
				for calls && client.Progress([]*client.Client{c}, 0).Ops <= 10 {
					time.Sleep(time.Millisecond)
				}
			}
			_ = ranks[1].Advance(context.Background(), record.StateDraining)
		})
		require.NoError(t, err)
		requireServedIssued(t, append(others, first))
		for i, c := range others[0].Clients {
			require.Empty(t, c.Failures)
			require.Equal(t, cfg.ClassOf(i) == 1, c.Open != nil,
				"only the class with a rate is an open loop")
			if only > 0 && cfg.ClassOf(i) != only-1 {
				require.Zero(t, c.Issued, "client %d calls in the window of class %d", i, only)
				require.True(t, c.Open == nil || c.Open.Scheduled == 0)
				continue
			}
			require.Greater(t, c.Ops(), uint64(10))
			require.Equal(t, 2*sizes[i]*c.Ops(), c.PayloadBytes,
				"an echo of the class's own size, forth and back")
			require.LessOrEqual(t, c.Drained, uint64(cfg.Classes[cfg.ClassOf(i)].InFlight))
		}
	}
}
