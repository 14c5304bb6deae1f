package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/base/printable"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// diffs compares each set with the one before it, the newest first, or notes why they cannot be
// compared. Of sets of several machines it compares what each machine measured.
func (b *builder) diffs() {
	b.doc.Diffs = []diff{}
	for i := len(b.sets) - 1; i > 0; i-- {
		d := diff{Old: i - 1, New: i, Sides: b.names[i-1] + " → " + b.names[i]}
		old, new := b.machinesOf(i-1), b.machinesOf(i)
		both := func(cpu string) bool { return slices.Contains(old, cpu) }
		if len(old) < 2 && len(new) < 2 || !slices.ContainsFunc(new, both) ||
			b.Compare.Allows("cpu") {
			all := func(string) bool { return true }
			b.compare(d, b.partOf(i-1, all), b.partOf(i, all))
			continue
		}
		alone := []string{}
		for _, cpu := range new {
			if !both(cpu) {
				alone = append(alone, b.alone(i, cpu))
				continue
			}
			of, has := d, func(c string) bool { return c == cpu || c == "" }
			of.Machine = cpu
			of.Sides += ", " + cpu
			b.compare(of, b.partOf(i-1, has), b.partOf(i, has))
		}
		for _, cpu := range old {
			if !slices.Contains(new, cpu) {
				alone = append(alone, b.alone(i-1, cpu))
			}
		}
		if len(alone) > 0 {
			d.Refused = strings.Join(alone, "; ")
			b.doc.Diffs = append(b.doc.Diffs, d)
		}
	}
}

// compare adds the comparison of two parts.
func (b *builder) compare(d diff, old, new part) {
	report, err := calibration.Diff(b.calibrationsOf(old.Set, new.Set), old.Set, new.Set,
		b.Compare)
	if err != nil {
		d.Refused, d.err = printable.Text(err.Error()), err
	} else {
		d.Report, d.Cells = report, new.numbersOf(report.Changes)
		if err := history.Accept(report); err != nil {
			report.Notes = append(report.Notes, printable.Text(err.Error()))
		}
		for row, c := range report.Rows() {
			d.Changes = append(d.Changes, diffChange{c.Metric, c.Verdict,
				row < len(report.Transports), d.cellsOf(row)})
		}
	}
	b.doc.Diffs = append(b.doc.Diffs, d)
}

// part is a set with some of the cells of one of the report's sets.
type part struct {
	*set.Set
	numbers []int // of its cells
}

// partOf returns the cells of a set that were measured on processors that has chooses. Their name
// is empty for cells that no machine measured.
func (b *builder) partOf(at int, has func(cpu string) bool) part {
	whole := b.sets[at]
	some := *whole
	p := part{Set: &some}
	some.Cells = nil
	for i := range whole.Cells {
		if c := &whole.Cells[i]; has(whole.Machine(c).Identity["cpu"]) {
			some.Cells = append(some.Cells, *c)
			p.numbers = append(p.numbers, b.first[at]+i)
		}
	}
	return p
}

