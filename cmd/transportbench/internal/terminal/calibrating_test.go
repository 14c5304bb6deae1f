package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
)

// aCalibration has the beginnings of launches of two experiments.
var aCalibration = []experiment.Status{
	{Label: "delay", Repeat: 1, Repeats: 10, Run: 1, Runs: 40, Left: 80 * time.Second},
	{Label: "delay", Repeat: 10, Repeats: 10, Run: 20, Runs: 40, Left: 42 * time.Second},
	{Label: "self", Repeat: 1, Repeats: 1, Run: 40, Runs: 40, Left: 2 * time.Second},
}

func TestPlainCalibrationProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewCalibrationProgress(&out)
	for _, s := range aCalibration {
		p.Begin(s).Progress(runner.Status{Step: runner.StepRepeat})
	}
	p.Close()
	require.Equal(t, "delay: 10 rounds, 1m20s left\nself: 1 round, 2s left\n", out.String())
}

func TestCalibrationLine(t *testing.T) {
	for _, width := range []int{120, 80, 40} {
		var out bytes.Buffer
		p := NewCalibrationProgress(&out)
		p.width = func() int { return width }
		for _, s := range aCalibration {
			out.Reset()
			p.Begin(s)
			frame := strings.TrimSuffix(strings.TrimPrefix(out.String(), "\r"), "\x1b[K")
			require.Less(t, len(frame), width, "%q", frame)
			require.Contains(t, frame, fmt.Sprintf("[%d/%d] ", s.Run, s.Runs))
			require.Contains(t, frame, " left: "+s.Label)
		}
		out.Reset()
		p.Close()
		require.Equal(t, "\r\x1b[K", out.String())
	}
}
