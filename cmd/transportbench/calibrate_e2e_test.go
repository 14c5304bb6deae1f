package main

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
)

// TestCalibrate makes a quick calibration over the real transport, and checks the order of
// magnitude of the longest delay that it injects.
func TestCalibrate(t *testing.T) {
	inLongTests(t)
	const longest = 500 // of the first experiment, in ns
	out := filepath.Join(t.TempDir(), "made")
	i := command(t, "calibrate", "--quick", "--out", out)
	require.NoError(t, i.cmd.Start())
	require.Zero(t, i.wait(t), i.stderr.String())
	d, err := calibration.Read(filepath.Join(out, calibration.FileName))
	require.NoError(t, err)
	cells := d.Experiments[0].Set.Cells
	low := func(i int) float64 { return slices.Min(cells[i].Samples[result.LatencyP50]) }
	added := low(len(cells)-1) - low(0)
	require.InDelta(t, math.Log10(longest), math.Log10(added), 1, "%v", added)
}
