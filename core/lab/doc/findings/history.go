package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/control"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/judge/history/changepoint"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// History returns a table of the sets, one of the series that changed, or with all of every series,
// and one of the changes, each with the sets between which it came.
func History(h *history.History, list []history.Series, all bool) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("set", "began (UTC)", "version", "revision", "accepted")
	for _, s := range h.Sets {
		t.Row(s.Label, s.StartedAt.UTC().Format("2006-01-02 15:04"), cmp.Or(s.Version, "-"),
			ShortRevision(s.Revision), accepted(s))
	}
	out.Add(t)
	if len(list) == 0 {
		out.Gap()
		out.Line("%s", noSeries(h))
		return out
	}
	shown := list
	if !all {
		shown = slices.DeleteFunc(slices.Clone(list),
			func(s history.Series) bool { return len(s.Changes) == 0 })
	}
	if len(shown) > 0 {
		out.Gap()
		historyTable(out, shown)
	}
	found := fmt.Sprintf("%d of %d series changed", changedSeries(list), len(list))
	if hidden := len(list) - len(shown); hidden > 0 {
		found += "; --all shows the others"
	}
	out.Gap()
	out.Line(found)
	if short := tooShort(list); short > 0 {
		out.Line(
			"%d series are in fewer than %d sets, too few to find a change; diff compares two sets",
			short, changepoint.MinLength)
	}
	out.Line("%s", movementNote(list))
	changes(out, h, list)
	pathChanges(out, h, list)
	return out
}

// noSeries says why there is no series, and how many sets a change needs.
func noSeries(h *history.History) string {
	found := format.Count(len(h.Sets), "set")
	if len(h.Sets) > 1 {
		found += " without a cell in common, because an option or the machine differs"
	}
	return fmt.Sprintf("%s: series have at least 2 sets, and changes are found in %d or more; "+
		"diff compares two sets", found, changepoint.MinLength)
}

// movementNote says which series are without the movement of the machine.
func movementNote(list []history.Series) string {
	raw, controlled := 0, 0
	for _, s := range list {
		switch {
		case s.Controlled:
			controlled++
		case s.Transport != history.Shared:
			raw++
		}
	}
	why := fmt.Sprintf("fewer than %d other transports under the same load", control.Fewest)
	switch {
	case controlled == 0:
		return "all values are raw, with the movement of the machine: " + why
	case raw == 0:
		return "values are without the movement of the machine, as in the newest set"
	}
	return fmt.Sprintf("values are without the movement of the machine, as in the newest set; "+
		"%d series are raw: %s", raw, why)
}

// machineBetween returns how far the machine moved where a change came, "raw" if that is in the
// change, and nothing if it is the change.
func machineBetween(s *history.Series, c history.Change) string {
	if s.Transport == history.Shared {
		return ""
	}
	if !s.Controlled {
		return "raw"
	}
	at := func(set int) float64 {
		i := slices.IndexFunc(s.Points, func(p history.Point) bool { return p.Set == set })
		return 1 + *s.Points[i].Machine
	}
	return change(at(c.Set)/at(c.Before) - 1)
}

func accepted(s history.Set) string {
	if len(s.Blessed) == 0 {
		return ""
	}
	b := s.Blessed[len(s.Blessed)-1]
	return b.Who + ": " + b.Why
}

// ShortRevision returns the first digits of a revision, as git log --oneline does, or a dash.
func ShortRevision(revision string) string {
	const length = 10
	return cmp.Or(revision[:min(length, len(revision))], "-")
}

func changedSeries(list []history.Series) (n int) {
	for _, s := range list {
		n += min(1, len(s.Changes))
	}
	return n
}

func tooShort(list []history.Series) (n int) {
	for _, s := range list {
		if len(s.Points) < changepoint.MinLength {
			n++
		}
	}
	return n
}

