package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// rowsShown is the number of changes above which those that are no news are only counted.
const rowsShown = 12

// newsShown is how many notes on changes a summary has.
const newsShown = 3

// byVerdict are the verdicts in the order in which people read them: what changed comes first.
var byVerdict = []compare.Verdict{compare.Worse, compare.Better, compare.Incomparable,
	compare.Ambiguous, compare.Same}

// ByVerdict returns the numbers of changes as [Diff] shows them: by verdict, and within one in the
// order that they have, which is the largest first.
func ByVerdict(changes []compare.Change) []int {
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int { return slices.Index(byVerdict, changes[i].Verdict) }
	slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
	return order
}

// Diff returns a comparison: a summary, the changes by verdict, the means, cells without a
// counterpart, and notes. If a table has many changes and all is false, it only counts those that
// are AMBIGUOUS or SAME.
func Diff(r *compare.Report, all bool) *doc.Doc {
	out, _ := diff(r, all)
	return out
}

// AllChanges returns the table of all changes of a comparison, in the order of ByVerdict, and what
// Diff shows besides it. The table is nil if there are no changes.
func AllChanges(r *compare.Report) (changes *doc.Table, rest *doc.Doc) {
	rest, at := diff(r, true)
	if len(r.Changes) == 0 {
		return nil, rest
	}
	changes = rest.Blocks[at].(*doc.Table)
	rest.Blocks = slices.Delete(rest.Blocks, at, at+1)
	return changes, rest
}

// diff also returns which block is the table of changes.
func diff(r *compare.Report, all bool) (out *doc.Doc, changes int) {
	out = new(doc.Doc)
	out.Line(DiffSummary(r))
	out.Gap()
	out.Remarks(sides(r))
	out.Gap()
	if len(r.Transports) > 0 {
		addRows(out, r.Transports, all, transportTable)
		out.Gap()
	}
	changes = len(out.Blocks)
	addRows(out, r.Changes, all, func(rows []*compare.Change) *doc.Table {
		return changeTable(rows, r)
	})
	severalCells := func(m compare.Mean) bool { return m.Cells > 1 }
	if len(r.Transports) == 0 && slices.ContainsFunc(r.Means, severalCells) {
		out.Gap()
		diffMeans(out, r)
	}
	out.Gap()
	news := changeNotes(changesOf(r, isNews))
	first := min(len(news), newsShown)
	out.Remarks(append(urgent(r), news[:first]...))
	out.Append(tables.FewWarnings(r.Warnings))
	notes := new(doc.Doc)
	notes.Remarks(slices.Concat([]string{columnsNote(r)}, news[first:], diffNotes(r, all)))
	out.Fold("notes", notes)
	return out, changes
}

// addRows adds the table of changes by verdict. If there are many and all is false, it only counts
// those that are AMBIGUOUS or SAME.
func addRows(out *doc.Doc, changes []compare.Change, all bool,
	table func([]*compare.Change) *doc.Table) {
	var rows []*compare.Change
	hidden := map[compare.Verdict]int{}
	for _, i := range ByVerdict(changes) {
		c := &changes[i]
		if isNoNews(c) && !all && len(changes) > rowsShown {
			hidden[c.Verdict]++
		} else {
			rows = append(rows, c)
		}
	}
	if len(rows) > 0 {
		out.Add(table(rows))
	}
	for _, v := range byVerdict {
		if n := hidden[v]; n > 0 {
			out.Line("%s with the verdict %s hidden; --all shows them", format.Count(n, "row"), v)
		}
	}
}

// urgent returns which thresholds failed, and what differs besides the versions.
func urgent(r *compare.Report) (lines []string) {
	for _, b := range r.Broken {
		lines = append(lines, fmt.Sprintf("threshold %s failed: %s: %s %s", b.Threshold, b.Cell,
			b.Metric, breach(b)))
	}
	for _, d := range r.Across {
		lines = append(lines, "compared across different "+d.String())
	}
	return lines
}

