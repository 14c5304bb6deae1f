package present

import (
	"fmt"
	"io"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// GitHub refuses job summaries of more than 1 MiB, and comments of more than 65,536 characters.
const (
	summaryLimit = 1000 << 10
	commentLimit = 60_000
)

// GitHubSummary writes a comparison as a job summary of GitHub Actions: the verdict, what changed, and
// the rest folded.
func GitHubSummary(w io.Writer, r *compare.Report) error {
	_, err := io.WriteString(w, github(r, summaryLimit))
	return err
}

// GitHubComment writes a comparison as a comment of a pull request. It writes nothing if nothing changed:
// if no cell is better or worse, none failed on one side, and no threshold failed.
func GitHubComment(w io.Writer, r *compare.Report) error {
	if len(changed(r)) == 0 && len(r.Broken) == 0 {
		return nil
	}
	_, err := io.WriteString(w, github(r, commentLimit))
	return err
}

// changed returns the changes that a reader should see first.
func changed(r *compare.Report) (list []*compare.Change) {
	for i := range r.Changes {
		switch c := &r.Changes[i]; c.Verdict {
		case compare.Better, compare.Worse:
			list = append(list, c)
		case compare.Incomparable:
			if c.Change == nil {
				list = append(list, c)
			}
		}
	}
	return list
}

// github returns a comparison of at most limit bytes, with as many rows as that allows.
func github(r *compare.Report, limit int) string {
	for rows := max(len(r.Changes), len(r.Broken), len(r.Warnings)); ; rows /= 2 {
		if text := githubRows(r, rows); len(text) <= limit || rows == 0 {
			return text
		}
	}
}

func githubRows(r *compare.Report, rows int) string {
	var text strings.Builder
	w := markdownText{&text}
	fmt.Fprintf(&text, "### transportbench: %s\n\n", markdownEscaper.Replace(headline(r)))
	for _, b := range r.Broken[:min(rows, len(r.Broken))] {
		fmt.Fprintf(w, "- threshold %s failed: %s: %s %s\n", b.Threshold, b.Cell, b.Metric, breach(b))
	}
	leftOut(&text, "threshold", len(r.Broken)-rows)
	githubTable(&text, r, changed(r), rows)
	all := make([]*compare.Change, len(r.Changes))
	for i := range all {
		all[i] = &r.Changes[i]
	}
	fold(&text, fmt.Sprintf("All %s", format.Count(len(all), "comparison")), func() { githubTable(&text, r, all, rows) })
	fold(&text, "Notes and failed checks", func() {
		writeLines(w, append([]string{columnsNote}, diffNotes(r)...), true)
		GroupedWarnings(w, r.Warnings[:min(rows, len(r.Warnings))], true)
		leftOut(&text, "warning", len(r.Warnings)-rows)
	})
	writeLines(w, append(sides(r), strings.Split(DiffSummary(r), "\n")...), true)
	return text.String()
}

// githubTable writes the first rows of a table of changes, and how many it leaves out.
func githubTable(text *strings.Builder, r *compare.Report, changes []*compare.Change, rows int) {
	if shown := changes[:min(rows, len(changes))]; len(shown) > 0 {
		fmt.Fprintln(text)
		changeTable(markdownText{text}, shown, len(r.States) > 0, true)
	}
	leftOut(text, "row", len(changes)-rows)
	fmt.Fprintln(text)
}

// leftOut writes how many of something are not shown.
func leftOut(text *strings.Builder, what string, n int) {
	if n > 0 {
		fmt.Fprintf(text, "\n%s more, left out for their length\n", format.Count(n, what))
	}
}

// fold writes a part that a reader unfolds.
func fold(text *strings.Builder, title string, write func()) {
	fmt.Fprintf(text, "<details><summary>%s</summary>\n\n", title)
	write()
	fmt.Fprint(text, "\n</details>\n\n")
}

// headline returns the verdict of a comparison in a few words.
func headline(r *compare.Report) string {
	all := format.Count(len(r.Changes), "comparison")
	var parts []string
	if n := len(r.Broken); n > 0 {
		parts = append(parts, format.Count(n, "threshold")+" failed")
	}
	for _, v := range []compare.Verdict{compare.Worse, compare.Better} {
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
		text += fmt.Sprintf(" (%d of %s could not have found any)", s.None, format.Count(s.Tests, "test"))
	case s.Tests == 1:
		text += fmt.Sprintf(" (it could have found one of %s)", format.Share(s.Largest))
	default:
		text += fmt.Sprintf(" (half could have found one of %s, all one of %s)", format.Share(s.Median), format.Share(s.Largest))
	}
	return text
}

// GitHubRanking writes a ranking as a job summary of GitHub Actions.
func GitHubRanking(w io.Writer, r *compare.Ranking) {
	decided := 0
	for _, group := range r.Groups {
		if group.Leader != "" {
			decided++
		}
	}
	fmt.Fprintf(w, "### transportbench: a winner in %d of %s along %s\n\n", decided, format.Count(len(r.Groups), "comparison"), markdownEscaper.Replace(r.Axis))
	Ranking(w, r, true)
}
