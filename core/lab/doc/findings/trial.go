package findings

import (
	"fmt"
	"math"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare/trial"
	"transportbench/core/lab/store/format"
)

// Trial returns how often comparisons of equal sets err, and how often they find a change: over all
// sets, and over the quiet ones.
func Trial(t *trial.Trial) *doc.Doc {
	out := trialOf(t)
	if t.Quiet != nil {
		out.Gap()
		out.Line("quiet sets:")
		out.Append(trialOf(t.Quiet))
	}
	out.Gap()
	out.Remark("machine moved: the median over all changes, and the largest; transports within: "+
		"the spread of the others' own changes; withheld: no verdict on a cell, because the "+
		"machine moved too far or was disturbed; unadjusted: tests with p below %s before Holm's "+
		"adjustment", format.Share(t.Alpha))
	out.Remark("intervals at 95% by the jackknife over sets, because pairs share sets")
	return out
}

func trialOf(t *trial.Trial) *doc.Doc {
	out := new(doc.Doc)
	rows := doc.NewTable("metric", ">machine moved", ">at most", ">transports within", ">withheld",
		">false tests", ">unadjusted", ">found "+format.Share(t.Injected))
	for _, m := range t.Metrics {
		rows.Row(m.Metric, format.Share(m.Machine[1]), format.Share(m.Machine[3]),
			format.Share(m.Spread), rate(m.Withheld), rate(m.False), rate(m.Unadjusted),
			rate(m.Found))
	}
	out.Add(rows)
	out.Gap()
	out.Line(
		"%s of %d equal sets, %s apart (median), alpha %s: %s of the comparisons have a false "+
			"verdict (on a transport %s, on a cell %s; %s of the changes of cells cannot have "+
			"one); one transport slower by %s is found in %s (the transport in %s, one of its "+
			"cells in %s); at most %s of the pairs differ by more than %s",
		format.Count(t.Pairs, "pair"), t.Sets,
		format.Count(int(math.Round(t.ApartS/60)), "minute"), format.Share(t.Alpha),
		rate(t.False), rate(t.Transports.False), rate(t.Cells.False),
		rate(t.Withheld), format.Share(t.Injected),
		rate(t.Found), rate(t.Transports.Found), rate(t.Cells.Found), format.Share(t.Alpha),
		format.Share(t.Limit))
	return out
}

func rate(r trial.Rate) string {
	if r.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", format.Share(r.Share), format.Share(r.Low),
		format.Share(r.High))
}
