package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/result"
	"transportbench/results"
)

// reproduces executes reproduce with plugins that fake the transports of all documents.
func (c *command) reproduces(args ...string) int {
	c.Helper()
	if c.out == "" {
		c.out = filepath.Join(c.TempDir(), "out")
	}
	if c.run == nil {
		c.run = oneRepeat
	}
	dir := pluginDir(c.T, "grpc", "shm", "copyrpc", "ucxam", "erpc", "tcpx")
	return c.execute(append([]string{"reproduce", "--plugin-dir", dir, "--out", c.out, "--repeats",
		"1"}, args...)...)
}

func TestReproduce(t *testing.T) {
	c := &command{T: t}
	require.Zero(t, c.reproduces("kvstore"), c.stderr)
	require.Contains(t, c.stdout, "Performance by concurrency\n")
	require.Contains(t, c.stdout, "81.5 iteration/s")
	require.FileExists(t, filepath.Join(c.out, reproducedRuns, "index.json"))

	require.Equal(t, ExitUsage, c.reproduces("kvstore"))
	require.Contains(t, c.stderr,
		"there is a reproduction already; use --resume to continue it, or another --out\n")
	require.Zero(t, c.reproduces("kvstore", "--resume"), c.stderr)

	c = &command{T: t}
	require.Equal(t, ExitUsage, c.reproduces("kvstore", "--resume"))
	require.Contains(t, c.stderr, "--resume: "+c.out+" has no reproduction\n")
	require.Equal(t, ExitUsage, c.reproduces("kvstor"))
	require.Contains(t, c.stderr, `did you mean "kvstore"?`)
	require.Equal(t, ExitUsage, c.reproduces("kvstore", "--transport", "grcp"))
	require.Contains(t, c.stderr, `did you mean "grpc"?`)
	require.NoDirExists(t, c.out)
	require.Equal(t, ExitUsage, c.reproduces("shm", "--hosts", "a,b"))
	require.Contains(t, c.stderr, "microbenchmarks measure one host")
	require.Equal(t, ExitUsage, c.reproduces("shm", "--value-size", "8"))
	require.Contains(t, c.stderr,
		"--value-size: shm has only microbenchmarks, for which --duration and --repeats are\n")
	require.Equal(t, ExitUsage, c.reproduces("tcpx", "--duration", "1s,2s"))
	require.Contains(t, c.stderr, `--duration: "1s,2s" is not a duration`)
	require.Zero(t, c.reproduces("shm", "--duration", "30ms", "--dry-run"), c.stderr)
	require.Contains(t, c.stdout, "micro shm lookup --duration 30ms\n")
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
			c := &command{T: t}
			code := c.reproduces(append(strings.Fields(full), name, "--json")...)
			// the fakes have no microbenchmarks
			require.Contains(t, []int{0, ExitThreshold}, code, c.stderr)
			compared := new(reproduce.Comparison)
			require.NoError(t, json.Unmarshal([]byte(c.stdout), compared))
			for i, table := range d.Tables {
				for j, row := range table.Rows {
					if len(row.Ours) > 0 && !strings.Contains(row.Ours[0], "micro=") {
						require.NotContains(t, compared.Tables[i].Lines[j].Missing, "not measured",
							"%s %s: %s", name, full, row.Name)
					}
				}
			}
		}
	}
}

// TestReproduceInterrupted checks that what was measured is kept and shown.
func TestReproduceInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	runs := 0
	c := &command{T: t, ctx: ctx, run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if runs++; runs > 2 {
			cancel()
			return nil, ctx.Err()
		}
		return oneRepeat(ctx, req, obs)
	}}
	require.Equal(t, ExitInterrupted, c.reproduces("kvstore"))
	require.Contains(t, c.stdout, "Performance by concurrency\n")
	require.Contains(t, c.stderr, "to continue, repeat the command with --resume --out "+c.out)
	files, err := os.ReadDir(filepath.Join(c.out, reproducedRuns, "cells"))
	require.NoError(t, err)
	require.Len(t, files, 2)
}
