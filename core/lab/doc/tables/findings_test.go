package tables_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// TestPublishedCalibration compares the documents with the committed calibrations that they show,
// and each calibration's conclusions with its own samples. With -update it rewrites both.
func TestPublishedCalibration(t *testing.T) {
	read := map[string]*calibration.Document{} // each is concluded from once
	tables.CompareBlocks(t, tables.Calibrated, func(root string, block [][]byte) []byte {
		path := filepath.Join(root, string(block[2]))
		if read[path] == nil {
			read[path] = readCalibration(t, path)
		}
		if string(block[1]) == "power" {
			return []byte(doc.Markdown(power(read[path])))
		}
		return []byte(doc.Markdown(trust(read[path])))
	})
}

func readCalibration(t *testing.T, path string) *calibration.Document {
	t.Helper()
	d, err := calibration.Read(path)
	require.NoError(t, err)
	again := *d
	require.NoError(t, calibration.Conclude(&again))
	if *doctest.Update {
		d = &again
		require.NoError(t, calibration.Write(path, d))
		require.NoError(t, exec.Command("gzip", "-9nf", path).Run())
	}
	require.Equal(t, d, &again, "conclusions that do not follow from the samples")
	return d
}

// trust returns the summary of a calibration.
func trust(d *calibration.Document) *doc.Doc {
	out := new(doc.Doc)
	for _, line := range d.Summary() {
		out.Item(line)
	}
	return out
}

// power returns the power of a calibration as a matrix.
func power(d *calibration.Document) *doc.Doc {
	rows := d.Measured()
	header := []string{"detected over"}
	for i := range rows[0].Trials {
		header = append(header, fmt.Sprintf(">change %d", i+1))
	}
	table := doc.NewTable(header...)
	for _, p := range rows {
		processors := "quiet"
		if p.Loaded {
			processors = "loaded"
		}
		row := []any{fmt.Sprintf("%s with %d repeats, %s processors", p.Class, p.Repeats,
			processors)}
		for _, trial := range p.Trials {
			row = append(row, fmt.Sprintf("%s: %d of %d", format.Share(trial.Known), trial.Found,
				trial.Count))
		}
		table.Row(row...)
	}
	out := new(doc.Doc)
	out.Add(table)
	return out
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
