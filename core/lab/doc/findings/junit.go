package findings

import (
	"fmt"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// Gate is the outcome of a comparison for CI.
type Gate struct {
	// Thresholds is set if thresholds alone decide.
	Thresholds bool
	// Problem is why the command fails, empty if it does not, and Regression is set if that is a
	// change rather than a lack of data.
	Problem    string
	Regression bool
}

// JUnit returns a comparison as results of tests. Each change is a test, which fails if it is WORSE
// or, if there are thresholds, beyond one. The last test is the comparison as a whole and fails if
// the command does.
func JUnit(r *compare.Report, gate Gate) doc.Suite {
	suite := doc.Suite{Name: "transportbench " + r.Old + " " + r.New}
	if at := r.NewSide.From; !at.IsZero() {
		suite.Timestamp = at.UTC().Format("2006-01-02T15:04:05")
	}
	for i, line := range append(sides(r), strings.Split(DiffSummary(r), "\n")...) {
		name := "summary"
		if i < 2 {
			name, line, _ = strings.Cut(line, ": ")
		}
		suite.Properties = append(suite.Properties, doc.Property{Name: name, Value: line})
	}
	for _, c := range r.Rows() {
		suite.Add(junitChange(r, c, gate.Thresholds))
	}
	whole := doc.Case{Class: "transportbench", Name: "comparison"}
	switch problem := (&doc.Problem{Message: gate.Problem}); {
	case gate.Problem == "":
	case gate.Regression:
		whole.Failure = problem
	default:
		whole.Error = problem
	}
	suite.Add(whole)
	return suite
}

func junitChange(r *compare.Report, c *compare.Change, thresholds bool) doc.Case {
	one := doc.Case{Class: c.Cell, Name: c.Metric}
	var broken []string
	for _, b := range r.Broken {
		if b.Cell == c.Cell && b.Metric == c.Metric {
			broken = append(broken, fmt.Sprintf("%s: %s", b.Threshold, breach(b)))
		}
	}
	switch {
	case len(broken) > 0:
		one.Failure = &doc.Problem{Message: strings.Join(broken, "; "), Type: "threshold"}
	case c.Verdict == compare.Worse && c.Accepted == nil && !thresholds:
		one.Failure = &doc.Problem{Message: "changed by " + format.Percent(c.Change) + " (" +
			changeInterval(c) + ")", Type: string(c.Verdict)}
	case c.Verdict == compare.Incomparable && c.Change == nil:
		one.Error = &doc.Problem{Message: c.Note, Type: string(c.Verdict)}
	case c.Verdict == compare.Incomparable:
		one.Skipped = &doc.Problem{Message: c.Note}
	case c.TooLittle && !thresholds:
		one.Skipped = &doc.Problem{Message: compare.FewRepeats + " for a verdict"}
	case c.StatesApart && !thresholds:
		one.Skipped = &doc.Problem{Message: compare.FewWindows + " for a verdict"}
	}
	if c.Change != nil {
		old, new := medians(c)
		one.Output = fmt.Sprintf("%s: old %s, new %s, shift %s (%s), p %s", c.Verdict, old.Text,
			new.Text, format.Percent(c.Change), changeInterval(c), format.Probability(c.PHolm))
		if text := c.Readout(); text != "" {
			one.Output += "; " + text
		}
		if c.Note != "" {
			one.Output += "; " + c.Note
		}
	}
	return one
}
