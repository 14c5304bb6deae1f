package measure_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/machine"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare/trial"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// equalSets writes sets of six transports, measured on the machine here an hour apart.
func equalSets(t *testing.T, n int, here machine.Identity) (dirs []string) {
	t.Helper()
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	for at := range n {
		s := set.New()
		s.Environments = []set.Environment{{Identity: identity, Volatile: map[string]string{}}}
		for i := range 6 {
			c := set.Cell{Status: set.Measured, Samples: map[string][]float64{},
				Tool:   &result.Tool{Version: "0.9.0", Revision: "0123456789"},
				Config: map[string]string{"transport": fmt.Sprint("t", i), "in_flight": "1"}}
			for round := range 10 {
				c.Windows = append(c.Windows, set.Window{Launch: round,
					StartedAt: time.Date(2026, 3, 4, at, round, i, 0, time.UTC)})
				c.Samples[result.Throughput] = append(c.Samples[result.Throughput],
					1e6*(1+0.001*float64((7*round+at+i)%10)))
				c.Samples[result.LatencyP50] = append(c.Samples[result.LatencyP50],
					1e3*(1+0.001*float64((3*round+at+i)%10)))
			}
			c.StartedAt = c.Windows[0].StartedAt
			s.Cells = append(s.Cells, c)
		}
		dir := t.TempDir()
		require.NoError(t, s.WriteIndex(dir))
		dirs = append(dirs, dir)
	}
	return dirs
}

// The outcome over all sets and over the quiet ones is shown, and kept in a calibration.
func TestCalibratePairs(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64", Cores: 2}
	dirs := equalSets(t, 4, here)
	d := clitest.CalibrationOf(here, 0.05)
	path := filepath.Join(t.TempDir(), calibration.FileName)
	require.NoError(t, calibration.Write(path, d))
	state, err := calibration.StatePath(here)
	require.NoError(t, err)
	require.NoError(t, calibration.Write(state, d))

	c := &clitest.Command{T: t}
	run := func(args ...string) int {
		return c.Execute(append(append([]string{"calibrate", "pairs"}, args...), dirs...)...)
	}
	require.Zero(t, run(), c.Stderr)
	require.Contains(t, c.Stdout, "6 pairs of 4 equal sets, 90 minutes apart (median), alpha 5%: ")
	require.NotContains(t, c.Stdout, "quiet sets:")
	require.Zero(t, run("--quiet-sets", strings.Join(dirs[1:], ","), "--keep", path), c.Stderr)
	require.Contains(t, c.Stdout, "quiet sets:")
	require.Contains(t, c.Stdout, "3 pairs of 3 equal sets, 60 minutes apart (median), alpha 5%: ")
	for _, file := range []string{path, state} {
		read, err := calibration.Read(file)
		require.NoError(t, err)
		require.Equal(t, []int{4, 3, 10}, []int{read.Pairs.Sets, read.Pairs.QuietPairs.Sets,
			read.Pairs.Repeats})
		require.Equal(t, "0123456789", read.Pairs.Revision)
		require.Equal(t, d.Power, read.Power)
	}
	c.Execute("diff", "-v", dirs[0], dirs[1])
	require.Contains(t, strings.Join(strings.Fields(c.Stdout), " "),
		"note: on this machine, each two of 4 equal sets of revision 01234567, 90 minutes")
	require.Zero(t, run("--json", "--quiet-sets", strings.Join(dirs[1:], ",")), c.Stderr)
	var outcome trial.Trial
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &outcome))
	require.Equal(t, 3, outcome.Quiet.Pairs)

	require.Zero(t, run("--json", "--metric", "latency_p50"), c.Stderr)
	outcome = trial.Trial{}
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &outcome))
	require.Len(t, outcome.Metrics, 1)
	require.Equal(t, result.LatencyP50, outcome.Metrics[0].Metric)
	require.Equal(t, app.ExitUsage, run("--metric", "p50"))
	require.Contains(t, c.Stderr, `did you mean "latency_p50"`)
	require.Equal(t, app.ExitUsage, run("--metric", "latency_p50", "--keep", path))
	require.Contains(t, c.Stderr, "remove it or --metric")

	require.Equal(t, app.ExitUsage, run("--quiet-sets", "elsewhere"))
	require.Contains(t, c.Stderr, `--quiet-sets: "elsewhere" is not one of the sets`)
	d.Environment.Identity.CPU = "another"
	require.NoError(t, calibration.Write(path, d))
	require.Equal(t, app.ExitUsage, run("--keep", path))
	require.Contains(t, c.Stderr, "another machine than the calibration")
}