// sides describes both sides, each in one line.
func sides(r *compare.Report) []string {
	return []string{fmt.Sprintf("old: %s: %s", r.Old, r.OldSide),
		fmt.Sprintf("new: %s: %s", r.New, r.NewSide)}
}

// changeTable returns one row for each change. The column change is what the medians beside it
// imply.
func changeTable(changes []*compare.Change, r *compare.Report) *doc.Table {
	columns := []string{"cell", "metric", ">old", ">new", ">change", ">shift", ">interval",
		">p (Holm)", "verdict"}
	states, controlled := len(r.States) > 0, r.Controlled()
	if controlled {
		columns = slices.Insert(columns, 5, ">machine")
	}
	if states {
		columns = append(columns, "by state (windows)")
	}
	t := doc.NewTable(columns...).Wrap(16, "cell").Drop("by state (windows)", "p (Holm)", "machine",
		"change", "old", "new")
	for _, c := range changes {
		old, new := medians(c)
		row := []any{c.Cell, c.Metric, old, new, doc.Change(c.OfMedians),
			doc.Change(c.Change), changeInterval(c), holm(c), verdictCell(c.Verdict)}
		if controlled {
			row = slices.Insert(row, 5, any(machineMoved(c)))
		}
		if states {
			row = append(row, byState(c.States))
		}
		t.Row(row...)
	}
	return t
}

// transportTable returns one row for what the loads of each transport have in common.
func transportTable(rows []*compare.Change) *doc.Table {
	t := doc.NewTable("transport", "metric", ">machine", ">own change", ">interval", ">p (Holm)",
		"verdict").Drop("p (Holm)", "machine")
	for _, c := range rows {
		t.Row(c.Cell, c.Metric, machineMoved(c), doc.Change(c.Change), changeInterval(c), holm(c),
			verdictCell(c.Verdict))
	}
	return t
}

// holm returns the cell of the adjusted p of a change.
func holm(c *compare.Change) doc.Cell {
	if c.PHolm == nil {
		return doc.None()
	}
	return doc.Cell{Type: doc.Share, Text: format.Probability(c.PHolm), Value: *c.PHolm}
}

// machineMoved returns the cell of how far the machine moved.
func machineMoved(c *compare.Change) doc.Cell {
	if c.Control == nil {
		return doc.None()
	}
	return doc.Change(&c.Control.Machine)
}

func verdictCell(v compare.Verdict) doc.Cell {
	severities := map[compare.Verdict]result.Severity{
		compare.Worse: result.Error, compare.Incomparable: result.Error,
		compare.Better: doc.Good, // AMBIGUOUS is no news, good or bad
	}
	return doc.Cell{Text: string(v), Severity: severities[v]}
}

// columnsNote explains the columns that a reader could take for each other.
func columnsNote(r *compare.Report) string {
	text :=
		"change: of the two medians; shift: the median of all ratios of a new value to an old " +
			"one, which interval and verdict are about"
	if r.Controlled() {
		text += "; machine: how far the other transports moved under that load, which shift " +
			"leaves out"
	}
	return text
}

// medians returns the medians of both sides, with the name of the state that they are in.
func medians(c *compare.Change) (old, new doc.Cell) {
	a, b, state := c.Shown()
	in := func(m *result.Metric) doc.Cell {
		cell := doc.MedianOf(m)
		cell.Text = strings.TrimSpace(cell.Text + " " + state)
		return cell
	}
	return in(a), in(b)
}

