package findings

import (
	"fmt"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// Verdicts returns one line for each load: which value of the axis is the best, or which ones
// cannot be told apart.
func Verdicts(r *compare.Ranking) *doc.Doc {
	out := new(doc.Doc)
	for i := range r.Groups {
		out.Paragraph(Verdict(&r.Groups[i]))
	}
	return out
}

// Verdict returns the outcome of one comparison along an axis in one line.
func Verdict(group *compare.Candidates) string {
	first := group.List[0]
	text := group.Cell + ": "
	if group.Cell == "" {
		text = ""
	}
	if group.Leader != "" {
		second := group.List[1]
		lead := format.Percent(second.Lead) + " against"
		if b := second.Lead; b != nil && *b > 1 {
			lead = format.Digits(1+*b) + " times that of"
		}
		return fmt.Sprintf("%s%s has the best %s, %s %s", text, group.Leader, group.Metric, lead,
			second.Value)
	}
	equal := []string{first.Value}
	for _, candidate := range group.List[1:] {
		if strings.ContainsAny(candidate.Group, first.Group) {
			equal = append(equal, candidate.Value)
		}
	}
	remedy := "more repeats may tell them apart"
	if group.TooLittle {
		remedy = "there are too few repeats"
	}
	return fmt.Sprintf("%sundecided in %s between %s; %s", text, group.Metric,
		andList(equal), remedy)
}

// andList joins names as in "a, b and c".
func andList(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
