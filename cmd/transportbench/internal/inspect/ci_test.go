package inspect_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/store/set"
)

// The comment is empty if nothing changed, and names each change.
func TestComment(t *testing.T) {
	old, slower := clitest.SetOf(t, nil, 1e6, 2e6), clitest.SetOf(t, nil, 1e6, 1.9e6)
	failed := clitest.SetOf(t, func(s *set.Set) {
		s.Cells[1] = set.Cell{Config: s.Cells[1].Config, Status: set.Failed, Reason: "it crashed"}
	}, 1e6, 2e6)
	few := clitest.SetOf(t, clitest.TooFew, 1e6, 2e6)
	comment := filepath.Join(t.TempDir(), "comment.md")
	for _, c := range []struct {
		name, old, new string
		args           []string
		code           int
		headline       string
		comment        string // "" if it is empty
	}{
		{"the same", old, old, nil, app.ExitOK,
			`no change found in 2 comparisons \(half could have found one of \d\.\d+%, all one of \d\.\d+%\)`, ""},
		{"too few repeats", few, few, nil, app.ExitTooLittle,
			`no change found in 2 comparisons \(2 of 2 tests could not have found any\)`, ""},
		{"slower", old, slower, nil, app.ExitRegression, "1 of 2 comparisons WORSE",
			"| shm in_flight=2 | throughput | 2.00 M op/s → 1.90 M op/s | -5.00% ("},
		{"faster", slower, old, nil, app.ExitOK, "1 of 2 comparisons BETTER",
			"| shm in_flight=2 | throughput | 1.90 M op/s → 2.00 M op/s | +5.26% ("},
		{"beyond a threshold", old, slower, []string{"--fail-on", "throughput<-3%"},
			app.ExitThreshold, "1 threshold failed, 1 of 2 comparisons WORSE",
			"- threshold throughput\\<-3% failed: shm in_flight=2: throughput changed by -5.00%"},
		{"below a median", old, old, []string{"--fail-on", "throughput<1.5e6"}, app.ExitThreshold,
			"1 threshold failed", "shm in_flight=1"},
		{"a cell failed", old, failed, nil, app.ExitIncomparable, "1 of 2 comparisons INCOMPARABLE",
			"it crashed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(comment, []byte("of an earlier run"), 0o600))
			cmd := &clitest.Command{T: t}
			require.Equal(t, c.code,
				cmd.Execute(append([]string{"diff", c.old, c.new, "--format", "github", "--comment",
					comment}, c.args...)...), cmd.Stderr)
			require.Regexp(t, "^### transportbench: "+c.headline+"\n", cmd.Stdout)
			require.Contains(t, cmd.Stdout, "\n- new: "+c.new)
			text, err := os.ReadFile(comment)
			require.NoError(t, err)
			if c.comment == "" {
				require.Empty(t, string(text))
				return
			}
			require.Equal(t, cmd.Stdout, string(text))
			require.Contains(t, string(text), c.comment)
			before, _, _ := strings.Cut(string(text), "<details>")
			require.NotContains(t, before, "in_flight=1 | throughput",
				"what did not change is folded")
			require.Contains(t, string(text), "<details><summary>All 2 comparisons</summary>\n\n")
			require.Equal(t, 2, strings.Count(string(text), "</details>\n"))
		})
	}
}

// GitHub refuses comments of more than 65,536 characters.
func TestCommentIsShort(t *testing.T) {
	const cells = 700
	many := func(centre float64) string {
		return clitest.SetOf(t, func(s *set.Set) {
			first := s.Cells[0]
			s.Cells = nil
			for i := range cells {
				c := first
				c.Config = map[string]string{"transport": "shm", "in_flight": fmt.Sprint(i + 1)}
				s.Cells = append(s.Cells, c)
			}
		}, centre)
	}
	comment := filepath.Join(t.TempDir(), "comment.md")
	cmd := &clitest.Command{T: t}
	cmd.Execute("diff", many(1e6), many(0.5e6), "--format", "github", "--comment", comment,
		"--alpha", "0.5")
	text, err := os.ReadFile(comment)
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("%d of %d comparisons WORSE", cells, cells))
	require.Contains(t, string(text), " rows more, left out for their length")
	require.Less(t, utf8.RuneCount(text), 65536)
	require.Less(t, len(cmd.Stdout), 1<<20)
	require.Greater(t, len(cmd.Stdout), len(text))
}