// historyTable has a row for each series, with its values since the last change.
func historyTable(out *doc.Doc, list []history.Series) {
	machines := slices.ContainsFunc(list, func(s history.Series) bool { return s.Machine != "" })
	headers := []string{"load", "transport", "metric", ">sets", ">first", "series", ">newest",
		">changes", ">baseline", ">newest/baseline"}
	if machines {
		headers = append(headers, "machine")
	}
	t := doc.NewTable(headers...)
	for _, s := range list {
		value := func(v float64) string { return format.Number(v, s.Unit) }
		points := s.Judged()
		newest, baseline := points[len(points)-1].Value, s.Baseline()
		row := []any{
			s.Load, s.Transport, s.Metric, len(s.Points), value(points[0].Value),
			sparkline(points),
			value(newest), len(s.Changes), value(baseline), change(newest/baseline - 1),
		}
		if machines {
			row = append(row, s.Machine)
		}
		t.Row(row...)
	}
	out.Add(t)
}

func change(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100*share)
}

// changes writes each change, the newest first.
func changes(out *doc.Doc, h *history.History, list []history.Series) {
	type line struct {
		series *history.Series
		change history.Change
	}
	var lines []line
	for i := range list {
		for _, c := range list[i].Changes {
			lines = append(lines, line{&list[i], c})
		}
	}
	if len(lines) == 0 {
		return
	}
	slices.SortStableFunc(lines, func(a, b line) int { return b.change.Set - a.change.Set })
	out.Gap()
	t := doc.NewTable("set", "commits", "load", "transport", "metric", ">before", ">after",
		">change", ">machine", "verdict")
	for _, l := range lines {
		c := l.change
		t.Row(h.Sets[c.Set].Label, Commits(h, l.series, c), l.series.Load, l.series.Transport,
			l.series.Metric, doc.Number(c.Old, l.series.Unit), doc.Number(c.New, l.series.Unit),
			change(c.Share), machineBetween(l.series, c), HistoryVerdict(l.series, c))
	}
	out.Add(t)
}

// pathChanges writes where the bytes of a transport took another path, once for all of its cells,
// the newest first.
func pathChanges(out *doc.Doc, h *history.History, list []history.Series) {
	type line struct {
		set  int
		text string
	}
	var lines []line
	for i := range list {
		s := &list[i]
		for _, p := range s.Paths {
			text := fmt.Sprintf("%s: the bytes of %s took another path than in %s: %s, and now %s",
				h.Sets[p.Set].Label, s.Transport, h.Sets[p.Before].Label,
				strings.Join(p.Old, "; "), strings.Join(p.New, "; "))
			if l := (line{p.Set, text}); !slices.Contains(lines, l) {
				lines = append(lines, l)
			}
		}
	}
	if len(lines) > 0 {
		out.Gap()
	}
	slices.SortStableFunc(lines, func(a, b line) int { return b.set - a.set })
	for _, l := range lines {
		out.Paragraph(l.text)
	}
}

// Commits names the range of commits in which a change of a series came, as git log takes it. If
// the plugin was built from a revision of its own, they are the plugin's commits.
func Commits(h *history.History, s *history.Series, c history.Change) string {
	from, to := h.Sets[c.Before].RevisionOf(s.Transport), h.Sets[c.Set].RevisionOf(s.Transport)
	if from == "" || to == "" {
		return "-"
	}
	return ShortRevision(from) + ".." + ShortRevision(to)
}

// Accepted returns the changes for the worse that a blessing accepts, each in a line.
func Accepted(h *history.History, list []history.Series, b *history.Blessing) (lines []string) {
	for i := range list {
		s := &list[i]
		for _, c := range s.Changes {
			if c.Worse && c.Blessed != nil && *c.Blessed == *b {
				cell := strings.TrimSpace(s.Transport + " " + s.Load)
				lines = append(lines, fmt.Sprintf("%s: %s %s since %s", cell, s.Metric,
					change(c.Share), h.Sets[c.Set].Label))
			}
		}
	}
	return lines
}

// HistoryVerdict judges a change of a series, or returns who has accepted it, and why.
func HistoryVerdict(s *history.Series, c history.Change) doc.Cell {
	switch {
	case c.Blessed != nil:
		return doc.CellOf("accepted by " + c.Blessed.Who + ": " + c.Blessed.Why)
	case c.Worse:
		return verdictCell(compare.Worse)
	case s.Better == result.None:
		return doc.CellOf("changed")
	}
	return verdictCell(compare.Better)
}

// sparkline draws at most maxSparkline values between the least and the most of a series.
func sparkline(points []history.Point) string {
	const maxSparkline = 24
	if len(points) > maxSparkline {
		points = points[len(points)-maxSparkline:]
	}
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	return doc.Bars(values, slices.Min(values))
}
