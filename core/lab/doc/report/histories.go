package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"transportbench/core/base/grouped"
	"transportbench/core/base/printable"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/judge/history/changepoint"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// historyPart follows the metrics of the comparison through the sets, in the order of their time.
type historyPart struct {
	Cells []cellHistory
	More  int // cells that are not drawn
	Short int // series in which too few sets are to find a change
}

// cellHistory has the series of one cell.
type cellHistory struct {
	Cell    int // of the newest set that has it
	Label   string
	Commits []historyTick
	Rows    []historyRow
}

// historyTick is a set on the axis.
type historyTick struct {
	X                     float64 // percent
	Anchor, Version, Text string
}

type historyRow struct {
	Metric, Better string
	Points         string // of a line in a square of 100 by 100
	Sets           []historyPoint
	Summary        string
	Newest         string
	Marks          []historyMark
}

// historyPoint leads to the cell in one set.
type historyPoint struct {
	Cell int
	X, Y float64 // percent, and pixels from the top of the row
	Text string
}

// historyMark is a change of the level, or of the path that the bytes take.
type historyMark struct {
	historyTick
	Verb, Class string
	// Diff is the number of the set after the change, in the comparison with the one before, or 0.
	Diff int
}

// minHistory is the number of sets from which on a report shows a history: the changes show two.
const minHistory = 3

// historiesShown is the number of cells whose histories are drawn.
const historiesShown = 50

// histories follows the metrics of the comparison through the sets. Cells that changed come first.
func (b *builder) histories() (part historyPart, err error) {
	if len(b.sets) < minHistory {
		return part, nil
	}
	h, err := history.Of(b.sets...)
	if errors.Is(err, history.ErrNothingMeasured) {
		return part, nil
	}
	if err != nil {
		return part, err
	}
	series := h.Series(history.Options{Metrics: b.Compare.Metrics, Floor: b.Compare.Floor})
	all := make([]*history.Series, len(series))
	for i := range series {
		if all[i] = &series[i]; len(series[i].Points) < changepoint.MinLength {
			part.Short++
		}
	}
	cells := grouped.By(all, func(s *history.Series) place { return place{s.Machine, s.Cell} })
	weight := func(list []*history.Series) (unaccepted, changes int) {
		for _, s := range list {
			unaccepted += history.Unaccepted([]history.Series{*s})
			changes += len(s.Changes)
		}
		return unaccepted, changes
	}
	slices.SortStableFunc(cells, func(x, y []*history.Series) int {
		first, changes := weight(x)
		second, others := weight(y)
		return cmp.Or(second-first, others-changes)
	})
	numbers := b.numbersByID()
	for _, list := range cells {
		newest := 0
		for _, s := range list {
			newest = max(newest, s.Points[len(s.Points)-1].Set)
		}
		cell, known := numbers[place{h.Sets[newest].Path, list[0].Cell}]
		switch {
		case !known: // what all transports share is in no set
		case len(part.Cells) == historiesShown:
			part.More++
		default:
			part.Cells = append(part.Cells, b.historyOf(h, list, cell, numbers))
		}
	}
	return part, nil
}

// place is a cell's short name, in the set of a path or on a machine.
type place struct{ where, id string }

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

// historyOf draws the series of one cell. Its axis has the sets of all of them.
func (b *builder) historyOf(h *history.History, list []*history.Series, cell int,
	numbers map[place]int) cellHistory {
	first := list[0]
	c := cellHistory{Cell: cell, Label: strings.TrimSpace(first.Transport + " " + first.Load)}
	if first.Machine != "" {
		c.Label += ", " + first.Machine
	}
	const maxNames = 8 // names that fit below the line
	every := (len(h.Sets) + maxNames - 1) / maxNames
	for i := range h.Sets {
		if i%every == 0 {
			c.Commits = append(c.Commits, tickAt(h, i))
		}
	}
	for _, s := range list {
		c.Rows = append(c.Rows, b.historyRowOf(h, s, numbers))
	}
	return c
}

// tickAt is a set on the axis, between the oldest and the newest.
func tickAt(h *history.History, set int) historyTick {
	s := h.Sets[set]
	t := historyTick{X: 100 * float64(set) / float64(max(1, len(h.Sets)-1)), Anchor: "middle",
		Version: nameOf(s), Text: nameOf(s)}
	if s.Revision != "" {
		t.Text += ", commit " + findings.ShortRevision(s.Revision)
	}
	switch {
	case t.X > 90:
		t.Anchor = "end"
	case t.X < 10:
		t.Anchor = "start"
	}
	return t
}

// historyRowOf draws a series. Its values are between 0 and 100 from the least to the most, but a
// series that moves by less than a tenth does not fill the height.
func (b *builder) historyRowOf(h *history.History, s *history.Series,
	numbers map[place]int) historyRow {
	points := s.Judged()
	lowest, highest := points[0].Value, points[0].Value
	for _, p := range points {
		lowest, highest = min(lowest, p.Value), max(highest, p.Value)
	}
	middle := (lowest + highest) / 2
	reach := max((highest-lowest)/2, math.Abs(middle)/20)
	newest := points[len(points)-1]
	r := historyRow{Metric: s.Metric, Better: string(s.Better),
		Newest: format.Number(newest.Value, s.Unit)}
	var line strings.Builder
	for _, p := range points {
		y := 50.0
		if reach > 0 {
			y = 50 - 45*(p.Value-middle)/reach
		}
		tick := tickAt(h, p.Set)
		fmt.Fprintf(&line, "%.2f,%.2f ", tick.X, y)
		if cell, known := numbers[place{h.Sets[p.Set].Path, s.Cell}]; known {
			r.Sets = append(r.Sets, historyPoint{cell, tick.X, 12 + 0.28*y,
				tick.Text + ": " + format.Number(p.Value, s.Unit)})
		}
	}
	r.Points = strings.TrimSpace(line.String())
	r.Summary = fmt.Sprintf("%s in %s from %s to %s", s.Metric, format.Count(len(points), "set"),
		format.Number(points[0].Value, s.Unit), r.Newest)
	for _, c := range s.Changes {
		r.Marks = append(r.Marks, b.levelMark(h, s, c))
	}
	for _, p := range s.Paths {
		m := b.markAt(h, p.Before, p.Set)
		m.Text += ": the bytes took another path: " + strings.Join(p.Old, "; ") + ", and now " +
			strings.Join(p.New, "; ")
		m.Verb, m.Class = "path", "path"
		r.Marks = append(r.Marks, m)
	}
	return r
}

// markAt is a mark of a change between two sets.
func (b *builder) markAt(h *history.History, from, to int) historyMark {
	m := historyMark{historyTick: tickAt(h, to)}
	m.Text = nameOf(h.Sets[from]) + " to " + nameOf(h.Sets[to])
	m.Diff = max(0, slices.IndexFunc(b.sets, func(s *set.Set) bool {
		return printable.Text(s.Source) == h.Sets[to].Path
	}))
	return m
}

func (b *builder) levelMark(h *history.History, s *history.Series,
	c history.Change) historyMark {
	m := b.markAt(h, c.Before, c.Set)
	m.Text += fmt.Sprintf(": %s to %s, %+.1f%%", format.Number(c.Old, s.Unit),
		format.Number(c.New, s.Unit), 100*c.Share)
	if commits := findings.Commits(h, s, c); commits != "-" {
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
