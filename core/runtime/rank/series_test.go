package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// recorder is a worker that records the calls of StartRecording.
type recorder struct {
	transport.Worker
	windows []time.Duration
	parts   int
}

func (w *recorder) StartRecording(r transport.Recording) {
	w.windows, w.parts = append(w.windows, r.Window), r.Parts
}

func (w *recorder) ReadRecording() transport.Recorded {
	values := make([]float64, w.parts)
	for i := range values {
		values[i] = 1.0 / 3
	}
	return transport.Recorded{Series: []transport.Series{
		{Name: "third", Help: "of it", Values: values}}}
}

// TestSeriesAreRecorded checks that reports have the series of each window, in three digits.
func TestSeriesAreRecorded(t *testing.T) {
	var workers []*recorder
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		one := &recorder{Worker: w}
		workers = append(workers, one)
		return one
	}}
	cfg := testConfig()
	ranks := cluster(t, driver, cfg, config.IdleYield)
	const window = 20 * time.Millisecond
	for range 2 {
		first, others, err := runAll(t, ranks, record.Window{Duration: window, SampleEvery: 1})
		require.NoError(t, err)
		for _, series := range [][]transport.Series{first.Daemons[0].Series,
			others[0].Clients[0].Series} {
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