// junit is what a CI system reads of a JUnit document.
type junit struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Cases    []struct {
			Class   string        `xml:"classname,attr"`
			Name    string        `xml:"name,attr"`
			Failure *junitProblem `xml:"failure"`
			Error   *junitProblem `xml:"error"`
			Skipped *junitProblem `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
}

// A JUnit document has a failure or an error exactly if the command fails, and its counts are
// right.
func TestJUnit(t *testing.T) {
	old, slower := clitest.SetOf(t, nil, 1e6, 2e6), clitest.SetOf(t, nil, 1e6, 1.9e6)
	few := clitest.SetOf(t, clitest.TooFew, 1e6, 2e6)
	hostile := clitest.SetOf(t, func(s *set.Set) {
		s.Cells[1] = set.Cell{Config: s.Cells[1].Config, Status: set.Failed,
			Reason: "a <b> & \"c\" ]]> \x01"}
	}, 1e6, 2e6)
	for _, c := range []struct {
		name                      string
		args                      []string
		code                      int
		failures, errors, skipped int
		message                   string // of the last test
	}{
		{"the same", []string{old, old}, app.ExitOK, 0, 0, 0, ""},
		{"slower", []string{old, slower}, app.ExitRegression, 2, 0, 0,
			"1 of 2 comparisons are WORSE"},
		{"within a threshold", []string{old, slower, "--fail-on", "throughput<-10%"}, app.ExitOK, 0,
			0, 0, ""},
		{"beyond a threshold", []string{old, slower, "--fail-on", "throughput<-3%"},
			app.ExitThreshold, 2, 0, 0, "1 thresholds failed"},
		{"too few repeats", []string{few, few}, app.ExitTooLittle, 0, 1, 2, "too few repeats"},
		{"too little power", []string{old, old, "--require-power", "0.01%"}, app.ExitTooLittle, 0,
			1, 0, "--require-power"},
		{"a cell failed", []string{old, hostile}, app.ExitIncomparable, 0, 2, 0,
			"cannot be compared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := &clitest.Command{T: t}
			require.Equal(t, c.code, cmd.Execute(append([]string{"diff", "--format", "junit"},
				c.args...)...), cmd.Stderr)
			var document junit
			require.NoError(t, xml.Unmarshal([]byte(cmd.Stdout), &document), cmd.Stdout)
			require.Len(t, document.Suites, 1)
			suite := document.Suites[0]
			require.Equal(t, []int{3, c.failures, c.errors, c.skipped},
				[]int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped}, cmd.Stdout)
			require.Len(t, suite.Cases, suite.Tests)
			failures, errors, skipped := 0, 0, 0
			for _, test := range suite.Cases {
				for problem, count := range map[*junitProblem]*int{test.Failure: &failures,
					test.Error: &errors, test.Skipped: &skipped} {
					if problem != nil {
						require.NotEmpty(t, problem.Message)
						*count++
					}
				}
			}
			require.Equal(t, []int{c.failures, c.errors, c.skipped},
				[]int{failures, errors, skipped})
			require.Equal(t, c.code != app.ExitOK, failures+errors > 0)
			whole := suite.Cases[2]
			require.Equal(t, "comparison", whole.Name)
			for _, problem := range []*junitProblem{whole.Failure, whole.Error} {
				if problem != nil {
					require.Contains(t, problem.Message, c.message)
				}
			}
		})
	}
}
