package rank

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

// BenchmarkOverhead measures the loops of a client and of a daemon on null transports. It reports
// the least of its rounds in nanoseconds per operation, so use -benchtime 100x or more where other
// programs run.
func BenchmarkOverhead(b *testing.B) {
	for _, load := range []struct {
		name string
		set  func(*config.Config)
	}{
		{"echo", func(c *config.Config) { c.Service, c.ReadRatio, c.VerifyEvery = config.ServiceEcho, 1, 16 }},
		{"pingpong", func(c *config.Config) { c.ReadRatio = 1 }},
		{"kv", func(*config.Config) {}},
		{"sink", func(c *config.Config) {
			c.Service, c.ReadRatio, c.ValueSize, c.VerifyEvery = config.ServiceSink, 0, config.FixedSize(64<<10), 64
		}},
	} {
		for _, inFlight := range []int{1, 32} {
			cfg := config.Default()
			cfg.InFlight = inFlight
			load.set(&cfg)
			require.NoError(b, cfg.Validate())
			b.Run(fmt.Sprintf("%s/in-flight=%d", load.name, inFlight), func(b *testing.B) {
				least := [2]float64{math.MaxFloat64, math.MaxFloat64}
				for side, isDaemon := range []bool{false, true} {
					o, err := newOverhead(record.Plan{Config: cfg, Idle: config.IdleSpin}, isDaemon, false)
					require.NoError(b, err)
					for range b.N {
						cost, err := o.measure(1024, 2*time.Millisecond)
						require.NoError(b, err)
						least[side] = min(least[side], cost)
					}
					require.NoError(b, o.close())
				}
				b.ReportMetric(least[0], "client-ns")
				b.ReportMetric(least[1], "daemon-ns")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
