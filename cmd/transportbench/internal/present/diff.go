package present

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/export"
	"transportbench/core/lab/result/format"
)

// rowsShown is the number of changes above which rows with the verdict SAME
// are only counted.
const rowsShown = 40

// Diff writes a comparison: the changes, largest first, the means, cells
// without a counterpart, and a summary. If there are many changes and all is
// false, it only counts those with the verdict SAME.
func Diff(w io.Writer, r *compare.Report, all, markdown bool) {
	if markdown {
		w = markdownText{w}
	}
	hide := !all && len(r.Changes) > rowsShown
	columns := []string{"cell", "metric", ">old", ">new", ">change", ">interval", ">p (Holm)", "verdict"}
	if len(r.States) > 0 {
		columns = append(columns, "by state (windows)")
	}
	t := newTable(w, columns...).wrap("cell", 16).drop("by state (windows)", "p (Holm)", "interval", "old", "new")
	hidden := 0
	for i := range r.Changes {
		c := &r.Changes[i]
		if hide && c.Verdict == compare.Same {
			hidden++
			continue
		}
		old, new := medians(c.Old, c.New, c.States)
		row := table.Row{c.Cell, c.Metric, old, new,
			format.Percent(c.Change), changeInterval(c), format.Probability(c.PHolm), string(c.Verdict)}
		if len(r.States) > 0 {
			row = append(row, byState(c.States))
		}
		t.AppendRow(row)
	}
	if t.Length() > 0 {
		renderTable(t, markdown)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "%s with the verdict SAME hidden; --all shows them\n", format.Count(hidden, "row"))
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
	GroupedWarnings(w, r.Warnings, markdown)
	fmt.Fprintln(w, DiffSummary(r))
}

// medians formats the medians of both sides: those of the windows in the state of the machine in which
// both have most, with its name, or those of all windows if there are no states in common.
func medians(old, new *result.Metric, states []compare.StateChange) (a, b string) {
	common := compare.Common(states)
	if common == nil || old == nil || new == nil {
		return median(old), median(new)
	}
	in := func(unit string, value *float64) string {
		return format.Value(result.Metric{Unit: unit, Median: *value}) + " " + common.State
	}
	return in(old.Unit, common.Old), in(new.Unit, common.New)
}

// changeInterval formats the interval of a change, with a label if it is within one launch.
func changeInterval(c *compare.Change) string {
	text := format.Percents(c.Low, c.High)
	if c.OneLaunch && c.Low != nil {
		text += " within one launch"
	}
	return text
}

// byState lists the changes in each state of the machine, with the windows of the old and the new
// side.
func byState(states []compare.StateChange) string {
	var parts []string
	for _, s := range states {
		part := s.State
		if s.Change != nil {
			part += " " + format.Percent(s.Change)
		}
		parts = append(parts, fmt.Sprintf("%s (%d:%d)", part, s.OldN, s.NewN))
	}
	return strings.Join(parts, ", ")
}

func breach(b compare.Breach) string {
	if b.Relative {
		return "changed by " + format.Percent(&b.Value)
	}
	d := result.Define(b.Metric)
	return "is " + format.Value(result.Metric{Unit: d.Unit, Median: b.Value})
}

func diffMeans(w io.Writer, r *compare.Report, markdown bool) {
	t := newTable(w, "transport", "metric", ">cells", ">geometric mean of the changes")
	for _, m := range r.Means {
		t.AppendRow(table.Row{m.Transport, m.Metric, m.Cells, format.Percent(&m.Change)})
	}
	renderTable(t, markdown)
}

// diffNotes writes what explains changes, each note once.
func diffNotes(w io.Writer, r *compare.Report) {
	for _, d := range r.Across {
		fmt.Fprintf(w, "compared across different %s\n", d)
	}
	writeNotes(w, r.Notes, r.Floor, r.FloorFrom)
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
		fmt.Fprintf(w, "note: and %d more like these\n", len(written)-most)
	}
	single(w, "old", r.OnlyOld)
	single(w, "new", r.OnlyNew)
}

