package rdmaperf

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options() Options {
	return Options{Device: rdma.Options{Provider: rdma.Soft}, Inline: 220, Postlist: 16, Depth: 128, Duration: time.Millisecond}
}

func TestEveryMeasurementHasAReading(t *testing.T) {
	var seen []string
	require.NoError(t, Run(t.Context(), options(), func(string) bool { return true }, func(r transport.Measurement) error {
		require.Positive(t, r.Samples, r.Name)
		require.Positive(t, r.Latency+r.Rate, r.Name)
		if len(seen) == 0 || seen[len(seen)-1] != r.Name {
			seen = append(seen, r.Name)
		}
		return nil
	}))
	require.Equal(t, Names(), seen)
}

func TestEndsWithItsContext(t *testing.T) {
	o := options()
	o.Duration = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for _, name := range []string{"write-latency", "send-rate"} {
		err := Run(ctx, o, func(n string) bool { return n == name }, func(transport.Measurement) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}
