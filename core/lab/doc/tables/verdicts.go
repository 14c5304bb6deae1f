package tables

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// maxVerdicts is how many verdicts a summary has.
const maxVerdicts = 8

// Verdicts returns one line for each closed loop of a set: which transport has the best throughput,
// or which ones do not differ significantly. Loads with the same outcome share a line. It is empty
// if no two transports have a load in common.
func Verdicts(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	ranking, err := rankTransports(s)
	if err != nil { // there is nothing to compare
		return out
	}
	var outcomes []string
	loads, closed := map[string][]string{}, 0 // by outcome
	for i := range ranking.Groups {
		g := &ranking.Groups[i]
		if g.Metric != result.Throughput || g.Cells()[0].OpenLoop() {
			continue // the schedule sets the throughput of an open loop
		}
		outcome := outcomeOf(g)
		if slices.ContainsFunc(g.Cells(), (*set.Cell).Unsafe) {
			outcome += "; not safe: threads ran for less than half of the time"
		}
		if loads[outcome] == nil {
			outcomes = append(outcomes, outcome)
		}
		loads[outcome], closed = append(loads[outcome], g.Cell), closed+1
	}
	more := new(doc.Doc)
	for i, outcome := range outcomes {
		part := out
		if i >= maxVerdicts {
			part = more
		}
		if closed > 1 {
			outcome = format.List(loads[outcome]) + ": " + outcome
		}
		part.Paragraph(outcome)
	}
	out.Fold(format.Count(len(outcomes)-maxVerdicts, "more verdict"), more)
	return out
}

// rankTransports compares the transports of a set in the metrics and against the minimum effect of
// the report and of diff --along, so that all have the same winners.
func rankTransports(s *set.Set) (*compare.Ranking, error) {
	return calibration.Along(new(calibration.Finder).OfSets(s), s, "transport", compare.Defaults())
}

// outcomeOf returns the outcome of one comparison in one line.
func outcomeOf(group *compare.Candidates) string {
	first, second := group.List[0], group.List[1]
	lead := ""
	if second.Lead != nil {
		lead = fmt.Sprintf(", %s better than %s", Times(*second.Lead, group.Better), second.Value)
	}
	switch {
	case group.Leader != "":
		return fmt.Sprintf("%s has the best %s%s", group.Leader, group.Metric, lead)
	case group.TooLittle || group.StatesApart:
		few := compare.FewRepeats
		if group.StatesApart {
			few = compare.FewWindows
		}
		return fmt.Sprintf("%s is first in %s%s; %s to be certain", first.Value, group.Metric,
			lead, few)
	}
	equal, floor := []string{first.Value}, 0.0
	for _, candidate := range group.List[1:] {
		if strings.ContainsAny(candidate.Group, first.Group) {
			equal, floor = append(equal, candidate.Value), max(floor, candidate.Floor)
		}
	}
	return fmt.Sprintf("undecided between %s; more repeats may show a %s lead",
		format.List(equal), format.Share(floor))
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
