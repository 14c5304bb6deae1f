package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// journalLine is a finished launch of a calibration: the cell of an experiment in a round.
type journalLine struct {
	Experiment int                `json:"e"`
	Cell       int                `json:"c"`
	Round      int                `json:"r"`
	Samples    map[string]float64 `json:"samples"`
}

// calibrateUntil starts a calibration in out and interrupts it once its journal has so many
// launches.
func calibrateUntil(t *testing.T, out string, launches int, args ...string) []journalLine {
	t.Helper()
	i := command(t, append([]string{"calibrate", "--quick", "--out", out}, args...)...)
	require.NoError(t, i.cmd.Start())
	var text []byte
	read := func() bool {
		text, _ = os.ReadFile(filepath.Join(out, "calibration.journal"))
		return bytes.Count(text, []byte("\n")) > launches // the first line is a header
	}
	require.Eventually(t, read, 2*time.Minute, 10*time.Millisecond, "%s", &i.stderr)
	require.NoError(t, i.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, i.wait(t), i.stderr.String())
	require.Contains(t, i.stderr.String(), "to continue, repeat the command with --resume --out "+
		out)
	read()
	var lines []journalLine
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n"))[1:] {
		var l journalLine
		require.NoError(t, json.Unmarshal(line, &l))
		lines = append(lines, l)
	}
	return lines
}

// TestCalibrate measures the first rounds of a calibration over the real transport, in two parts,
// and checks the order of magnitude of the longest delay among them.
func TestCalibrate(t *testing.T) {
	// the cells of the first experiment, and the delay of the last one in ns
	const delays, longest = 7, 500
	out := filepath.Join(t.TempDir(), "made")
	calibrateUntil(t, out, 10)
	lines := calibrateUntil(t, out, 3*delays, "--resume")
	low, once := [delays]float64{}, map[[3]int]bool{}
	for _, l := range lines {
		once[[3]int{l.Experiment, l.Cell, l.Round}] = true
		if p50 := l.Samples["latency_p50"]; l.Experiment == 0 &&
			(low[l.Cell] == 0 || p50 < low[l.Cell]) {
			low[l.Cell] = p50
		}
	}
	require.Len(t, once, len(lines), "no launch is measured twice")
	require.InDelta(t, math.Log10(longest), math.Log10(low[delays-1]-low[0]), 1, "%v", low)
}