// changeInterval formats the interval of a change, with a label if it is within one process start.
func changeInterval(c *compare.Change) string {
	text := format.Percents(c.Low, c.High)
	if c.OneStart && c.Low != nil {
		text += " within one process start"
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

// diffMeans writes a row for each transport, with the mean change of each metric and the number of
// cells, or the range of it.
func diffMeans(out *doc.Doc, r *compare.Report) {
	var transports, metrics []string
	for _, m := range r.Means {
		if !slices.Contains(transports, m.Transport) {
			transports = append(transports, m.Transport)
		}
		if !slices.Contains(metrics, m.Metric) {
			metrics = append(metrics, m.Metric)
		}
	}
	columns := []string{"geometric mean of the changes"}
	for _, metric := range metrics {
		columns = append(columns, ">"+metric)
	}
	t := doc.NewTable(append(columns, ">cells")...)
	for _, transport := range transports {
		row := []any{transport}
		var cells []int
		for _, metric := range metrics {
			change := doc.None()
			for _, m := range r.Means {
				if m.Transport == transport && m.Metric == metric {
					change, cells = doc.Change(&m.Change), append(cells, m.Cells)
				}
			}
			row = append(row, change)
		}
		count := strconv.Itoa(slices.Min(cells))
		if high := slices.Max(cells); high > slices.Min(cells) {
			count += " to " + strconv.Itoa(high)
		}
		t.Row(append(row, count)...)
	}
	out.Add(t)
}

// diffNotes returns what explains the other changes and the whole comparison, the first notes or
// all. Those of news are not among them.
func diffNotes(r *compare.Report, all bool) (lines []string) {
	lines = notesOf(r.Notes, r.Floor, r.FloorFrom)
	notes, limit := changeNotes(changesOf(r, isNoNews)), 20
	if !all && len(notes) > limit {
		more := fmt.Sprintf("note: and %d more like these", len(notes)-limit)
		notes = append(notes[:limit], more)
	}
	lines = append(lines, notes...)
	for _, c := range changed(r) {
		if text := c.Readout(); text != "" {
			lines = append(lines, fmt.Sprintf("%s %s: %s", c.Cell, c.Metric, text))
		}
	}
	return append(append(lines, singles("old", r.OnlyOld)...), singles("new", r.OnlyNew)...)
}

// isNews reports whether a change is listed however many there are: it is not AMBIGUOUS or SAME.
func isNews(c *compare.Change) bool { return !isNoNews(c) }

func isNoNews(c *compare.Change) bool {
	return c.Verdict == compare.Ambiguous || c.Verdict == compare.Same
}

func changesOf(r *compare.Report, are func(*compare.Change) bool) []*compare.Change {
	return slices.DeleteFunc(r.Rows(), func(c *compare.Change) bool { return !are(c) })
}

// changeNotes returns the notes of changes, each once.
func changeNotes(changes []*compare.Change) (lines []string) {
	for _, c := range changes {
		line := "note: " + c.Cell + ": " + c.Note
		if c.Note != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// notesOf returns the notes of a comparison, and where the minimum effect is from unless the user
// has chosen it.
func notesOf(notes []string, floor float64, from string) (lines []string) {
	for _, note := range notes {
		lines = append(lines, "note: "+note)
	}
	if from != "" {
		lines = append(lines, fmt.Sprintf("note: minimum effect: %s, %s; --floor sets another",
			format.Share(floor), from))
	}
	return lines
}

// singlesShown is the number of cells without a counterpart that are named.
const singlesShown = 20

// singles lists the cells of one side that have no counterpart.
func singles(side string, cells []compare.Single) (lines []string) {
	for i, c := range cells {
		if i == singlesShown {
			return append(lines, fmt.Sprintf("only in %s: and %d more", side, len(cells)-i))
		}
		line := "only in " + side + ": " + c.Cell
		if c.Status != "measured" {
			line += " (" + c.Status + ": " + c.Reason + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// ofThemAccepted says how many of the changes for the worse were accepted, if any.
func ofThemAccepted(r *compare.Report, v compare.Verdict) string {
	if n := r.Accepted(); v == compare.Worse && n > 0 {
		return fmt.Sprintf(" (%d accepted)", n)
	}
	return ""
}

func verdictsOf(changes []compare.Change) string {
	var parts []string
	for _, v := range byVerdict {
		n, accepted := 0, 0
		for i := range changes {
			if c := &changes[i]; c.Verdict == v {
				if n++; c.Accepted != nil {
					accepted++
				}
			}
		}
		part := fmt.Sprintf("%d %s", n, v)
		if accepted > 0 {
			part += fmt.Sprintf(" (%d accepted)", accepted)
		}
		if n > 0 {
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing to compare")
}

// DiffSummary returns the outcome of a comparison in one line.
func DiffSummary(r *compare.Report) string {
	text := ""
	if len(r.Transports) > 0 {
		text = "cells: "
	}
	text += fmt.Sprintf(
		"%s (alpha %g over %s against changes of %s; intervals at the adjusted level)",
		verdictsOf(r.Changes), r.Alpha, format.Count(r.Tests, "test"), margins(&r.Basis))
	if n := len(r.Transports); n > 0 {
		text += fmt.Sprintf("\ntransports over all loads: %s (half of alpha over %s)",
			verdictsOf(r.Transports), format.Count(n, "test"))
	}
	if n := r.TooLittle(); n > 0 {
		text += fmt.Sprintf(
			"\n%s with too few repeats for a verdict among %s: %d on each side are needed",
			format.Count(n, "change"), format.Count(r.Tests, "test"), r.Needed())
	}
	if n := r.StatesApart(); n > 0 {
		text += fmt.Sprintf("\n%s with %s for a verdict", format.Count(n, "change"),
			compare.FewWindows)
	}
	if t := r.Thresholds; t.TooLittle > 0 {
		text += fmt.Sprintf("\n%d of %s of thresholds could not fail, whatever the change: too "+
			"few repeats, or several of a process start; %d process starts on each side are needed",
			t.TooLittle, format.Count(t.Tests, "test"), t.Needed)
	}
	if t := r.Thresholds; t.StatesApart > 0 {
		text += fmt.Sprintf("\n%d of %s of thresholds could not fail, whatever the change: too "+
			"few windows in the same states of the machine",
			t.StatesApart, format.Count(t.Tests, "test"))
	}
	withheld := map[string]int{}
	for i := range r.Changes {
		withheld[r.Changes[i].Withheld()]++
	}
	delete(withheld, "")
	for _, why := range slices.Sorted(maps.Keys(withheld)) {
		text += fmt.Sprintf("\n%s of cells without a verdict: %s",
			format.Count(withheld[why], "change"), why)
	}
	if line := belowClock(r); line != "" {
		text += "\n" + line
	}
	switch {
	case r.Together != "":
		text += "\n" + r.Together + "; in turns, this can: transportbench " + r.Bridge
	case r.Bridge != "":
		text += "\nfairer, both versions in turns: transportbench " + r.Bridge
	}
	if line := seen(r); line != "" {
		text += "\n" + line
	}
	return text
}

// belowClock returns a line that counts the changes without a verdict because the clock is too
// coarse, and names metrics that show smaller ones. It returns "" if there are none.
func belowClock(r *compare.Report) string {
	var metrics []string
	n := 0
	for i := range r.Changes {
		if c := &r.Changes[i]; c.BelowClock {
			if n++; !slices.Contains(metrics, c.Metric) {
				metrics = append(metrics, c.Metric)
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s without a verdict, smaller than a step of the clock: --metric "+
		"%s,%s shows smaller ones", format.Count(n, "change"), format.List(metrics),
		result.Throughput, result.LatencyMean)
}

// seen says which changes the tests could have found, or returns "" if there are none.
func seen(r *compare.Report) string {
	s := r.Seen
	if s.Tests == 0 {
		return ""
	}
	what := "for the worse that could have been found"
	if r.Thresholds.Tests > 0 {
		what = "that could have failed a threshold"
	}
	of := s.Cell + " " + s.Metric
	if s.None == s.Tests {
		return fmt.Sprintf("no change %s: %s", what, s.Why)
	}
	size := func(change float64) string { return strings.TrimPrefix(format.Percent(&change), "+") }
	text := fmt.Sprintf("smallest change %s: %s in half of %s, at most %s", what,
		size(s.Median), format.Count(s.Tests-s.None, "test"), size(s.Largest))
	if s.None > 0 {
		text = fmt.Sprintf("%s; none in %d more, the first of %s: %s", text, s.None, of, s.Why)
	} else {
		text += " (" + of + ")"
	}
	if median, ok := r.SeenWithMore(); ok && r.Thresholds.Tests == 0 {
		text += fmt.Sprintf("; with --repeats %d about %s in half", r.MoreRepeats(), size(median))
	}
	return text
}

// margins returns the minimum effects, and the margin of SAME if that is less.
func margins(b *compare.Basis) string {
	text := format.Share(b.Floor)
	if b.MinFloor > 0 {
		text = format.Share(b.MinFloor) + " to " + text
	}
	if b.Same > 0 && b.Same < b.Floor {
		text += ", SAME within " + format.Share(b.Same)
	}
	return text
}

// Changes returns a row for each change with everything that is known of it, for programs.
func Changes(r *compare.Report) *doc.Table {
	t := doc.NewTable("cell", "transport", "metric", "unit", "old", "old_repeats", "new",
		"new_repeats", "change", "change_low", "change_high", "p",
		"p_holm", "verdict", "too_little", "one_launch", "by_state", "note", "change_of_medians",
		"detectable", "raw", "machine", "spread", "uncontrolled")
	for _, c := range r.Rows() {
		oldMedian, oldN := exact(c.Old)
		newMedian, newN := exact(c.New)
		raw, machine, spread := doc.None(), doc.None(), doc.None()
		if k := c.Control; k != nil {
			raw, machine, spread = doc.Exact(&k.Raw), doc.Exact(&k.Machine), doc.Exact(&k.Spread)
		}
		t.Row(c.Cell, c.Transport, c.Metric, c.Unit, oldMedian, oldN, newMedian, newN,
			doc.Exact(c.Change), doc.Exact(c.Low), doc.Exact(c.High),
			doc.Exact(c.P), doc.Exact(c.PHolm), c.Verdict, c.TooLittle, c.OneStart,
			byState(c.States), c.Note, doc.Exact(c.OfMedians), doc.Exact(c.Detectable),
			raw, machine, spread, c.Uncontrolled)
	}
	return t
}

// exact returns the cells of a median and of the number of its repeats.
func exact(m *result.Metric) (value, n doc.Cell) {
	if m == nil {
		return doc.None(), doc.None()
	}
	return doc.Exact(&m.Median), doc.CellOf(m.N)
}

// Ranking returns which value of an axis wins in which cells, by how much, and which values cannot
// be told apart.
func Ranking(r *compare.Ranking) *doc.Doc {
	out := new(doc.Doc)
	wins := doc.NewTable("metric", r.Axis, ">wins", ">of")
	for _, leader := range r.Leaders {
		if leader.Wins > 0 {
			wins.Row(leader.Metric, leader.Value, leader.Wins, leader.Groups)
		}
	}
	t := doc.NewTable("cell", "metric", "winner", "best", ">by", ">interval", ">p (Holm)").Wrap(16,
		"cell").Drop("p (Holm)", "best", "by", "winner")
	undecided, tooLittle, statesApart := 0, 0, 0
	for _, group := range r.Groups {
		winner := group.Leader
		if winner == "" {
			winner = "undecided"
			undecided++
		}
		if group.TooLittle {
			tooLittle++
		}
		if group.StatesApart {
			statesApart++
		}
		first, second := group.List[0], group.List[1]
		best := strings.TrimSpace(first.Value + " " + format.Value(first.Metric) + " " +
			first.State)
		t.Row(group.Cell, group.Metric, winner, best, times(second.Behind, group.Better),
			timesBetween(second.Low, second.High, group.Better),
			format.Probability(second.PHolm))
	}
	out.Line("%s, %d undecided (alpha %g over %s of all pairs against leads of %s; intervals at "+
		"the adjusted level)", format.Count(len(r.Groups), "comparison"), undecided, r.Alpha,
		format.Count(r.Tests, "test"), margins(&r.Basis))
	for _, few := range []struct {
		n    int
		what string
	}{{tooLittle, compare.FewRepeats}, {statesApart, compare.FewWindows}} {
		if few.n > 0 {
			out.Line("%s with %s to be decided", format.Count(few.n, "comparison"), few.what)
		}
	}
	out.Gap()
	out.Add(t)
	out.Line("by: how many times better the best is than the second, for times as for rates")
	out.Gap()
	if len(wins.Rows) > 0 {
		out.Add(wins)
		out.Gap()
	}
	for _, group := range r.Groups {
		out.Note("%s %s: %s", group.Cell, group.Metric, lettersOf(group))
	}
	out.Line("groups: values without a letter in common differ significantly; ? has too few " +
		"repeats, or windows in the same states of the machine; 2x: the best is twice as good")
	out.Gap()
	for _, d := range r.Across {
		out.Remark("compared across different " + d.String())
	}
	out.Append(tables.FewWarnings(r.Warnings))
	notes := new(doc.Doc)
	notes.Remarks(rankingNotes(r))
	if slices.ContainsFunc(r.Groups, func(g compare.Candidates) bool {
		return slices.ContainsFunc(g.List, func(c compare.Candidate) bool { return c.State != "" })
	}) {
		notes.Remark("best: the median of the windows in the state that is named; by, its " +
			"interval and the ratios of the groups take in the windows of all states")
	}
	notes.Remark("by: the shift from the second to the best, which the test is about; the ratios " +
		"of the groups are of medians; a winner differs significantly from all others")
	out.Fold("notes", notes)
	return out
}

// times returns how many times better the best value is than another one, as a cell.
func times(lead *float64, better result.Better) doc.Cell {
	if lead == nil {
		return doc.None()
	}
	return doc.Cell{Type: doc.Share, Text: tables.Times(*lead, better), Value: *lead}
}

// timesBetween returns the interval of such a ratio from that of the change.
func timesBetween(low, high *float64, better result.Better) string {
	if low == nil || high == nil {
		return "-"
	}
	if better == result.Lower {
		low, high = high, low
	}
	return tables.Times(*low, better) + " to " + tables.Times(*high, better)
}

// lettersOf lists the values of a group of cells with their letters, the best first, and how many
// times better the best is: "shm a, erpc ab 1.12x".
func lettersOf(group compare.Candidates) string {
	var parts []string
	for _, candidate := range group.List {
		part := candidate.Value + " " + cmp.Or(candidate.Group, "?")
		if candidate.Lead != nil {
			part += " " + tables.Times(*candidate.Lead, group.Better)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// rankingNotes returns what a reader of a ranking should know, each note once.
func rankingNotes(r *compare.Ranking) (lines []string) {
	lines = notesOf(r.Notes, r.Floor, r.FloorFrom)
	for _, group := range r.Groups {
		line := "note: " + group.Cell + ": " + group.List[1].Note
		if group.List[1].Note != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for i, c := range r.LeftOut {
		if i == singlesShown {
			return append(lines, fmt.Sprintf("not compared: %d more", len(r.LeftOut)-i))
		}
		lines = append(lines, "not compared: "+c.Cell+": "+c.Reason)
	}
	return lines
}

// Candidates returns a row for each value and group of cells with everything that is known of it,
// for programs.
func Candidates(r *compare.Ranking) *doc.Table {
	t := doc.NewTable("cell", "metric", "unit", "place", r.Axis, "median", "repeats", "lead",
		"behind", "behind_low", "behind_high", "p_holm", "winner", "group")
	for _, group := range r.Groups {
		for i, c := range group.List {
			value, n := exact(&c.Metric)
			t.Row(group.Cell, group.Metric, group.Unit, i+1, c.Value, value, n, doc.Exact(c.Lead),
				doc.Exact(c.Behind), doc.Exact(c.Low), doc.Exact(c.High),
				doc.Exact(c.PHolm), group.Leader, c.Group)
		}
	}
	return t
}

// Standing returns the state of a running comparison in one line.
func Standing(repeats int, r *compare.Report) string {
	var parts []string
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Metric == result.Throughput && !c.Scheduled ||
			c.Metric == result.ResponseP50 || len(r.Changes) == 1 {
			parts = append(parts, fmt.Sprintf("%s %s (%s) %s", c.Metric, format.Percent(c.Change),
				format.Percents(c.Low, c.High), c.Verdict))
		}
	}
	return fmt.Sprintf("after %s: %s", format.Count(repeats, "repeat"), strings.Join(parts, ", "))
}
