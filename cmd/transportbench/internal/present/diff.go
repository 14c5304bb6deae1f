package present

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// renderTable writes a table for people: plain, or as Markdown.
func renderTable(t table.Writer, markdown bool) {
	if markdown {
		t.RenderMarkdown()
	} else {
		t.Render()
	}
}

// rowsShown is how many changes are shown before those that are the same are
// left out.
const rowsShown = 40

// Diff writes a comparison: the changes, largest first, the means, what has no
// counterpart, and the reading of it all. Of many changes those that are the
// same are counted only, unless all are asked for.
func Diff(w io.Writer, r *compare.Report, all, markdown bool) {
	hide := !all && len(r.Changes) > rowsShown
	t := newTable(w, "cell", "metric", "old", "new", "change", "95% interval", "p (Holm)", "verdict")
	rightAlign(t, 3, 4, 5, 6, 7)
	hidden := 0
	for i := range r.Changes {
		c := &r.Changes[i]
		if hide && c.Verdict == compare.Same {
			hidden++
			continue
		}
		t.AppendRow(table.Row{c.Cell, c.Metric, median(c.Old), median(c.New),
			format.Percent(c.Change), format.Percents(c.Low, c.High), format.Probability(c.PHolm), string(c.Verdict)})
	}
	if t.Length() > 0 {
		renderTable(t, markdown)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "%s with the verdict SAME not shown; --all shows them\n", format.Count(hidden, "row"))
	}
	if len(r.Means) > 0 {
		fmt.Fprintln(w)
		diffMeans(w, r, markdown)
	}
	fmt.Fprintln(w)
	diffNotes(w, r)
	for _, b := range r.Broken {
		fmt.Fprintf(w, "threshold %s failed: %s: %s %s\n", b.Threshold, b.Cell, b.Metric, breach(b))
	}
	fmt.Fprintln(w, DiffSummary(r))
}

func breach(b compare.Breach) string {
	if b.Relative {
		return "changed by " + format.Percent(&b.Value)
	}
	d := result.Define(b.Metric)
	return "is " + format.Value(result.Metric{Unit: d.Unit, Median: b.Value})
}

func diffMeans(w io.Writer, r *compare.Report, markdown bool) {
	t := newTable(w, "transport", "metric", "cells", "geometric mean of the changes")
	rightAlign(t, 3, 4)
	for _, m := range r.Means {
		t.AppendRow(table.Row{m.Transport, m.Metric, m.Cells, format.Percent(&m.Change)})
	}
	renderTable(t, markdown)
}

// diffNotes writes what explains changes, each thing once.
func diffNotes(w io.Writer, r *compare.Report) {
	for _, d := range r.Across {
		fmt.Fprintf(w, "compared across different %s\n", d)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note: "+note)
	}
	const most = 20
	written := map[string]bool{}
	for i := range r.Changes {
		c := &r.Changes[i]
		line := c.Cell + ": " + c.Note
		if c.Note == "" || written[line] {
			continue
		}
		if written[line] = true; len(written) <= most {
			fmt.Fprintln(w, "note: "+line)
		}
	}
	if len(written) > most {
		fmt.Fprintf(w, "note: and so on for %d more\n", len(written)-most)
	}
	single(w, "old", r.OnlyOld)
	single(w, "new", r.OnlyNew)
}

// single lists the cells of one side that have no counterpart.
func single(w io.Writer, side string, cells []compare.Single) {
	const most = 20
	for i, c := range cells {
		if i == most {
			fmt.Fprintf(w, "only in %s: and %d more\n", side, len(cells)-most)
			return
		}
		line := "only in " + side + ": " + c.Cell
		if c.Status != "measured" {
			line += " (" + c.Status + ": " + c.Reason + ")"
		}
		fmt.Fprintln(w, line)
	}
}

// DiffSummary says in one line what a comparison came to.
func DiffSummary(r *compare.Report) string {
	var parts []string
	for _, v := range []compare.Verdict{compare.Worse, compare.Better, compare.Same, compare.Ambiguous, compare.Incomparable} {
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing to compare"}
	}
	text := fmt.Sprintf("%s (alpha %g over %s, changes below %g%% do not count)",
		strings.Join(parts, ", "), r.Alpha, format.Count(r.Tests, "test"), 100*r.Floor)
	if n := r.TooLittle(); n > 0 {
		text += fmt.Sprintf("\n%d of them have too few repeats for a verdict among %s: it takes %d on each side", n, format.Count(r.Tests, "test"), r.Needed())
	}
	return text
}

