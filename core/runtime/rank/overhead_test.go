package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

// BenchmarkOverhead runs the client's loop against the null transport; ns/message is the time per
// op.
func BenchmarkOverhead(b *testing.B) {
	for _, inFlight := range []int{1, 32} {
		for _, reads := range []float64{1, 0.5} {
			cfg := config.Default()
			cfg.InFlight, cfg.ReadRatio = inFlight, reads
			b.Run(map[int]string{1: "in-flight=1", 32: "in-flight=32"}[inFlight]+map[float64]string{1: "/get", 0.5: "/half"}[reads], func(b *testing.B) {
				for range b.N {
					o, err := measureOverhead(record.Plan{Config: cfg, Idle: config.IdleSpin}, 100*time.Millisecond)
					require.NoError(b, err)
					b.ReportMetric(o.PerOpNS, "ns/message")
					b.ReportMetric(o.VerifyNS, "ns-verify")
					b.ReportMetric(o.StampNS, "ns-stamp")
				}
			})
		}
	}
}
