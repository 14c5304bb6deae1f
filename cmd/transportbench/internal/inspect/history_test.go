package inspect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/history/historytest"
	"transportbench/core/lab/store/set"
)

func TestHistory(t *testing.T) {
	nights := append(slices.Repeat([]float64{1e6, 1.01e6}, 5),
		slices.Repeat([]float64{0.9e6, 0.89e6}, 3)...)
	dir := historytest.Write(t, t.TempDir(), 2, 3, nights...)
	c := &clitest.Command{T: t}
	require.Zero(t, c.Execute("history", dir), c.Stderr)
	require.Contains(t, c.Stdout, "6 of 6 series changed")
	require.Regexp(t,
		`night0011 +000000000.\.\.000000000. +in_flight=2 +shm +throughput +1\.00 M op/s +895 K op/s +-10\.9% +raw +WORSE`, c.Stdout)
	require.Contains(t, c.Stdout, "▇█▇█")

	require.Equal(t, app.ExitRegression, c.Execute("history", dir, "--gate"))
	require.Contains(t, c.Stderr,
		"6 changes for the worse; bless SET --why REASON accepts what is right")
	require.Equal(t, app.ExitRegression, c.Execute("history", dir, "--gate", "--metric",
		"throughput"))
	require.Contains(t, c.Stderr, "2 changes")
	require.Zero(t, c.Execute("history", dir, "--gate", "--floor", "20%"), c.Stderr)
	require.Contains(t, c.Stdout, "0 of 6 series changed; --all shows the others")
	require.Zero(t, c.Execute("history", dir, "--floor", "20%", "--all"), c.Stderr)
	require.Contains(t, c.Stdout, "newest/baseline")

	night := filepath.Join(dir, "night0011")
	require.Equal(t, app.ExitUsage, c.Execute("bless", night))
	require.Contains(t, c.Stderr, "--why: give the reason")
	require.Equal(t, app.ExitUsage, c.Execute("bless", dir, "--why", "x"))
	require.Contains(t, c.Stderr, "holds 16 sets; name the one to accept")
	require.Equal(t, app.ExitUsage, c.Execute("bless", night, "--why", "x", "--metric",
		"troughput"))
	require.Contains(t, c.Stderr, `did you mean "throughput"?`)
	require.Equal(t, app.ExitUsage, c.Execute("bless", night, "--why", "x", "--cell",
		"shm in_flight=9"))
	require.Zero(t, c.Execute("bless", night, "--why", "checksums\x1b[31m", "--who", "ada",
		"--cell", "shm in_flight=1"), c.Stderr)
	require.Contains(t, c.Stdout, `ada accepts shm in_flight=1 in `)
	require.Contains(t, c.Stdout,
		"\naccepted: shm in_flight=1: throughput -10.9% since night0011\n")
	require.Equal(t, 3, strings.Count(c.Stdout, "accepted: "))
	require.NotContains(t, c.Stdout, "in_flight=2")
	require.Equal(t, app.ExitRegression, c.Execute("history", dir, "--gate"))
	require.Contains(t, c.Stderr, "3 changes")
	require.Zero(t, c.Execute("bless", night, "--why", "all of it", "--who", "ada"), c.Stderr)
	require.Equal(t, 6, strings.Count(c.Stdout, "accepted: "), c.Stdout)
	require.Zero(t, c.Execute("history", dir, "--gate"), c.Stderr)
	require.Contains(t, c.Stdout, "accepted by ada: all of it")
	before := filepath.Join(dir, "night0010")
	require.Zero(t, c.Execute("bless", before, "--why", "x", "--who", "ada"), c.Stderr)
	require.Contains(t, c.Stdout, "no change for the worse that this accepts, in 16 sets")

	require.Zero(t, c.Execute("history", dir, "--json"), c.Stderr)
	var read struct {
		Kind   string
		Sets   []json.RawMessage
		Series []struct{ Changes []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &read))
	require.Equal(t, "history", read.Kind)
	require.Len(t, read.Sets, 16)
	require.Len(t, read.Series, 6)

	for _, args := range [][]string{{"history"}, {"history", "/nonexistent"},
		{"history", dir, "--metric", "p99"}, {"history", dir, "--floor", "x"}, {"bless"}} {
		require.Equal(t, app.ExitUsage, c.Execute(args...), args)
	}
}

// Without a series, history says how many sets it needs, and does not speak of the machine.
func TestHistoryWithoutSeries(t *testing.T) {
	dir := historytest.Write(t, t.TempDir(), 1, 3, 1e6, 1e6)
	c := &clitest.Command{T: t}
	require.Zero(t, c.Execute("history", filepath.Join(dir, "night0001")), c.Stderr)
	require.Contains(t, c.Stdout, "\n1 set: series have at least 2 sets, and changes are found in")
	require.NotContains(t, c.Stdout, "0 of 0")
	require.NotContains(t, c.Stdout, "fewer than 4")

	night := filepath.Join(dir, "night0002")
	s, err := set.Load(night)
	require.NoError(t, err)
	s.Cells[0].Run.InFlight = 7
	require.NoError(t, s.WriteIndex(night))
	require.Zero(t, c.Execute("history", dir), c.Stderr)
	require.Contains(t, c.Stdout, "\n2 sets without a cell in common, because an option")
}

