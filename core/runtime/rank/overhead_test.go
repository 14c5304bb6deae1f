package rank

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

// BenchmarkOverhead runs the client's loop against the null transport; ns/message is the time per
// op.
func BenchmarkOverhead(b *testing.B) {
	for name, set := range map[string]func(*config.Config){
		"get":  func(c *config.Config) { c.ReadRatio = 1 },
		"kv":   func(*config.Config) {},
		"echo": func(c *config.Config) { c.Service, c.ReadRatio, c.VerifyEvery = config.ServiceEcho, 1, 16 },
	} {
		for _, inFlight := range []int{1, 32} {
			cfg := config.Default()
			cfg.InFlight = inFlight
			set(&cfg)
			require.NoError(b, cfg.Validate())
			b.Run(fmt.Sprintf("%s/in-flight=%d", name, inFlight), func(b *testing.B) {
				for range b.N {
					o, err := measureOverhead(record.Plan{Config: cfg, Idle: config.IdleSpin}, 100*time.Millisecond)
					require.NoError(b, err)
					b.ReportMetric(o.PerOpNS, "ns/message")
				}
			})
		}
	}
}
