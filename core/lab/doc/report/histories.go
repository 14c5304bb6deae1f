package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"transportbench/core/base/printable"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/judge/history/changepoint"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// historyList shows one metric of each cell through the sets, in the order of their time.
type historyList struct {
	Metric, Better string
	Rows           []historyRow
	More           int
	Short          int // series in which too few sets are to find a change
}

type historyRow struct {
	Cell    int
	Label   string
	Points  string // of a line in a square of 100 by 100
	Summary string
	Newest  string
	Marks   []historyMark
}

// historyMark is a change of the level, or of the path that the bytes take.
type historyMark struct {
	X                   float64 // percent
	Anchor              string
	Version, Text, Verb string
	Class               string
}

// historyLeast is the number of sets from which on a report shows a history: the changes show two.
const historyLeast = 3

// histories follows the metrics of the comparison through the sets. Series that changed come first.
func (b *builder) histories() ([]historyList, error) {
	if len(b.sets) < historyLeast {
		return nil, nil
	}
	h, err := history.Of(b.sets...)
	if errors.Is(err, history.ErrNothingMeasured) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	numbers := b.numbersByID()
	lists := make([]historyList, len(b.Compare.Metrics))
	all := h.Series(history.Options{Metrics: b.Compare.Metrics, Floor: b.Compare.Floor})
	slices.SortStableFunc(all, func(x, y history.Series) int {
		return cmp.Or(history.Unaccepted([]history.Series{y})-history.Unaccepted(
			[]history.Series{x}), len(y.Changes)-len(x.Changes))
	})
	for i := range all {
		s := &all[i]
		l := &lists[slices.Index(b.Compare.Metrics, s.Metric)]
		l.Metric, l.Better = s.Metric, string(s.Better)
		if len(s.Points) < changepoint.Least {
			l.Short++
		}
		if len(l.Rows) == changesShown {
			l.More++
			continue
		}
		newest := h.Sets[s.Points[len(s.Points)-1].Set].Path
		if cell, known := numbers[place{newest, s.Cell}]; known {
			l.Rows = append(l.Rows, historyRowOf(h, s, cell))
		}
	}
	return slices.DeleteFunc(lists, func(l historyList) bool { return len(l.Rows) == 0 }), nil
}

// place is a cell of a set by the set's path and the cell's short name.
type place struct{ path, id string }

func (b *builder) numbersByID() map[place]int {
	numbers := map[place]int{}
	for i, s := range b.sets {
		for c := range s.Cells {
			at := place{printable.Text(s.Source), set.ID(s.Cells[c].Key())}
			if _, known := numbers[at]; !known {
				numbers[at] = b.first[i] + c
			}
		}
	}
	return numbers
}

// historyRowOf draws a series. Its values are between 0 and 100 from the least to the most, but a
// series that moves by less than a tenth does not fill the height.
func historyRowOf(h *history.History, s *history.Series, cell int) historyRow {
	points := s.Judged()
	least, most := points[0].Value, points[0].Value
	for _, p := range points {
		least, most = min(least, p.Value), max(most, p.Value)
	}
	middle := (least + most) / 2
	reach := max((most-least)/2, math.Abs(middle)/20)
	x := func(at int) float64 { return 100 * float64(at) / float64(max(1, len(h.Sets)-1)) }
	var line strings.Builder
	for _, p := range points {
		y := 50.0
		if reach > 0 {
			y = 50 - 45*(p.Value-middle)/reach
		}
		fmt.Fprintf(&line, "%.2f,%.2f ", x(p.Set), y)
	}
	newest := points[len(points)-1]
	r := historyRow{
		Cell: cell, Label: strings.TrimSpace(s.Transport + " " + s.Load),
		Points: strings.TrimSpace(line.String()),
		Newest: format.Number(newest.Value, s.Unit),
	}
	if s.Machine != "" {
		r.Label += ", " + s.Machine
	}
	r.Summary = fmt.Sprintf("%s in %s from %s to %s", s.Metric, format.Count(len(points), "set"),
		format.Number(points[0].Value, s.Unit), r.Newest)
	for _, c := range s.Changes {
		r.Marks = append(r.Marks, levelMark(h, s, c, x(c.Set)))
	}
	for _, p := range s.Paths {
		m := historyMarkAt(h.Sets[p.Before], h.Sets[p.Set], x(p.Set))
		m.Text += ": the bytes took another path: " + strings.Join(p.Old, "; ") + ", and now " +
			strings.Join(p.New, "; ")
		m.Verb, m.Class = "path", "path"
		r.Marks = append(r.Marks, m)
	}
	return r
}

// historyMarkAt is a mark of a change between two sets, at x percent of the width.
func historyMarkAt(from, to history.Set, x float64) historyMark {
	m := historyMark{X: x, Anchor: "middle", Version: nameOf(to), Text: nameOf(from) + " to " +
		nameOf(to)}
	switch {
	case x > 90:
		m.Anchor = "end"
	case x < 10:
		m.Anchor = "start"
	}
	return m
}

func levelMark(h *history.History, s *history.Series, c history.Change, x float64) historyMark {
	m := historyMarkAt(h.Sets[c.Before], h.Sets[c.Set], x)
	m.Text += fmt.Sprintf(": %s to %s, %+.1f%%", format.Number(c.Old, s.Unit),
		format.Number(c.New, s.Unit), 100*c.Share)
	if commits := findings.Commits(h, c); commits != "-" {
		m.Text += ", commits " + commits
	}
	m.Verb = printable.Text(findings.HistoryVerdict(s, c).Text)
	if m.Class = strings.ToLower(m.Verb); c.Blessed != nil {
		m.Class = "accepted"
	}
	return m
}

// nameOf names a set by its version, and by its path if it has none.
func nameOf(s history.Set) string {
	if s.Version == "" {
		return s.Label
	}
	return "v" + strings.TrimPrefix(s.Version, "v")
}
