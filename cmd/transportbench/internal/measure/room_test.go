package measure_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
)

// What does not fit the disk is refused before the first window.
func TestResultsThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=360k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	plugins := clitest.PluginDir(t, "fake", "other", "grpc", "calibration")
	for name, args := range map[string][]string{
		"run":       {"run", "--transport", "fake"},
		"sweep":     {"sweep", "--transport", "fake,other"},
		"in order":  {"sweep", "--transport", "fake,other", "--order", "sequential"},
		"ab":        {"ab", "--transport", "fake", "--a", "in-flight=2"},
		"reproduce": {"reproduce", "kvstore"},
		"calibrate": {"calibrate", "--quick"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(dir, "made")
			c := &clitest.Command{T: t, Run: func(context.Context, runner.Request,
				runner.Observer) (*result.Result, error) {
				t.Error("a run has begun")
				return nil, nil
			}}
			require.Equal(t, app.ExitUsage,
				c.Execute(append(args, "--plugin-dir", plugins, "--out", out)...), c.Stderr)
			require.Regexp(t,
				`transportbench: checking the results directory: the results take up to \d+ KiB, and 360 KiB are free: `+
					out+`: no space left on device; free some space or choose another directory with --out\n$`, c.Stderr)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}

	// One repeat of each cell fits.
	c := &clitest.Command{T: t, Run: clitest.OneRepeat}
	sweep := []string{"sweep", "--transport", "fake", "--repeats", "1", "--plugin-dir", plugins,
		"--out", filepath.Join(dir, "made")}
	require.Zero(t, c.Execute(sweep...), c.Stderr)
	// What is on disk needs no room again.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 200<<10), 0o600))
	require.Zero(t, c.Execute(append(sweep, "--resume")...), c.Stderr)
}
