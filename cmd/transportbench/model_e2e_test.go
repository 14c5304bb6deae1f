package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/present"
)

// The queueing model predicts the throughput of 16 clients, which keep the daemon busy, from that of one,
// which does so for a tenth of the time. The times are those that the transport injects, so long that
// two processors are enough. As other programs may have them, one of a few tries counts.
func TestPredictionOfClients(t *testing.T) {
	const factor, tries = 1.5, 4
	var ratio float64
	for range tries {
		results := filepath.Join(t.TempDir(), "clients")
		require.NoError(t, os.Mkdir(results, 0o755))
		for _, clients := range []string{"1", "16"} {
			i := command(t, "run", "--transport", "calibration", "--profile", "echo", "--clients", clients, "--idle", "park",
				"--set", "daemon-time=1ms", "--set", "delay=10ms", "--duration", "500ms", "--warmup", "50ms", "--repeats", "3")
			require.Zero(t, i.run(t), i.stderr.String())
			files, err := filepath.Glob(i.out + "/*.json")
			require.NoError(t, err)
			for _, file := range files {
				require.NoError(t, os.Rename(file, filepath.Join(results, filepath.Base(file))))
			}
		}
		i := command(t, "analyze", results, "--cell", "calibration,clients=1", "--what-if", "clients=16", "--json")
		require.Zero(t, i.run(t), i.stderr.String())
		var report present.Analysis
		require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &report), i.stdout.String())
		prediction := report.Cells[0].Predictions[0]
		require.True(t, strings.HasPrefix(prediction.Message, "with clients=16 the model expects"), prediction.Message)
		require.NotNil(t, prediction.MeasuredAfter, "the result of 16 clients")
		ratio = prediction.Throughput / prediction.MeasuredAfter.Median
		t.Logf("predicted %.0f op/s, measured %.0f op/s", prediction.Throughput, prediction.MeasuredAfter.Median)
		if ratio > 1/factor && ratio < factor {
			return
		}
	}
	require.Failf(t, "the prediction is off", "by a factor of %.2f", ratio)
}
