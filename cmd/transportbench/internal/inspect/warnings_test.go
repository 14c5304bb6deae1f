package inspect_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The faults of the published figures.
var faults = []struct{ file, says string }{
	{"benchkv-2rank", "took 29.9 s, not 15.0 s"},
	{"mooncake-shm", "the timed loop of an allocation by size"},
	{"mooncake-shm", "find nothing"},
	{"tcpx", "2.68 GB/s, not 20.0 GB/s"},
	{"kvstore", "leave 44 to 64% unexplained"},
}

// likePublished returns a measured set with the configurations of a published one.
func likePublished(t *testing.T, path string) string {
	t.Helper()
	return clitest.SetOf(t, func(s *set.Set) {
		old, err := set.Load(path)
		require.NoError(t, err)
		for i := range s.Cells {
			s.Cells[i].Config = old.Cells[min(i, len(old.Cells)-1)].Config
		}
	}, 1e6, 2e6)
}

func TestPublishedFaultsAreNamed(t *testing.T) {
	cmd := &clitest.Command{T: t}
	// oneLine undoes the wrapping of lines.
	oneLine := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	note := regexp.MustCompile(`(?m)^note: .*$`) // why a pair is INCOMPARABLE
	for _, fault := range faults {
		path := clitest.Published + fault.file + ".json"
		cmd.Execute("analyze", path)
		require.Equal(t, 1, strings.Count(oneLine(cmd.Stdout), fault.says), "analyze %s:\n%s", path,
			cmd.Stdout)
		cmd.Execute("analyze", path, "--knee", "--rate-metric", "throughput")
		require.Contains(t, oneLine(cmd.Stdout+cmd.Stderr), fault.says, "analyze --knee %s", path)
		measured := likePublished(t, path)
		for _, sides := range [][]string{{path, measured}, {measured, path}} {
			cmd.Execute("diff", sides[0], sides[1], "--across", "all", "-v")
			require.Equal(t, 1, strings.Count(oneLine(note.ReplaceAllString(cmd.Stdout, "")),
				fault.says), "diff %v:\n%s%s", sides, cmd.Stdout, cmd.Stderr)
			cmd.Execute("diff", sides[0], sides[1], "--across", "all", "--format", "markdown")
			require.Regexp(t, `(?m)^- (error|warning): (old|new): .*`+fault.says, cmd.Stdout)
		}
		cmd.Execute("diff", "--along", "transport", path, "-v")
		require.Contains(t, oneLine(cmd.Stdout+cmd.Stderr), fault.says, "diff --along %s", path)
	}
}

func TestWarningsOfMeasuredCells(t *testing.T) {
	doubtful := clitest.SetOf(t, func(s *set.Set) {
		timed(s)
		for i := range s.Cells {
			s.Cells[i].Warnings = []result.Finding{{Name: "drift", Severity: result.Warning,
				Message: "it fell"}}
		}
	}, 1e6, 2e6, 3e6)
	clean := clitest.SetOf(t, timed, 1e6, 2e6, 3e6)
	cmd := &clitest.Command{T: t}

	code := cmd.Execute("diff", doubtful, clean)
	require.Contains(t, cmd.Stdout, "warning: old: disturbed: ")
	require.Equal(t, cmd.Execute("diff", clean, clean), code,
		"a warning does not change the exit code")
	require.NotContains(t, cmd.Stdout, "warning")
	require.Empty(t, cmd.Stderr)

	cmd.Execute("diff", doubtful, doubtful, "--format", "json")
	var report compare.Report
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &report))
	require.Len(t, report.Warnings, 1)
	require.Equal(t, []string{"old", "new"}, report.Warnings[0].Sides)
	require.Len(t, report.Warnings[0].Cells, 3)

	require.Zero(t, cmd.Execute("diff", "--along", "in_flight", doubtful), cmd.Stderr)
	require.Contains(t, cmd.Stdout, "warning: disturbed: ")
	cmd.Execute("diff", "--along", "in_flight", doubtful, "--format", "json")
	var ranking compare.Ranking
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &ranking))
	require.Len(t, ranking.Warnings, 1)
	require.Zero(t, cmd.Execute("diff", "--along", "in_flight", clean), cmd.Stderr)
	require.NotContains(t, cmd.Stdout, "warning")

	require.Zero(t, cmd.Execute("analyze", doubtful, "--knee"), cmd.Stderr)
	require.Contains(t, cmd.Stdout, "warning: disturbed: ")
	cmd.Execute("analyze", doubtful, "--knee", "--json")
	var analysis findings.Analysis
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &analysis))
	require.Len(t, analysis.Warnings, 1)
	require.Zero(t, cmd.Execute("analyze", clean, "--knee"), cmd.Stderr)
	require.Contains(t, cmd.Stdout, "no findings against these figures")
}
