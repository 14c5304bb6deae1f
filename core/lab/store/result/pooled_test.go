package result

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
)

// windowOf returns a window with samples of 1 us, of which stalled take 10 ms.
func windowOf(samples, stalled int) Responses {
	h := record.NewHistogram()
	for i := range samples {
		if i < stalled {
			h.Record(10_000_000)
		} else {
			h.Record(1000)
		}
	}
	return Responses{Histogram: h.Encode(), StepNS: 10}
}

// A stall in one window of ten is in the pooled percentile; a median over the windows drops it.
func TestPoolKeepsARareStall(t *testing.T) {
	windows := []Responses{windowOf(10_000, 500)}
	for range 9 {
		windows = append(windows, windowOf(10_000, 0))
	}
	pooled, err := Pool(windows)
	require.NoError(t, err)
	p := pooled[ResponseP999]
	require.InEpsilon(t, 10e6, p.Value, 0.01)
	require.EqualValues(t, 100_000, p.Samples)
	require.Equal(t, 10, p.Windows)
	require.InEpsilon(t, 1000, *p.Low, 0.02, "another measurement may have no stall")
	require.InEpsilon(t, 10e6, *p.High, 0.01)
	require.InEpsilon(t, 1000, pooled[ResponseP99].Value, 0.02)
	require.InEpsilon(t, 1000, *pooled[ResponseP50].High, 0.02)
	require.InEpsilon(t, 10e6, pooled[ResponseMax].Value, 0.01)

	again, err := Pool(windows)
	require.NoError(t, err)
	require.Equal(t, pooled, again)
}

func TestPoolNeedsSamplesAndWindows(t *testing.T) {
	for samples, want := range map[int][]string{
		100_000: {ResponseP50, ResponseP90, ResponseP99, ResponseP999, ResponseMax},
		10_000:  {ResponseP50, ResponseP90, ResponseP99, ResponseP999, ResponseMax},
		9_000:   {ResponseP50, ResponseP90, ResponseP99, ResponseMax},
		900:     {ResponseP50, ResponseP90, ResponseMax},
		10:      {ResponseMax},
	} {
		pooled, err := Pool([]Responses{windowOf(samples, 0)})
		require.NoError(t, err)
		var names []string
		for _, d := range Definitions {
			if p, has := pooled[d.Name]; has {
				names = append(names, d.Name)
				require.Nil(t, p.Low, "one window has no interval")
			}
		}
		require.Equal(t, want, names, "%d samples", samples)
	}
	pooled, err := Pool([]Responses{windowOf(0, 0), {}})
	require.ErrorContains(t, err, "decoding histogram")
	require.Nil(t, pooled)
	pooled, err = Pool([]Responses{windowOf(0, 0)})
	require.NoError(t, err)
	require.Nil(t, pooled)
}

func BenchmarkPool(b *testing.B) {
	var windows []Responses
	for i := range 10 {
		h := record.NewHistogram()
		for j := range 100_000 {
			h.Record(uint64(1000 + (i*7919+j*104729)%100_000))
		}
		windows = append(windows, Responses{h.Encode(), 10})
	}
	for b.Loop() {
		_, _ = Pool(windows)
	}
}
