package tables_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
)

// TestPublishedCalibration compares the documents with the committed calibrations that they show,
// and each calibration's conclusions with its own samples. With -update it rewrites both.
func TestPublishedCalibration(t *testing.T) {
	trust := map[string][]byte{} // each is concluded from once
	tables.CompareBlocks(t, tables.Calibrated, func(root string, block [][]byte) []byte {
		path := filepath.Join(root, string(block[1]))
		if trust[path] != nil {
			return trust[path]
		}
		d, err := calibration.Read(path)
		require.NoError(t, err)
		again := *d
		require.NoError(t, calibration.Conclude(&again))
		if *doctest.Update {
			d = &again
			require.NoError(t, calibration.Write(path, d))
		}
		require.Equal(t, d, &again, "conclusions that do not follow from the samples")
		trust[path] = []byte(doc.Markdown(findings.Trust(d)))
		return trust[path]
	})
}

// A ranking and a comparison show the medians in the state that both sides have in common, so they
// do not contradict the change, which is within states: over all windows, quick is the slower one.
func TestMediansInCommonState(t *testing.T) {
	both, old, new := tables.StatesApart(t)
	ranking, err := compare.Along(both, "transport", compare.Defaults())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, doc.WriteText(&out, findings.Ranking(ranking), doc.Screen{}))
	require.Regexp(t, `quick 3\.00 M op/s near +1\.50x `, out.String())
	require.Contains(t, out.String(), "\nall throughput: quick a, slow b 1.50x\n")

	report, err := compare.Diff(old, new, compare.Defaults())
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, doc.WriteText(&out, findings.Diff(report, true), doc.Screen{}))
	require.Regexp(t, `throughput +2\.00 M op/s near +3\.00 M op/s near +\+50\.0%`, out.String())
}
