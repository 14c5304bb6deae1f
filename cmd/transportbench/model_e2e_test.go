package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/findings"
)

// The queueing model predicts the throughput of 16 clients with one call each from that of one,
// with the times that the transport injects: 500 us at the daemon, and 20 ms elsewhere. It does so
// from a client with these 20 ms, and from one without them that is asked what if its own work took
// 20 ms, which is the same for a client with one call. A model whose calls visit any client would
// predict half of that. The times are so long that two processors are enough. As other programs may
// have them, one of a few tries counts for each.
func TestPredictionOfClients(t *testing.T) {
	const factor, tries = 1.5, 3
	good := [2]bool{}
	var ratios [2]float64
	for range tries {
		ratios = predictClients(t)
		for i, ratio := range ratios {
			good[i] = good[i] || ratio > 1/factor && ratio < factor
		}
		if good[0] && good[1] {
			return
		}
	}
	require.Failf(t, "predictions are off", "at last by factors of %.2f", ratios)
}

// predictClients returns the predictions over the measured throughput.
func predictClients(t *testing.T) [2]float64 {
	results := filepath.Join(t.TempDir(), "clients")
	require.NoError(t, os.Mkdir(results, 0o755))
	for _, load := range [][2]string{{"1", "0s"}, {"1", "20ms"}, {"16", "20ms"}} {
		i := command(t, "run", "--transport", "calibration", "--profile", "echo", "--clients",
			load[0], "--idle", "park",
			"--set", "daemon-time=500us", "--set", "delay="+load[1], "--duration", "300ms",
			"--warmup", "50ms", "--repeats", "3", "--launches", "1")
		require.Zero(t, i.run(t), i.stderr.String())
		files, err := filepath.Glob(i.out + "/*.json")
		require.NoError(t, err)
		for _, file := range files {
			require.NoError(t, os.Rename(file, filepath.Join(results, filepath.Base(file))))
		}
	}
	i := command(t, "analyze", results, "--what-if", "clients=16", "--what-if",
		"clients=16,client=20ms", "--json")
	require.Zero(t, i.run(t), i.stderr.String())
	var report findings.Analysis
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &report), i.stdout.String())
	cells := map[string]*findings.AnalyzedCell{}
	for i := range report.Cells {
		c := &report.Cells[i]
		cells[c.Config["clients"]+" "+c.Config["options.delay"]] = c
	}
	require.Len(t, cells, 3, "%v", cells)
	measured := cells["16 20ms"].Analysis.Law.Throughput
	fromSlow, fromFast := cells["1 20ms"].Predictions[0], cells["1 0s"].Predictions[1]
	require.NotNil(t, fromSlow.MeasuredAfter, "the set has the result of 16 clients")
	t.Logf("measured %.0f op/s; predicted %.0f from 1 client, and %.0f from one without its 20 ms",
		measured, fromSlow.Throughput, fromFast.Throughput)
	return [2]float64{fromSlow.Throughput / measured, fromFast.Throughput / measured}
}
