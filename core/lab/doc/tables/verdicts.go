package tables

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// mostVerdicts is how many loads a summary has a verdict of.
const mostVerdicts = 8

// Verdicts returns one line for each closed loop of a set: which transport has the best throughput,
// or which ones cannot be told apart. It is empty if no two transports have a load in common.
func Verdicts(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	o := compare.Defaults()
	o.Metrics = []string{result.Throughput}
	ranking, err := compare.Along(s, "transport", o)
	if err != nil { // there is nothing to compare
		return out
	}
	groups := slices.DeleteFunc(ranking.Groups, func(g compare.Candidates) bool {
		return g.Cells()[0].OpenLoop() // the schedule sets it
	})
	more := new(doc.Doc)
	for i := range groups {
		part := out
		if i >= mostVerdicts {
			part = more
		}
		part.Paragraph(Verdict(&groups[i]))
	}
	out.Fold("verdicts of "+format.Count(len(groups)-mostVerdicts, "more load"), more)
	return out
}

// Verdict returns the outcome of one comparison along an axis in one line.
func Verdict(group *compare.Candidates) string {
	first, second := group.List[0], group.List[1]
	text := group.Cell + ": "
	if group.Cell == "" {
		text = ""
	}
	lead := ""
	if second.Lead != nil {
		lead = fmt.Sprintf(", %s better than %s", Times(*second.Lead, group.Better), second.Value)
	}
	switch {
	case group.Leader != "":
		return fmt.Sprintf("%s%s has the best %s%s", text, group.Leader, group.Metric, lead)
	case group.TooLittle:
		return fmt.Sprintf("%s%s is first in %s%s; too few repeats to be certain", text,
			first.Value, group.Metric, lead)
	}
	equal := []string{first.Value}
	for _, candidate := range group.List[1:] {
		if strings.ContainsAny(candidate.Group, first.Group) {
			equal = append(equal, candidate.Value)
		}
	}
	return fmt.Sprintf("%sundecided in %s between %s; more repeats may tell them apart", text,
		group.Metric, andList(equal))
}

// Times returns how many times better the best value is than another one. lead is the best over the
// other minus 1. The result is 1 or more whichever direction is better, unless the best is first
// for another reason than its value.
func Times(lead float64, better result.Better) string {
	ratio := 1 + lead
	if better == result.Lower {
		ratio = 1 / ratio
	}
	return format.Digits(ratio) + "x"
}

// andList joins names as in "a, b and c".
func andList(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
