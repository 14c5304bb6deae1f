package findings

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// hostileMarkdown has a cell, code, HTML, emphasis and links.
const (
	hostileMarkdown = "a|b\\|c `x` <img src=y> *z* [t](http://e.x) &#x202e; www.e.x a@e.x"
	escapedMarkdown = "a&#124;b\\\\&#124;c \\`x\\` \\<img src=y> \\*z\\* [t\\](http:\\//e.x) " +
		"\\&#x202e; www\\.e.x a\\@e.x"
)

// Every text of a comparison, a ranking and a calibration in Markdown is escaped, and the structure
// is not.
func TestMarkdownOfForeignText(t *testing.T) {
	warnings := []set.GroupedWarning{{
		Check: hostileMarkdown, Severity: result.Warning, Message: hostileMarkdown,
		Cells: []string{hostileMarkdown},
	}}
	var out bytes.Buffer
	report := &compare.Report{
		Old: hostileMarkdown, New: hostileMarkdown,
		Changes: []compare.Change{{Cell: hostileMarkdown, Metric: hostileMarkdown,
			Note: hostileMarkdown, Verdict: compare.Incomparable}},
		Broken: []compare.Breach{{Threshold: hostileMarkdown, Cell: hostileMarkdown,
			Metric: hostileMarkdown}},
		Means: []compare.Mean{{Transport: hostileMarkdown, Metric: hostileMarkdown}},
		OnlyOld: []compare.Single{{Cell: hostileMarkdown, Status: "failed",
			Reason: hostileMarkdown}},
		Warnings: warnings, Basis: compare.Basis{Notes: []string{hostileMarkdown},
			Across: []compare.Difference{{Key: hostileMarkdown}}},
	}
	writeMarkdown(&out, Diff(report, true))
	out.WriteString(GitHubSummary(report))
	out.WriteString(GitHubComment(report))
	candidate := compare.Candidate{Value: hostileMarkdown, Note: hostileMarkdown}
	ranking := &compare.Ranking{
		Axis: hostileMarkdown,
		Groups: []compare.Candidates{{Cell: hostileMarkdown, Metric: hostileMarkdown,
			List: []compare.Candidate{candidate, candidate, candidate}}},
		Leaders:  []compare.Leader{{Metric: hostileMarkdown, Value: hostileMarkdown}},
		Warnings: warnings, Basis: compare.Basis{Notes: []string{hostileMarkdown}},
		LeftOut: []compare.Single{{Cell: hostileMarkdown, Reason: hostileMarkdown}},
	}
	writeMarkdown(&out, Ranking(ranking))
	writeMarkdown(&out, GitHubRanking(ranking))
	d := &calibration.Document{
		Recovery: []calibration.Recovery{{Quantity: hostileMarkdown}},
		Power:    []calibration.Power{{Load: hostileMarkdown, Class: "memory"}},
	}
	d.Environment.Identity.CPU, d.Tool.Version = hostileMarkdown, hostileMarkdown
	d.Experiments = []calibration.Experiment{{Name: hostileMarkdown, Discarded: []int{1}}}
	writeMarkdown(&out, Calibration(d))

	require.Contains(t, out.String(), "| cell | metric | old | new |")
	require.Contains(t, out.String(), "\n**Recovered**: ")
	require.Contains(t, out.String(), "\n- warning: ")
	require.Greater(t, strings.Count(out.String(), escapedMarkdown), 25)
	rest := strings.ReplaceAll(out.String(), escapedMarkdown, "")
	for _, part := range []string{"<img", "www.", "`x`", "*z*", "](", "&#x"} {
		require.NotContains(t, rest, part)
	}
}