func median(m *result.Metric) string {
	if m == nil {
		return "-"
	}
	return format.Value(*m)
}

// DiffCSV writes one line for each change, with plain numbers.
func DiffCSV(w io.Writer, r *compare.Report) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"cell", "transport", "metric", "unit", "old", "old_repeats", "new", "new_repeats",
		"change", "change_low", "change_high", "p", "p_holm", "verdict", "too_little", "note"}}
	for i := range r.Changes {
		c := &r.Changes[i]
		oldMedian, oldN := plainMetric(c.Old)
		newMedian, newN := plainMetric(c.New)
		rows = append(rows, []string{c.Cell, c.Transport, c.Metric, c.Unit, oldMedian, oldN, newMedian, newN,
			plain(c.Change), plain(c.Low), plain(c.High), plain(c.P), plain(c.PHolm),
			string(c.Verdict), strconv.FormatBool(c.TooLittle), c.Note})
	}
	return out.WriteAll(rows)
}

func plain(v *float64) string {
	if v == nil || math.IsNaN(*v) {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func plainMetric(m *result.Metric) (value, n string) {
	if m == nil {
		return "", ""
	}
	return plain(&m.Median), strconv.Itoa(m.N)
}

// Ranking writes which value of an axis wins where, and by how much.
func Ranking(w io.Writer, r *compare.Ranking, markdown bool) {
	t := newTable(w, "cell", "metric", "winner", "best", "by", "95% interval", "p (Holm)", "before", "then")
	rightAlign(t, 4, 5, 6, 7)
	undecided, tooLittle := 0, 0
	for _, race := range r.Groups {
		winner := race.Leader
		if winner == "" {
			winner = "undecided"
			undecided++
		}
		if race.TooLittle {
			tooLittle++
		}
		first, second := race.List[0], race.List[1]
		var rest []string
		for _, runner := range race.List[2:] {
			rest = append(rest, fmt.Sprintf("%s (%s)", runner.Value, format.Percent(runner.Behind)))
		}
		t.AppendRow(table.Row{race.Cell, race.Metric, winner, first.Value + " " + format.Value(first.Metric),
			format.Percent(second.Behind), format.Percents(second.Low, second.High), format.Probability(second.PHolm),
			second.Value + " " + format.Value(second.Metric), strings.Join(rest, ", ")})
	}
	renderTable(t, markdown)
	fmt.Fprintln(w)
	wins := newTable(w, "metric", r.Axis, "wins", "of")
	rightAlign(wins, 3, 4)
	for _, win := range r.Leaders {
		wins.AppendRow(table.Row{win.Metric, win.Value, win.Wins, win.Groups})
	}
	renderTable(wins, markdown)
	fmt.Fprintln(w)
	for _, d := range r.Across {
		fmt.Fprintf(w, "compared across different %s\n", d)
	}
	fmt.Fprintf(w, "%s, %d undecided (alpha %g over %s, leads below %g%% do not count)\n",
		format.Count(len(r.Groups), "race"), undecided, r.Alpha, format.Count(r.Tests, "test"), 100*r.Floor)
	if tooLittle > 0 {
		fmt.Fprintf(w, "%d of them have too few repeats to be decided\n", tooLittle)
	}
}

// RankingCSV writes one line for each value in each race, with plain numbers.
func RankingCSV(w io.Writer, r *compare.Ranking) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"cell", "metric", "unit", "place", r.Axis, "median", "repeats", "behind", "behind_low", "behind_high", "p_holm", "winner"}}
	for _, race := range r.Groups {
		for i, runner := range race.List {
			value, n := plainMetric(&runner.Metric)
			rows = append(rows, []string{race.Cell, race.Metric, race.Unit, strconv.Itoa(i + 1), runner.Value, value, n,
				plain(runner.Behind), plain(runner.Low), plain(runner.High), plain(runner.PHolm), race.Leader})
		}
	}
	return out.WriteAll(rows)
}

// Standing says in one line what is known of a comparison that goes on.
func Standing(repeats int, r *compare.Report) string {
	var parts []string
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Metric == result.Throughput || len(r.Changes) == 1 {
			parts = append(parts, fmt.Sprintf("%s %s (%s) %s", c.Metric, format.Percent(c.Change), format.Percents(c.Low, c.High), c.Verdict))
		}
	}
	return fmt.Sprintf("after %s: %s", format.Count(repeats, "repeat"), strings.Join(parts, ", "))
}
