package rank

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/wiring"
)

// BenchmarkClient is the client's part of BenchmarkOverhead for the other loops: open ones, and
// closed ones that draw their requests as they go.
func BenchmarkClient(b *testing.B) {
	for _, load := range []struct {
		name string
		set  func(*config.Config)
	}{
		{"open/echo", func(c *config.Config) {
			c.Rate, c.Service, c.ReadRatio, c.VerifyEvery = 1e9, config.ServiceEcho, 1, 16
		}},
		{"open/kv", func(c *config.Config) { c.Rate = 1e9 }},
		{"open/drawn", func(c *config.Config) { c.Rate, c.Keys = 1e9, 1<<20 }},
		{"drawn", func(c *config.Config) { c.Keys = 1 << 20 }},
		{"pattern", func(c *config.Config) {
			c.Pattern = config.Pattern{
				{Op: config.OpRead, Count: 3}, {Op: config.OpWrite, Count: 1},
			}
		}},
	} {
		for _, inFlight := range []int{1, 32} {
			cfg := config.Default()
			cfg.InFlight = inFlight
			load.set(&cfg)
			require.NoError(b, cfg.Validate())
			b.Run(fmt.Sprintf("%s/in-flight=%d", load.name, inFlight), func(b *testing.B) {
				n, repeated := cfg.Requests()
				cfg.Keys = min(cfg.Keys, overheadKeys)
				null, err := newNullServer(cfg)
				require.NoError(b, err)
				w := wiring.Wiring{Config: cfg, Rank: 1}
				client, err := client.NewWith(w, 0, config.IdleSpin, null, n, repeated)
				require.NoError(b, err)
				best := math.MaxFloat64
				o := &overhead{client: client}
				for range b.N {
					cost, err := o.measure(1024, 2*time.Millisecond)
					require.NoError(b, err)
					best = min(best, cost)
				}
				require.NoError(b, o.close())
				b.ReportMetric(best, "client-ns")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
