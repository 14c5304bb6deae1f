package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/set"
)

func TestExport(t *testing.T) {
	const results = "../../../../results/v0.1.0/amd-epyc-2core-vm"
	cmd := &command{T: t}
	for format, want := range map[string]string{
		"csv":         "throughput (op/s)",
		"benchfmt":    "BenchmarkShm/provider=memfd/in_flight=1/",
		"hdr":         "#[Histogram log format version",
		"openmetrics": "# EOF",
		"json":        `"kind": "set"`,
		"table":       "transport  provider",
	} {
		require.Zero(t, cmd.execute("export", "--format", format, results), cmd.stderr)
		require.Contains(t, cmd.stdout, want)
	}
	dir := t.TempDir()
	require.Zero(t, cmd.execute("export", "--format", "hdr", results, "--output", dir), cmd.stderr)
	tables, err := filepath.Glob(filepath.Join(dir, "*.hgrm"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.FileExists(t, filepath.Join(dir, "service-time.hlog"))

	// Readings of microbenchmarks have no histograms, and runs beside them have.
	mixed := t.TempDir()
	reading := setOf(t, func(s *set.Set) {
		for i := range s.Cells {
			s.Cells[i].Config[set.MicroOption] = "spsc"
		}
	}, 1e6)
	require.Equal(t, ExitTooLittle, cmd.execute("export", "--format", "hdr", reading,
		"--output", mixed))
	require.Contains(t, cmd.stderr, "shm: no histograms")
	both := t.TempDir()
	require.NoError(t, os.Link(committedCell(t, "shm"), filepath.Join(both, "run.json")))
	require.NoError(t, os.CopyFS(filepath.Join(both, "micro"), os.DirFS(reading)))
	require.Zero(t, cmd.execute("export", "--format", "hdr", both, "--output", mixed), cmd.stderr)
	tables, err = filepath.Glob(filepath.Join(mixed, "*.hgrm"))
	require.NoError(t, err)
	require.Len(t, tables, 1)

	whole := filepath.Join(dir, "whole.json")
	require.Zero(t, cmd.execute("export", "--format", "json", results, "-o", whole), cmd.stderr)
	require.Zero(t, cmd.execute("diff", whole, results, "--metric", "throughput"), cmd.stderr)

	require.Equal(t, ExitUsage, cmd.execute("export", "--format", "xml", results))
	require.Equal(t, ExitUsage, cmd.execute("export", "/nonexistent"))
	require.Equal(t, ExitUsage, cmd.execute("export"))
	require.Equal(t, ExitUsage, cmd.execute("export", results, "-o", "/proc/none/x"))
	index := filepath.Join(t.TempDir(), "index.json")
	text, err := os.ReadFile(filepath.Join(setOf(t, nil, 1e6), "index.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, text, 0o600))
	require.Zero(t, cmd.execute("export", index), "an index alone will do for what is in it")
}
