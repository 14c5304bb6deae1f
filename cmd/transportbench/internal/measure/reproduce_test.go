package measure_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// reproduces executes reproduce with plugins that fake the transports of all documents.
func reproduces(c *clitest.Command, args ...string) int {
	c.Helper()
	if c.Out == "" {
		c.Out = filepath.Join(c.TempDir(), "out")
	}
	if c.Run == nil {
		c.Run = clitest.OneRepeat
	}
	dir := clitest.PluginDir(c.T, "grpc", "shm", "copyrpc", "ucxam", "erpc", "tcpx")
	return c.Execute(append([]string{"reproduce", "--plugin-dir", dir, "--out", c.Out, "--repeats",
		"1"}, args...)...)
}

func TestReproduce(t *testing.T) {
	c := &clitest.Command{T: t}
	require.Zero(t, reproduces(c, "kvstore"), c.Stderr)
	require.Contains(t, c.Stdout, "Performance by concurrency\n")
	require.Contains(t, c.Stdout, "81.5 iteration/s")
	require.FileExists(t, filepath.Join(c.Out, "runs", "index.json"))

	require.Equal(t, app.ExitUsage, reproduces(c, "kvstore"))
	require.Contains(t, c.Stderr,
		"there is a reproduction already; use --resume to continue it, or another --out\n")
	require.Zero(t, reproduces(c, "kvstore", "--resume"), c.Stderr)

	c = &clitest.Command{T: t}
	require.Equal(t, app.ExitUsage, reproduces(c, "kvstore", "--resume"))
	require.Contains(t, c.Stderr, "--resume: "+c.Out+" has no reproduction\n")
	require.Equal(t, app.ExitUsage, reproduces(c, "kvstor"))
	require.Contains(t, c.Stderr, `did you mean "kvstore"?`)
	require.Equal(t, app.ExitUsage, reproduces(c, "kvstore", "--transport", "grcp"))
	require.Contains(t, c.Stderr, `did you mean "grpc"?`)
	require.NoDirExists(t, c.Out)
	require.Equal(t, app.ExitUsage, reproduces(c, "shm", "--hosts", "a,b"))
	require.Contains(t, c.Stderr, "microbenchmarks measure one host")
	require.Equal(t, app.ExitUsage, reproduces(c, "shm", "--value-size", "8"))
	require.Contains(t, c.Stderr,
		"--value-size: shm has only microbenchmarks, for which --duration and --repeats are\n")
	require.Equal(t, app.ExitUsage, reproduces(c, "tcpx", "--duration", "1s,2s"))
	require.Contains(t, c.Stderr, `--duration: "1s,2s" is not a duration`)
	require.Zero(t, reproduces(c, "shm", "--duration", "30ms", "--dry-run"), c.Stderr)
	require.Contains(t, c.Stdout, "micro shm lookup --duration 30ms\n")
	d, err := reproduce.Load(results.Files, "shm")
	require.NoError(t, err)
	for _, table := range d.Tables {
		require.Contains(t, c.Stdout, table.Title)
	}
}

// TestReproducedRows checks that the sweeps of every document have a cell for each row.
func TestReproducedRows(t *testing.T) {
	for _, name := range reproduce.Names(results.Files) {
		d, err := reproduce.Load(results.Files, name)
		require.NoError(t, err)
		for _, full := range []string{"", "--full"} {
			if !d.Sweep {
				continue
			}
			c := &clitest.Command{T: t}
			code := reproduces(c, append(strings.Fields(full), name, "--json")...)
			// the fakes have no microbenchmarks
			require.Contains(t, []int{0, app.ExitThreshold}, code, c.Stderr)
			all, err := consistency.ReadSet(c.Out)
			require.NoError(t, err)
			for _, table := range d.Tables {
				for _, row := range table.Rows {
					if len(row.Ours) == 0 || strings.Contains(row.Ours[0], "micro=") {
						continue
					}
					require.True(t, slices.ContainsFunc(row.Ours, func(pattern string) bool {
						return slices.ContainsFunc(all.Cells, func(cell set.Cell) bool {
							return cell.Status == set.Measured && set.Match(pattern, cell.Config)
						})
					}), "%s %s: %s: %s", name, full, table.Title, row.Name)
				}
			}
		}
	}
}

// TestReproduceInterrupted checks that what was measured is kept and shown.
func TestReproduceInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	runs := 0
	c := &clitest.Command{T: t, Ctx: ctx, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if runs++; runs > 2 {
			cancel()
			return nil, ctx.Err()
		}
		return clitest.OneRepeat(ctx, req, obs)
	}}
	require.Equal(t, app.ExitInterrupted, reproduces(c, "kvstore"))
	require.Contains(t, c.Stdout, "Performance by concurrency\n")
	require.Contains(t, c.Stderr, "to continue, repeat the command with --resume --out "+c.Out)
	files, err := os.ReadDir(filepath.Join(c.Out, "runs", "cells"))
	require.NoError(t, err)
	require.Len(t, files, 2)
}
