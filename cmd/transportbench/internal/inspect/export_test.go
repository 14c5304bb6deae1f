package inspect_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/store/set"
)

func TestExport(t *testing.T) {
	const results = "../../../../results/v0.1.0/amd-epyc-2core-vm"
	cmd := &clitest.Command{T: t}
	for format, want := range map[string]string{
		"csv":      "throughput (op/s)",
		"benchfmt": "BenchmarkShm/provider=memfd/in_flight=1/",
		"hdr":      "#[Histogram log format version",
		"json":     `"kind": "set"`,
		"table":    "transport  provider",
	} {
		require.Zero(t, cmd.Execute("export", "--format", format, results), cmd.Stderr)
		require.Contains(t, cmd.Stdout, want)
	}
	dir := t.TempDir()
	require.Zero(t, cmd.Execute("export", "--format", "hdr", results, "--output", dir), cmd.Stderr)
	tables, err := filepath.Glob(filepath.Join(dir, "*.hgrm"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.FileExists(t, filepath.Join(dir, "service-time.hlog"))

	// Readings of microbenchmarks have no histograms, and runs beside them have.
	mixed := t.TempDir()
	reading := clitest.SetOf(t, func(s *set.Set) {
		for i := range s.Cells {
			s.Cells[i].Config[set.MicroOption] = "spsc"
		}
	}, 1e6)
	require.Equal(t, app.ExitTooLittle, cmd.Execute("export", "--format", "hdr", reading,
		"--output", mixed))
	require.Contains(t, cmd.Stderr, "shm: no histograms")
	both := t.TempDir()
	require.NoError(t, os.Link(clitest.CommittedCell(t, "shm"), filepath.Join(both, "run.json.gz")))
	require.NoError(t, os.CopyFS(filepath.Join(both, "micro"), os.DirFS(reading)))
	require.Zero(t, cmd.Execute("export", "--format", "hdr", both, "--output", mixed), cmd.Stderr)
	tables, err = filepath.Glob(filepath.Join(mixed, "*.hgrm"))
	require.NoError(t, err)
	require.Len(t, tables, 1)

	whole := filepath.Join(dir, "whole.json")
	require.Zero(t, cmd.Execute("export", "--format", "json", results, "-o", whole), cmd.Stderr)
	require.Zero(t, cmd.Execute("diff", whole, results, "--metric", "throughput"), cmd.Stderr)

	require.Equal(t, app.ExitUsage, cmd.Execute("export", "--format", "xml", results))
	require.Equal(t, app.ExitUsage, cmd.Execute("export", "/nonexistent"))
	require.Equal(t, app.ExitUsage, cmd.Execute("export"))
	require.Equal(t, app.ExitUsage, cmd.Execute("export", results, "-o", "/proc/none/x"))
	index := filepath.Join(t.TempDir(), "index.json")
	text, err := os.ReadFile(filepath.Join(clitest.SetOf(t, nil, 1e6), "index.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, text, 0o600))
	require.Zero(t, cmd.Execute("export", index), "an index alone will do for what is in it")
}
