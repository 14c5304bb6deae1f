package cli

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/set"
)

// The comment is empty if nothing changed, and names each change.
func TestComment(t *testing.T) {
	old, slower := setOf(t, nil, 1e6, 2e6), setOf(t, nil, 1e6, 1.9e6)
	failed := setOf(t, func(s *set.Set) {
		s.Cells[1] = set.Cell{Config: s.Cells[1].Config, Status: set.Failed, Reason: "it crashed"}
	}, 1e6, 2e6)
	few := setOf(t, tooFew, 1e6, 2e6)
	comment := filepath.Join(t.TempDir(), "comment.md")
	for _, c := range []struct {
		name, old, new string
		args           []string
		code           int
		headline       string
		comment        string // "" if it is empty
	}{
		{"the same", old, old, nil, ExitOK,
			`no change found in 2 comparisons \(half could have found one of \d\.\d+%, all one of \d\.\d+%\)`, ""},
		{"too few repeats", few, few, nil, ExitTooLittle,
			`no change found in 2 comparisons \(2 of 2 tests could not have found any\)`, ""},
		{"slower", old, slower, nil, ExitRegression, "1 of 2 comparisons WORSE",
			"| shm in_flight=2 | throughput | 2.00 M op/s | 1.90 M op/s | -5.00% |"},
		{"faster", slower, old, nil, ExitOK, "1 of 2 comparisons BETTER",
			"| shm in_flight=2 | throughput | 1.90 M op/s | 2.00 M op/s | +5.26% |"},
		{"beyond a threshold", old, slower, []string{"--fail-on", "throughput<-3%"}, ExitThreshold,
			"1 threshold failed, 1 of 2 comparisons WORSE",
			"- threshold throughput\\<-3% failed: shm in_flight=2: throughput changed by -5.00%"},
		{"below a median", old, old, []string{"--fail-on", "throughput<1.5e6"}, ExitThreshold,
			"1 threshold failed", "shm in_flight=1"},
		{"a cell failed", old, failed, nil, ExitIncomparable, "1 of 2 comparisons INCOMPARABLE",
			"it crashed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(comment, []byte("of an earlier run"), 0o600))
			cmd := &command{T: t}
			require.Equal(t, c.code,
				cmd.execute(append([]string{"diff", c.old, c.new, "--format", "github", "--comment",
					comment}, c.args...)...), cmd.stderr)
			require.Regexp(t, "^### transportbench: "+c.headline+"\n", cmd.stdout)
			require.Contains(t, cmd.stdout, "\n- new: "+c.new)
			text, err := os.ReadFile(comment)
			require.NoError(t, err)
			if c.comment == "" {
				require.Empty(t, string(text))
				return
			}
			require.Equal(t, cmd.stdout, string(text))
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
		return setOf(t, func(s *set.Set) {
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
	cmd := &command{T: t}
	cmd.execute("diff", many(1e6), many(0.5e6), "--format", "github", "--comment", comment,
		"--alpha", "0.5")
	text, err := os.ReadFile(comment)
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("%d of %d comparisons WORSE", cells, cells))
	require.Contains(t, string(text), " rows more, left out for their length")
	require.Less(t, utf8.RuneCount(text), 65536)
	require.Less(t, len(cmd.stdout), 1<<20)
	require.Greater(t, len(cmd.stdout), len(text))
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
	old, slower := setOf(t, nil, 1e6, 2e6), setOf(t, nil, 1e6, 1.9e6)
	few := setOf(t, tooFew, 1e6, 2e6)
	hostile := setOf(t, func(s *set.Set) {
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
		{"the same", []string{old, old}, ExitOK, 0, 0, 0, ""},
		{"slower", []string{old, slower}, ExitRegression, 2, 0, 0, "1 of 2 comparisons are WORSE"},
		{"within a threshold", []string{old, slower, "--fail-on", "throughput<-10%"}, ExitOK, 0,
			0, 0, ""},
		{"beyond a threshold", []string{old, slower, "--fail-on", "throughput<-3%"}, ExitThreshold,
			2, 0, 0, "1 thresholds failed"},
		{"too few repeats", []string{few, few}, ExitTooLittle, 0, 1, 2, "too few repeats"},
		{"too little power", []string{old, old, "--require-power", "0.01%"}, ExitTooLittle, 0, 1, 0,
			"--require-power"},
		{"a cell failed", []string{old, hostile}, ExitIncomparable, 0, 2, 0, "cannot be compared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := &command{T: t}
			require.Equal(t, c.code, cmd.execute(append([]string{"diff", "--format", "junit"},
				c.args...)...), cmd.stderr)
			var document junit
			require.NoError(t, xml.Unmarshal([]byte(cmd.stdout), &document), cmd.stdout)
			require.Len(t, document.Suites, 1)
			suite := document.Suites[0]
			require.Equal(t, []int{3, c.failures, c.errors, c.skipped},
				[]int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped}, cmd.stdout)
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
			require.Equal(t, c.code != ExitOK, failures+errors > 0)
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