// writeNotes writes the notes of a comparison, and where the least change that counts is from unless
// the user has chosen it.
func writeNotes(w io.Writer, notes []string, floor float64, from string) {
	for _, note := range notes {
		fmt.Fprintln(w, "note: "+note)
	}
	if from != "" {
		fmt.Fprintf(w, "note: least change that counts: %s, %s; --floor sets another\n", format.Share(floor), from)
	}
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

// DiffSummary returns the outcome of a comparison in one line.
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
	text := fmt.Sprintf("%s (alpha %g over %s against changes of %s; intervals at the adjusted level)",
		strings.Join(parts, ", "), r.Alpha, format.Count(r.Tests, "test"), margins(r.Floor, r.Same))
	if n := r.TooLittle(); n > 0 {
		text += fmt.Sprintf("\n%d of them have too few repeats for a verdict among %s: %d on each side are needed", n, format.Count(r.Tests, "test"), r.Needed())
	}
	if t := r.Thresholds; t.TooLittle > 0 {
		text += fmt.Sprintf("\n%d of %s of thresholds could not fail, whatever the change: too few repeats, or several of a launch; %d launches on each side are needed",
			t.TooLittle, format.Count(t.Tests, "test"), t.Needed)
	}
	if t := r.Thresholds; t.StatesApart > 0 {
		text += fmt.Sprintf("\n%d of %s of thresholds could not fail, whatever the change: too few windows in the same states of the machine",
			t.StatesApart, format.Count(t.Tests, "test"))
	}
	return text
}

// margins returns the least change that counts, and that within which changes are SAME if it is less.
func margins(floor, same float64) string {
	text := format.Share(floor)
	if same > 0 && same < floor {
		text += ", SAME within " + format.Share(same)
	}
	return text
}

func median(m *result.Metric) string {
	if m == nil {
		return "-"
	}
	return format.Value(*m)
}