// machinesOf returns the processors that a set was measured on, each once.
func (b *builder) machinesOf(at int) (cpus []string) {
	s := b.sets[at]
	for i := range s.Cells {
		cpu := s.Machine(&s.Cells[i]).Identity["cpu"]
		if cpu != "" && !slices.Contains(cpus, cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// alone says that one of two compared sets alone has cells of a machine.
func (b *builder) alone(at int, cpu string) string {
	cells := len(b.partOf(at, func(c string) bool { return c == cpu }).Cells)
	return printable.Text(fmt.Sprintf("%s of %s, on which %s alone was measured",
		format.Count(cells, "cell"), cpu, b.names[at]))
}

// numbersOf returns the numbers of the cells of changes, or -1.
func (p part) numbersOf(changes []compare.Change) []int {
	byConfig := map[string][]int{}
	for i := range p.Cells {
		key := set.Key(p.Cells[i].Config)
		byConfig[key] = append(byConfig[key], i)
	}
	numbers := make([]int, len(changes))
	for i, c := range changes {
		numbers[i] = -1
		for _, candidate := range byConfig[set.Key(c.Config)] {
			if maps.Equal(p.Cells[candidate].Config, c.Config) {
				numbers[i] = p.numbers[candidate]
				break
			}
		}
	}
	return numbers
}

// cellsOf returns the new cells of a row of the report.
func (d *diff) cellsOf(row int) (cells []int) {
	if at := row - len(d.Report.Transports); at >= 0 {
		return d.Cells[at : at+1]
	}
	of := &d.Report.Transports[row]
	for i := range d.Report.Changes {
		if c := &d.Report.Changes[i]; c.Transport == of.Transport && c.Metric == of.Metric {
			cells = append(cells, d.Cells[i])
		}
	}
	return cells
}

// changeList shows the changes of one metric between two sets: those of transports over all loads,
// and then those of cells, the largest first.
type changeList struct {
	Diff           int // the comparison
	Title, Refused string
	Number         int      // of the later set, in its first list
	Sides          []string // what both are, in the first list of a comparison
	Metric, Better string
	Zero           float64
	Ticks          []cellpage.Tick
	Rows           []changeRow
	More           int
	Summary        string
}

type changeRow struct {
	Cells           []int // several of a change over all loads
	Label           string
	X, Low, Width   float64 // percent
	BandX, BandW    float64 // the changes that do not count, in percent
	HasInterval     bool
	Change, Between string
	Verdict, Class  string
	Note            string
}

// changesShown is the number of changes of a metric that are drawn; the table has all.
const changesShown = 50

// changeLists returns one list per metric of each comparison.
func (b *builder) changeLists() []changeList {
	var lists []changeList
	numbered := len(b.doc.Sets)
	for at, d := range b.doc.Diffs {
		number := 0
		if d.New < numbered {
			number, numbered = d.New, d.New
		}
		if d.Report == nil {
			lists = append(lists, changeList{Diff: at, Number: number, Title: d.Sides,
				Refused: d.Refused})
			continue
		}
		old, new := b.doc.Sets[d.Old].Name, b.doc.Sets[d.New].Name
		var metrics []string
		for _, c := range d.Report.Changes {
			if !slices.Contains(metrics, c.Metric) {
				metrics = append(metrics, c.Metric)
			}
		}
		slices.SortFunc(metrics, func(x, y string) int {
			return slices.Index(b.Compare.Metrics, x) - slices.Index(b.Compare.Metrics, y)
		})
		for i, metric := range metrics {
			l := changesOf(&d, metric)
			l.Diff, l.Title = at, d.Sides
			if i == 0 {
				l.Number, l.Sides = number, []string{
					printable.Text(old + ": " + d.Report.OldSide.String()),
					printable.Text(new + ": " + d.Report.NewSide.String()),
				}
			}
			lists = append(lists, l)
		}
	}
	return lists
}

// changesOf draws the changes of one metric on a logarithmic axis, on which half and double have
// the same distance from no change.
func changesOf(d *diff, metric string) changeList {
	l := changeList{Metric: metric}
	var shown []int
	reach, changes := math.Log1p(0.1), d.Report.Rows()
	for i, c := range changes {
		if c.Metric != metric {
			continue
		}
		l.Better = string(c.Better)
		if len(shown) == changesShown {
			l.More++
			continue
		}
		shown = append(shown, i)
		if c.Change != nil {
			reach = max(reach, math.Abs(math.Log1p(*c.Change)))
		}
		if c.Low != nil && *c.Low > -1 {
			reach = max(reach, math.Abs(math.Log1p(*c.Low)), math.Abs(math.Log1p(*c.High)))
		}
	}
	reach = min(reach*1.05, math.Log(16))
	at := func(change float64) float64 {
		return 50 + 50*max(-1, min(1, math.Log1p(max(change, -0.9999))/reach))
	}
	l.Zero = at(0)
	for _, change := range []float64{0, 1, -0.5, 0.5, -0.25, 0.1, -0.1, 0.05, -0.05, 3, -0.75,
		9, -0.9} {
		if x := at(change); math.Abs(math.Log1p(change)) <= reach && farFrom(l.Ticks, x) {
			l.Ticks = append(l.Ticks, cellpage.Tick{X: x, Text: tickText(change)})
		}
	}
	slices.SortFunc(l.Ticks, func(a, b cellpage.Tick) int { return cmp.Compare(a.X, b.X) })
	for _, i := range shown {
		l.Rows = append(l.Rows, rowOf(changes[i], d.cellsOf(i), at))
	}
	return l
}

func tickText(change float64) string {
	if change == 0 {
		return "0%"
	}
	return fmt.Sprintf("%+.0f%%", 100*change)
}

func farFrom(ticks []cellpage.Tick, x float64) bool {
	return !slices.ContainsFunc(ticks, func(t cellpage.Tick) bool { return math.Abs(t.X-x) < 9 })
}

// Cell returns the number of the only cell, or -1.
func (r changeRow) Cell() int {
	if len(r.Cells) == 1 {
		return r.Cells[0]
	}
	return -1
}

func rowOf(c *compare.Change, cells []int, at func(float64) float64) changeRow {
	r := changeRow{
		Cells: cells, Label: c.Cell, Change: format.Percent(c.Change),
		Between: format.Percents(c.Low, c.High),
		Verdict: string(c.Verdict), Class: strings.ToLower(string(c.Verdict)), Note: c.Note, X: -1,
		BandX: at(-c.Floor),
	}
	r.BandW = at(c.Floor) - r.BandX
	if text := c.Readout(); text != "" {
		r.Note = strings.TrimSuffix(text+"; "+c.Note, "; ")
	}
	if c.Change != nil {
		r.X = at(*c.Change)
	}
	if c.Low != nil && c.High != nil {
		r.HasInterval, r.Low = true, at(*c.Low)
		r.Width = at(*c.High) - r.Low
	}
	return r
}
