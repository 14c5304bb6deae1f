package findings

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// GitHub refuses job summaries of more than 1 MiB, and comments of more than 65,536 characters.
const (
	summaryLimit = 1000 << 10
	commentLimit = 60_000
)

// GitHubSummary returns a comparison as a job summary of GitHub Actions: the verdict, what changed,
// and the rest folded.
func GitHubSummary(r *compare.Report) string { return github(r, summaryLimit) }

// GitHubComment returns a comparison as a comment of a pull request. It is empty if nothing
// changed: if no cell is better or worse, none failed on one side, and no threshold failed.
func GitHubComment(r *compare.Report) string {
	if len(changed(r)) == 0 && len(r.Broken) == 0 {
		return ""
	}
	return github(r, commentLimit)
}

// changed returns the changes that a reader should see first.
func changed(r *compare.Report) (list []*compare.Change) {
	return changesOf(r, func(c *compare.Change) bool {
		return isNews(c) && (c.Verdict != compare.Incomparable || c.Change == nil)
	})
}

// github returns a comparison of at most limit bytes, with as many rows as that allows.
func github(r *compare.Report, limit int) string {
	for rows := max(len(r.Rows()), len(r.Broken), len(r.Warnings)); ; rows /= 2 {
		if text := doc.Markdown(folded(r, rows)); len(text) <= limit || rows == 0 {
			return text
		}
	}
}

// folded returns a comparison of which only the verdict and what changed is unfolded, with at most
// so many rows in each table.
func folded(r *compare.Report, rows int) *doc.Doc {
	out := new(doc.Doc)
	out.Heading("transportbench: %s", headline(r))
	for _, b := range r.Broken[:min(rows, len(r.Broken))] {
		out.Remark("threshold %s failed: %s: %s %s", b.Threshold, b.Cell, b.Metric, breach(b))
	}
	leftOut(out, "threshold", len(r.Broken)-rows)
	first, every := changed(r), r.Rows()
	firstChanges(out, r, first, rows)
	checks := tables.FewWarnings(r.Warnings[:min(rows, len(r.Warnings))])
	out.Append(checks.Folded(""))
	if len(every) > len(first) {
		all := new(doc.Doc)
		firstChanges(all, r, every, rows)
		out.Fold("All "+format.Count(len(every), "comparison"), all)
	}
	notes := &doc.Fold{Title: "Notes and failed checks"}
	what := "shift: the median of all ratios of a new value to an old one"
	if r.Controlled() {
		what += ", without what the other transports moved under that load"
	}
	notes.Remarks(slices.Concat([]string{what}, changeNotes(changesOf(r, isNews)),
		diffNotes(r, false)))
	for _, d := range r.Across {
		notes.Remark("compared across different " + d.String())
	}
	for _, b := range checks.Blocks { // those that do not stand above
		if more, is := b.(*doc.Fold); is {
			notes.Append(&more.Doc)
		}
	}
	leftOut(&notes.Doc, "warning", len(r.Warnings)-rows)
	out.Add(notes)
	out.Remarks(append(sides(r), strings.Split(DiffSummary(r), "\n")...))
	return out
}

// firstChanges adds the first rows of a table of changes, and how many it leaves out.
func firstChanges(out *doc.Doc, r *compare.Report, changes []*compare.Change, rows int) {
	if shown := changes[:min(rows, len(changes))]; len(shown) > 0 {
		out.Gap()
		out.Add(fiveColumns(shown))
	}
	leftOut(out, "row", len(changes)-rows)
	out.Gap()
}

// fiveColumns returns one row for each change, narrow enough for a comment of GitHub. The change is
// the one that the verdict judges.
func fiveColumns(changes []*compare.Change) *doc.Table {
	t := doc.NewTable("cell", "metric", ">old → new", ">shift (interval)", "verdict")
	for _, c := range changes {
		values := doc.None() // of a change that all loads of a transport have in common
		if c.Old != nil || c.New != nil {
			old, new := medians(c)
			values = doc.CellOf(old.Text + " → " + new.Text)
		}
		change := doc.Change(c.Change)
		if c.Low != nil {
			change.Text += " (" + changeInterval(c) + ")"
		}
		t.Row(c.Cell, c.Metric, values, change, verdictCell(c.Verdict))
	}
	return t
}

// leftOut adds how many of something are not shown.
func leftOut(out *doc.Doc, what string, n int) {
	if n > 0 {
		out.Gap()
		out.Line("%s more, left out for their length", format.Count(n, what))
	}
}

// headline returns the verdict of a comparison in a few words.
func headline(r *compare.Report) string {
	all := format.Count(len(r.Changes), "comparison")
	var parts []string
	if n := len(r.Broken); n > 0 {
		parts = append(parts, format.Count(n, "threshold")+" failed")
	}
	for _, v := range []compare.Verdict{compare.Worse, compare.Better} {
		if n := r.CountTransports(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s over all loads %s", n,
				format.Count(len(r.Transports), "comparison"), v))
		}
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s %s", n, all, v)+ofThemAccepted(r, v))
		}
	}
	failed := 0
	for _, c := range changed(r) {
		if c.Verdict == compare.Incomparable {
			failed++
		}
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s %s", failed, all, compare.Incomparable))
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	text := "no change found in " + all
	switch s := r.Seen; {
	case s.Tests == 0:
	case s.None > 0:
		text += fmt.Sprintf(" (%d of %s could not have found any)", s.None,
			format.Count(s.Tests, "test"))
	case s.Tests == 1:
		text += fmt.Sprintf(" (it could have found one of %s)", format.Share(s.Largest))
	default:
		text += fmt.Sprintf(" (half could have found one of %s, all one of %s)",
			format.Share(s.Median), format.Share(s.Largest))
	}
	return text
}

// GitHubRanking returns a ranking as a job summary of GitHub Actions.
func GitHubRanking(r *compare.Ranking) *doc.Doc {
	decided := 0
	for _, group := range r.Groups {
		if group.Leader != "" {
			decided++
		}
	}
	out := new(doc.Doc)
	out.Heading("transportbench: a winner in %d of %s along %s", decided,
		format.Count(len(r.Groups), "comparison"), r.Axis)
	out.Append(Ranking(r))
	return out
}
