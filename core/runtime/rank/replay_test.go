package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// TestReplayedRequestsAreTheDrawnOnes checks that a client which replays issues what its generator
// draws, in the same order, and again from the start.
func TestReplayedRequestsAreTheDrawnOnes(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"uniform": func(*config.Config) {},
		"zipfian": func(c *config.Config) {
			c.Distribution, c.ReadRatio = config.DistributionZipfian, 0.9
		},
		"sequential": func(c *config.Config) {
			c.Distribution = config.DistributionSequential
		},
		"a pattern": func(c *config.Config) {
			require.NoError(t, c.Pattern.Set("lookup:7,read:6,write:3"))
		},
		"sizes that vary": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("uniform:0-300"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			shape(&cfg)
			n, repeated := cfg.Requests()
			require.True(t, repeated)
			generator, r := workload.New(cfg, 0), workload.Request{}
			drawn := make([]workload.Request, n)
			for i := range drawn {
				generator.Next(&drawn[i])
			}
			issued := 0
			driver := wrapped{memory.NewDriver(),
				func(w transport.Worker) transport.Worker {
					return wiringtest.Watched{Worker: w, Posted: func(op *transport.Op) {
						if op.Kind != transport.OpCall {
							return
						}
						r = drawn[issued%n]
						key, _ := kv.KeyOf(op.Payload)
						if key != r.Key || len(op.Payload) != kv.HeaderSize+r.Size {
							t.Errorf("call %d is for key %d with %d bytes, drawn was %+v",
								issued, key,
								len(op.Payload), r)
						}
						issued++
					}}
				}}
			_, clients := runUntil(t, cluster(t, driver, cfg, config.IdleYield), 64, uint64(3*n/64))
			require.Empty(t, clients[0].Clients[0].Failures)
			require.Greater(t, issued, 2*n)
		})
	}
}
