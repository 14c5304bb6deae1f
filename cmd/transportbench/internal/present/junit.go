package present

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// junitSuites is the document that CI systems read as results of tests.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitProblem `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
}

// Gate is the outcome of a comparison for CI.
type Gate struct {
	// Thresholds is set if thresholds alone decide.
	Thresholds bool
	// Problem is why the command fails, empty if it does not, and Regression is set if that is a change
	// rather than a lack of data.
	Problem    string
	Regression bool
}

// JUnit writes a comparison as results of tests. Each change is a test, which fails if it is WORSE or, if
// there are thresholds, beyond one. The last test is the comparison as a whole and fails if the command
// does.
func JUnit(w io.Writer, r *compare.Report, gate Gate) error {
	suite := junitSuite{Name: "transportbench " + r.Old + " " + r.New}
	if at := r.NewSide.From; !at.IsZero() {
		suite.Timestamp = at.UTC().Format("2006-01-02T15:04:05")
	}
	for i, line := range append(sides(r), strings.Split(DiffSummary(r), "\n")...) {
		name := "summary"
		if i < 2 {
			name, line, _ = strings.Cut(line, ": ")
		}
		suite.Properties = append(suite.Properties, junitProperty{name, line})
	}
	for i := range r.Changes {
		suite.add(junitChange(r, &r.Changes[i], gate.Thresholds))
	}
	whole := junitCase{Class: "transportbench", Name: "comparison"}
	switch problem := (&junitProblem{Message: gate.Problem}); {
	case gate.Problem == "":
	case gate.Regression:
		whole.Failure = problem
	default:
		whole.Error = problem
	}
	suite.add(whole)
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

func junitChange(r *compare.Report, c *compare.Change, thresholds bool) junitCase {
	one := junitCase{Class: c.Cell, Name: c.Metric}
	var broken []string
	for _, b := range r.Broken {
		if b.Cell == c.Cell && b.Metric == c.Metric {
			broken = append(broken, fmt.Sprintf("%s: %s", b.Threshold, breach(b)))
		}
	}
	switch {
	case len(broken) > 0:
		one.Failure = &junitProblem{strings.Join(broken, "; "), "threshold"}
	case c.Verdict == compare.Worse && c.Accepted == nil && !thresholds:
		one.Failure = &junitProblem{"changed by " + format.Percent(c.Change) + " (" + changeInterval(c) + ")", string(c.Verdict)}
	case c.Verdict == compare.Incomparable && c.Change == nil:
		one.Error = &junitProblem{c.Note, string(c.Verdict)}
	case c.Verdict == compare.Incomparable:
		one.Skipped = &junitProblem{Message: c.Note}
	case c.TooLittle && !thresholds:
		one.Skipped = &junitProblem{Message: "too few repeats for a verdict"}
	}
	if c.Change != nil {
		old, new := medians(c)
		one.Output = fmt.Sprintf("%s: old %s, new %s, shift %s (%s), p %s", c.Verdict, old, new, format.Percent(c.Change), changeInterval(c), format.Probability(c.PHolm))
		if c.Note != "" {
			one.Output += "; " + c.Note
		}
	}
	return one
}