// The commits of a change are those of the plugin if it has its own, as one of another module does.
func TestHistoryOfAnotherModule(t *testing.T) {
	dir := historytest.Write(t, t.TempDir(), 1, 3, append(slices.Repeat([]float64{1e6, 1.01e6}, 5),
		slices.Repeat([]float64{0.9e6, 0.89e6}, 3)...)...)
	for night := 1; night <= 16; night++ {
		at := filepath.Join(dir, fmt.Sprintf("night%04d", night))
		s, err := set.Load(at)
		require.NoError(t, err)
		s.Cells[0].Plugin.Revision = fmt.Sprintf("%010d%030d", night, 0)
		require.NoError(t, s.WriteIndex(at))
	}
	c := &clitest.Command{T: t}
	require.Zero(t, c.Execute("history", dir), c.Stderr)
	require.Contains(t, c.Stdout, "night0011  0000000010..0000000011")
}

// TestHistoryOfPaths checks that a change of the path is written once for all metrics of all cells
// of a transport.
func TestHistoryOfPaths(t *testing.T) {
	dir := historytest.Write(t, t.TempDir(), 1, 3, 1e6, 1e6, 1e6)
	for i, path := range []string{"tcp over eth0", "tcp over eth0", "tcp over bond0\x1b[31m"} {
		night := filepath.Join(dir, fmt.Sprintf("night%04d", i+1))
		s, err := set.Load(night)
		require.NoError(t, err)
		other := s.Cells[0]
		other.Config = maps.Clone(other.Config)
		other.Config["in_flight"] = "7"
		s.Cells = append(s.Cells, other)
		s.Cells[0].Plugin.Path, s.Cells[1].Plugin.Path = []string{path}, []string{path}
		require.NoError(t, s.WriteIndex(night))
	}
	c := &clitest.Command{T: t}
	require.Zero(t, c.Execute("history", dir), c.Stderr)
	require.Equal(t, 1, strings.Count(c.Stdout, "took another path"), c.Stdout)
	require.Contains(t, strings.Join(strings.Fields(c.Stdout), " "), "night0003: the bytes of "+
		"shm took another path than in night0002: tcp over eth0, and now tcp over bond0")
	require.NotContains(t, c.Stdout, "\x1b")
}

// A change for the worse that was accepted is listed with who and why, and fails no comparison.
func TestDiffOfAcceptedChanges(t *testing.T) {
	dir := historytest.Write(t, t.TempDir(), 2, 10, 1e6, 0.8e6)
	old, new := filepath.Join(dir, "night0001"), filepath.Join(dir, "night0002")
	c := &clitest.Command{T: t}
	diff := func(code int, args ...string) {
		require.Equal(t, code,
			c.Execute(append([]string{"diff", old, new, "--metric", "throughput"}, args...)...),
			c.Stdout+c.Stderr)
	}
	diff(app.ExitRegression)
	require.Contains(t, c.Stderr, "2 of 2 comparisons are WORSE\n")
	require.Zero(t, c.Execute("bless", new, "--why", "checksums", "--who", "ada", "--cell",
		"shm in_flight=1", "--metric", "throughput"), c.Stderr)
	diff(app.ExitRegression)
	require.Contains(t, c.Stderr, "2 of 2 comparisons are WORSE, 1 of them accepted")
	require.Contains(t, c.Stdout, "2 WORSE (1 accepted)")
	require.Contains(t, c.Stdout, "note: shm in_flight=1: throughput is accepted by ada: checksums")
	require.NotContains(t, c.Stdout, "shm in_flight=2: throughput is accepted")
	require.Zero(t, c.Execute("bless", new, "--why", "all of it", "--who", "eve", "--metric",
		"latency_p50"), c.Stderr)
	diff(app.ExitRegression) // of another metric
	require.Zero(t, c.Execute("bless", new, "--why", "all of it", "--who", "eve"), c.Stderr)
	diff(0)
	require.Contains(t, c.Stdout, "throughput is accepted by eve: all of it")
	diff(0, "--format", "json")
	var read compare.Report
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &read))
	for _, change := range read.Changes {
		require.Equal(t, compare.Worse, change.Verdict)
		require.Equal(t, "eve", change.Accepted.Who)
	}
	diff(0, "--format", "junit")
	require.NotContains(t, c.Stdout, "<failure")
	diff(0, "--format", "github")
	require.Contains(t, c.Stdout, "WORSE (2 accepted)")
	diff(app.ExitThreshold, "--fail-on", "throughput<-5%") // thresholds are the caller's own

	require.NoError(t, os.WriteFile(filepath.Join(new, "blessed.json"), []byte("{"), 0o600))
	diff(app.ExitUsage)
}