// DiffCSV writes one line per change, with plain numbers.
func DiffCSV(w io.Writer, r *compare.Report) error {
	out := export.NewCSVWriter(w)
	rows := [][]string{{"cell", "transport", "metric", "unit", "old", "old_repeats", "new", "new_repeats",
		"change", "change_low", "change_high", "p", "p_holm", "verdict", "too_little", "one_launch", "by_state", "note"}}
	for i := range r.Changes {
		c := &r.Changes[i]
		oldMedian, oldN := plainMetric(c.Old)
		newMedian, newN := plainMetric(c.New)
		rows = append(rows, []string{c.Cell, c.Transport, c.Metric, c.Unit, oldMedian, oldN, newMedian, newN,
			plain(c.Change), plain(c.Low), plain(c.High), plain(c.P), plain(c.PHolm),
			string(c.Verdict), strconv.FormatBool(c.TooLittle), strconv.FormatBool(c.OneLaunch), byState(c.States), c.Note})
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

// Ranking writes which value of an axis wins in which cells, by how much, and which values cannot be
// told apart.
func Ranking(w io.Writer, r *compare.Ranking, markdown bool) {
	if markdown {
		w = markdownText{w}
	}
	columns := []string{"cell", "metric", "winner", "groups", ">best", ">by", ">interval", ">p (Holm)", "before", "then"}
	if len(r.States) > 0 {
		columns = append(columns, "by state (windows of the second:best)")
	}
	t := newTable(w, columns...).wrap("groups", 24).
		drop("by state (windows of the second:best)", "then", "before", "p (Holm)", "interval", "best", "by")
	undecided, tooLittle := 0, 0
	for _, group := range r.Groups {
		winner := group.Leader
		if winner == "" {
			winner = "undecided"
			undecided++
		}
		if group.TooLittle {
			tooLittle++
		}
		first, second := group.List[0], group.List[1]
		var rest []string
		for _, candidate := range group.List[2:] {
			rest = append(rest, fmt.Sprintf("%s (%s)", candidate.Value, format.Percent(candidate.Behind)))
		}
		before, best := medians(&second.Metric, &first.Metric, second.States)
		row := table.Row{group.Cell, group.Metric, winner, lettersOf(group), first.Value + " " + best,
			format.Percent(second.Behind), format.Percents(second.Low, second.High), format.Probability(second.PHolm),
			second.Value + " " + before, strings.Join(rest, ", ")}
		if len(r.States) > 0 {
			row = append(row, byState(second.States))
		}
		t.AppendRow(row)
	}
	renderTable(t, markdown)
	fmt.Fprintln(w)
	wins := newTable(w, "metric", r.Axis, ">wins", ">of")
	for _, leader := range r.Leaders {
		wins.AppendRow(table.Row{leader.Metric, leader.Value, leader.Wins, leader.Groups})
	}
	renderTable(wins, markdown)
	fmt.Fprintln(w)
	rankingNotes(w, r)
	GroupedWarnings(w, r.Warnings, markdown)
	fmt.Fprintln(w, "groups: values without a letter in common are told apart, those with one are not; a winner is told apart from all others")
	fmt.Fprintf(w, "%s, %d undecided (alpha %g over %s of all pairs against leads of %s; intervals at the adjusted level)\n",
		format.Count(len(r.Groups), "comparison"), undecided, r.Alpha, format.Count(r.Tests, "test"), margins(r.Floor, r.Same))
	if tooLittle > 0 {
		fmt.Fprintf(w, "%d of them have too few repeats to be decided\n", tooLittle)
	}
}

// lettersOf lists the values of a group of cells with their letters, the best first: "shm a, erpc ab".
func lettersOf(group compare.Candidates) string {
	var parts []string
	for _, candidate := range group.List {
		parts = append(parts, candidate.Value+" "+candidate.Group)
	}
	return strings.Join(parts, ", ")
}

// rankingNotes writes what a reader of a ranking should know, each note once.
func rankingNotes(w io.Writer, r *compare.Ranking) {
	for _, d := range r.Across {
		fmt.Fprintf(w, "compared across different %s\n", d)
	}
	writeNotes(w, r.Notes, r.Floor, r.FloorFrom)
	written := map[string]bool{}
	for _, group := range r.Groups {
		if second := group.List[1]; second.Note != "" {
			line := group.Cell + ": " + second.Note
			if !written[line] {
				written[line] = true
				fmt.Fprintln(w, "note: "+line)
			}
		}
	}
}

// RankingCSV writes one line per value and group of cells, with plain numbers.
func RankingCSV(w io.Writer, r *compare.Ranking) error {
	out := export.NewCSVWriter(w)
	rows := [][]string{{"cell", "metric", "unit", "place", r.Axis, "median", "repeats", "behind", "behind_low", "behind_high", "p_holm", "winner", "group"}}
	for _, group := range r.Groups {
		for i, candidate := range group.List {
			value, n := plainMetric(&candidate.Metric)
			rows = append(rows, []string{group.Cell, group.Metric, group.Unit, strconv.Itoa(i + 1), candidate.Value, value, n,
				plain(candidate.Behind), plain(candidate.Low), plain(candidate.High), plain(candidate.PHolm), group.Leader, candidate.Group})
		}
	}
	return out.WriteAll(rows)
}

// Standing returns the state of a running comparison in one line.
func Standing(repeats int, r *compare.Report) string {
	var parts []string
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Metric == result.Throughput && !c.Scheduled || c.Metric == result.ResponseP50 || len(r.Changes) == 1 {
			parts = append(parts, fmt.Sprintf("%s %s (%s) %s", c.Metric, format.Percent(c.Change), format.Percents(c.Low, c.High), c.Verdict))
		}
	}
	return fmt.Sprintf("after %s: %s", format.Count(repeats, "repeat"), strings.Join(parts, ", "))
}
