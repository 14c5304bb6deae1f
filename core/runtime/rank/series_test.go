package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// tracing is a worker that tells how often it was traced and over what.
type tracing struct {
	transport.Worker
	windows []time.Duration
	parts   int
}

func (w *tracing) StartSeries(parts int, d time.Duration) {
	w.windows, w.parts = append(w.windows, d), parts
}

func (w *tracing) ReadSeries(dst []transport.Series) []transport.Series {
	values := make([]float64, w.parts)
	for i := range values {
		values[i] = 1.0 / 3
	}
	return append(dst, transport.Series{Name: "third", Help: "of it", Values: values})
}

// TestWorkersAreTraced over each window, and reports have what they tell, in three digits.
func TestWorkersAreTraced(t *testing.T) {
	var workers []*tracing
	driver := wrapped{transporttest.NewMemoryDriver(), func(w transport.Worker) transport.Worker {
		one := &tracing{Worker: w}
		workers = append(workers, one)
		return one
	}}
	cfg := testConfig()
	ranks := cluster(t, driver, cfg, config.IdleYield)
	const window = 20 * time.Millisecond
	for range 2 {
		first, others, err := runAll(t, ranks, record.Window{Duration: window, SampleEvery: 1})
		require.NoError(t, err)
		for _, series := range [][]transport.Series{first.Daemons[0].Series, others[0].Clients[0].Series} {
			require.Len(t, series, 1)
			require.Equal(t, "third", series[0].Name)
			require.Len(t, series[0].Values, record.Slices)
			require.Equal(t, 0.333, series[0].Values[record.Slices-1])
		}
	}
	require.NotEmpty(t, workers)
	for _, w := range workers {
		require.Equal(t, []time.Duration{window, window}, w.windows)
	}
}
