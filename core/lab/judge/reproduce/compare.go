package reproduce

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Comparison is a document's tables with our figures beside the published ones.
type Comparison struct {
	Kind     string          `json:"kind"` // "reproduction"
	Document string          `json:"document"`
	Source   string          `json:"source"`
	Tables   []ComparedTable `json:"tables"`
	// Wrong has what is wrong with the document as a whole.
	Wrong  []string `json:"wrong,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Absent []string `json:"absent,omitempty"`
	// Objectives has for each objective of the document what ours and the published figures allow.
	Objectives []*analyze.Capacity `json:"objectives,omitempty"`
	// Ours has the measured cells.
	Ours *set.Set `json:"-"`
}

// ComparedTable is a table of the document.
type ComparedTable struct {
	Title   string   `json:"title"`
	Row     string   `json:"row"` // header of the names of the lines
	Columns []string `json:"columns"`
	// Along is the column that charts have the others over; "" if they show each line on its own.
	Along string `json:"along,omitempty"`
	Lines []Line `json:"lines"`
	// Wrong has what is wrong with the published figures, each with the names of its lines.
	Wrong []set.GroupedWarning `json:"wrong,omitempty"`
	Notes []string             `json:"notes,omitempty"`
}

// Line is a row of the document.
type Line struct {
	Name string `json:"name"`
	// Provider is that of our cell, and Windows says which of its windows the figures are of, as
	// tables do: "8 near".
	Provider string `json:"provider,omitempty"`
	Windows  string `json:"windows,omitempty"`
	state    string // of these windows
	// Ratio is set if the figures are ratios or differences of those of two other lines.
	Ratio bool `json:"ratio,omitempty"`
	// Cell is the index of our cell in the set; -1 without one.
	Cell   int  `json:"-"`
	Ours   Side `json:"ours"`
	Theirs Side `json:"published"`
	// Missing says why there are no figures of ours, or what hardware ours lack.
	Missing string `json:"missing,omitempty"`
	// Doubts say why figures of ours cannot be relied on, and Verdict what the interval of a ratio
	// shows.
	Doubts  []string `json:"doubts,omitempty"`
	Verdict string   `json:"verdict,omitempty"`
}

// Side has the figures of a line by column, nil where there is none, and their ratio to the floor.
type Side struct {
	Figures []*Figure `json:"figures"`
	// XFloor is at least about 1, and larger is worse; 0 if it is unknown.
	XFloor float64 `json:"x_floor,omitempty"`
}

// Figure is a value, or the ends of a range.
type Figure struct {
	Value float64 `json:"value"`
	To    float64 `json:"to,omitempty"`
	Unit  string  `json:"unit"`
	// Low and High are a 95% interval of Value, absent if there are too few repeats.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`

	samples []float64 // of ours, sorted; nil if the figure is not of a metric
}

// String formats the figure.
func (f *Figure) String() string {
	switch {
	case f == nil:
		return "-"
	case f.To > 0:
		return format.Number(f.Value, f.Unit) + " to " + format.Number(f.To, f.Unit)
	case f.Low != nil && f.High != nil:
		return format.Number(f.Value, f.Unit) + " (" + format.Interval(result.Metric{
			Unit: f.Unit, Median: f.Value, Low: f.Low, High: f.High, N: len(f.samples)}) + ")"
	}
	return format.Number(f.Value, f.Unit)
}

// scatters is how far the repeats of a figure may lie apart before a reader is warned.
const scatters = 2

// doubt returns why a figure cannot be relied on, or "".
func (f *Figure) doubt() string {
	switch {
	case len(f.samples) == 0:
		return ""
	case f.Low == nil:
		return "no interval, for which 6 repeats are needed"
	case f.samples[len(f.samples)-1] > scatters*f.samples[0]:
		return fmt.Sprintf("the repeats lie apart by more than a factor of %d", scatters)
	}
	return ""
}

// Any reports whether a side has a figure.
func (s *Side) Any() bool {
	return slices.ContainsFunc(s.Figures, func(f *Figure) bool { return f != nil })
}

// Remarks returns for each line the marks of what ours lacks and of what is wrong with the
// published figures, and the texts of all marks in order.
func (t *ComparedTable) Remarks() (ours, theirs []string, texts []string) {
	var missing []string // each once
	for i := range t.Lines {
		l := &t.Lines[i]
		var lacks, wrong []string
		for _, text := range append([]string{l.Missing, l.Verdict}, l.Doubts...) {
			if text == "" {
				continue
			}
			if !slices.Contains(missing, text) {
				missing = append(missing, text)
			}
			lacks = append(lacks, letter(slices.Index(missing, text)))
		}
		for n := range t.Wrong {
			if slices.Contains(t.Wrong[n].Cells, l.Name) {
				wrong = append(wrong, strconv.Itoa(n+1))
			}
		}
		if !l.Theirs.Any() {
			lacks, wrong = append(lacks, wrong...), nil
		}
		ours, theirs = append(ours, strings.Join(lacks, " ")),
			append(theirs, strings.Join(wrong, " "))
	}
	for i, text := range missing {
		texts = append(texts, letter(i)+": "+text)
	}
	for i := range t.Wrong {
		texts = append(texts, fmt.Sprintf("%d: %s", i+1, t.Wrong[i].Message))
	}
	return ours, theirs, append(texts, t.Notes...)
}

// letter returns the mark of the i-th reason for missing figures: a to z, aa to az, and so on.
func letter(i int) string {
	mark := string(rune('a' + i%26))
	if i < 26 {
		return mark
	}
	return letter(i/26-1) + mark
}

// In reports whether a set has the published figures of the document and others, as
// [Document.Compare] needs.
func (d *Document) In(s *set.Set) bool {
	published := func(c set.Cell) bool {
		return c.Status == set.Published &&
			c.Reason == d.Published.Source
	}
	return slices.ContainsFunc(s.Cells, published) &&
		slices.ContainsFunc(s.Cells, func(c set.Cell) bool { return c.Status != set.Published })
}

// Compare returns the tables of a document with the figures of a set, of the windows that tables
// show.
func (d *Document) Compare(s *set.Set) (*Comparison, error) {
	theirs, err := set.Parse(d.text, d.Source)
	if err != nil {
		return nil, err
	}
	own := *s
	own.Cells = slices.DeleteFunc(slices.Clone(s.Cells),
		func(c set.Cell) bool { return c.Status == set.Published })
	c := &Comparison{Kind: result.KindReproduction, Document: d.Name, Source: d.Published.Source,
		Notes: d.Notes, Absent: d.Absent, Ours: &own}
	shown := state.ShownOf(&own)
	for _, found := range consistency.Document(d.Published) {
		c.Wrong = append(c.Wrong, found.Message)
	}
	for i := range d.Tables {
		t := &d.Tables[i]
		compared := ComparedTable{Title: t.Title, Row: t.Row, Along: t.Along, Notes: t.Notes}
		for _, column := range t.Columns {
			compared.Columns = append(compared.Columns, column.Name)
		}
		lines, wrong := map[string]Line{}, set.WarningGroups{}
		for j := range t.Rows {
			line, err := d.line(s, shown, t, &t.Rows[j])
			if err != nil {
				return nil, err
			}
			if over, under := t.Rows[j].Over, t.Rows[j].Under; over != "" {
				line.Ratio = true
				relate := ratio
				if t.Rows[j].Less {
					relate = difference
				}
				line.Ours.relate(lines[over].Ours, lines[under].Ours, relate)
				line.Theirs.relate(lines[over].Theirs, lines[under].Theirs, relate)
				line.Verdict = line.verdict(compared.Columns, relate.same)
				line.doubtWith(lines[over], lines[under])
			}
			lines[line.Name] = line
			compared.Lines = append(compared.Lines, line)
			d.warn(&wrong, &t.Rows[j])
		}
		compared.Wrong = wrong.List()
		c.Tables = append(c.Tables, compared)
	}
	for _, text := range d.Objectives {
		o, err := analyze.ParseObjective(text)
		if err != nil {
			return nil, err
		}
		for _, figures := range []*set.Set{shown.Set(&own), theirs} {
			capacity, err := analyze.CapacityOf(figures,
				analyze.CapacityOptions{Objective: &o, Rate: d.Rate})
			if err == nil { // else there are too few cells
				c.Objectives = append(c.Objectives, capacity)
			}
		}
	}
	return c, nil
}

// relation is how the figures of a row follow from those of two others.
type relation struct {
	of   ranktest.Relation
	same float64 // of two equal figures
	unit string  // "" for that of the figures
}

var (
	ratio      = relation{ranktest.Ratio, 1, "ratio"}
	difference = relation{ranktest.Subtract, 0, ""}
)

// relate sets the figures to the relations of two lines. Their intervals are those of the shift,
// which may be another estimate than the relation of the medians, and contain both.
func (s *Side) relate(over, under Side, r relation) {
	for i := range s.Figures {
		a, b := over.Figures[i], under.Figures[i]
		if a != nil && b != nil && b.Value > 0 {
			f := &Figure{Value: r.of(cmp.Or(b.To, b.Value), a.Value), Unit: cmp.Or(r.unit, a.Unit)}
			s.Figures[i] = f
			if a.To > 0 || b.To > 0 {
				f.To = r.of(b.Value, cmp.Or(a.To, a.Value))
			}
			if a.Low != nil && b.Low != nil {
				_, low, high := ranktest.ShiftBy(ranktest.Blocks{{A: b.samples, B: a.samples}},
					0.05, r.of)
				f.Low, f.High = new(min(low, f.Value)), new(max(high, f.Value))
				f.samples = a.samples[:min(len(a.samples), len(b.samples))]
			}
		}
	}
}

func (f *Figure) multiply(by float64) {
	f.Value *= by
	if f.Low != nil {
		f.Low, f.High = new(*f.Low*by), new(*f.High*by)
	}
	for i := range f.samples {
		f.samples[i] *= by
	}
}

// doubtWith adds the doubts about the two lines that the figures of ours are of, and what those
// lack.
func (l *Line) doubtWith(over, under Line) {
	if !l.Ours.Any() {
		return
	}
	if over.Windows != "" && under.Windows != "" && over.state != under.state {
		l.Doubts = append(l.Doubts, fmt.Sprintf("the windows differ in the state of the machine: "+
			"%s and %s", over.Windows, under.Windows))
	}
	for _, of := range []Line{over, under} {
		for _, text := range append([]string{of.Missing}, of.Doubts...) {
			if text != "" && !slices.Contains(l.Doubts, text) {
				l.Doubts = append(l.Doubts, text)
			}
		}
	}
}

// verdict returns what the intervals of relations show, and whether the published ones are within
// them. same is the relation of two equal figures.
func (l *Line) verdict(columns []string, same float64) string {
	var verdicts []string
	for i, f := range l.Ours.Figures {
		if f == nil || f.Low == nil {
			continue
		}
		text := columns[i] + " cannot be told apart"
		if *f.Low > same {
			text = columns[i] + " is larger"
		} else if *f.High < same {
			text = columns[i] + " is smaller"
		}
		if p := l.Theirs.Figures[i]; p != nil {
			low, high := p.Value, cmp.Or(p.To, p.Value)
			place := "outside"
			if low >= *f.Low && high <= *f.High {
				place = "within"
			} else if low <= *f.High && high >= *f.Low {
				place = "overlapping"
			}
			text += " (published " + p.String() + ", " + place + " the interval)"
		}
		verdicts = append(verdicts, text)
	}
	if len(verdicts) == 0 {
		return ""
	}
	return "by the 95% interval: " + strings.Join(verdicts, ", ")
}

func (d *Document) line(s *set.Set, shown state.Shown, t *Table, r *Row) (Line, error) {
	line := Line{Name: r.Name, Cell: -1, Theirs: d.theirs(t, r)}
	line.Ours.Figures = make([]*Figure, len(t.Columns))
	switch {
	case r.Over != "":
		return line, nil
	case len(r.Ours) == 0:
		line.Missing = cmp.Or(needs(r), "nothing here measures it")
		return line, nil
	}
	if line.Cell = find(s, r.Ours); line.Cell < 0 {
		line.Missing = cmp.Or(needs(r), "not measured")
		return line, nil
	}
	c := &s.Cells[line.Cell]
	if c.Status != set.Measured {
		line.Missing = cmp.Or(needs(r), fmt.Sprintf("%s: %s", c.Status, c.Reason))
		return line, nil
	}
	line.Provider = c.Plugin.Provider
	if r.Provider != "" {
		line.Provider = providerOf(s, c)
	}
	if line.Provider != r.Provider && r.Provider != "" {
		line.Missing = needs(r)
	}
	if oversubscribed(c) {
		line.Doubts = append(line.Doubts, "more polling threads than processors")
	}
	line.Windows, line.state = shown.Windows(c), shown.State(c)
	figures := figures{set: s, shown: shown, cell: c, rank: r.Rank}
	for i, column := range t.Columns {
		for _, name := range column.Ours {
			f, err := figures.figure(name)
			if err != nil {
				return line, err
			}
			if line.Ours.Figures[i] = f; f != nil {
				if r.Times > 0 && f.Unit == "ns" {
					f.multiply(r.Times)
				}
				if doubt := f.doubt(); doubt != "" && !slices.Contains(line.Doubts, doubt) {
					line.Doubts = append(line.Doubts, doubt)
				}
				break
			}
		}
	}
	if !line.Ours.Any() {
		line.Missing = cmp.Or(line.Missing, needs(r))
	}
	if t.NoFloor {
		return line, nil
	}
	if len(r.OwnFloor) == 0 {
		line.Ours.XFloor = xFloor(shown.Cell(c))
	} else if i := find(s, r.OwnFloor); i >= 0 {
		line.Ours.XFloor = xOwnFloor(shown.Cell(c), shown.Cell(&s.Cells[i]))
	}
	return line, nil
}

// warn adds what is wrong with the published figures of a row. Only a row with a contradiction has
// errors, and its own words explain them.
func (d *Document) warn(wrong *set.WarningGroups, r *Row) {
	for _, name := range r.Theirs {
		row := d.row(name)
		if row.Contradiction != "" {
			wrong.Add("", r.Name, result.Finding{Name: "published", Severity: result.Error,
				Message: row.Contradiction})
		}
		for _, found := range consistency.Row(row) {
			if found.Severity != result.Error {
				wrong.Add("", r.Name, found)
			}
		}
	}
	if r.Note != "" {
		wrong.Add("", r.Name, result.Finding{Name: "note", Severity: result.Warning,
			Message: r.Note})
	}
}

// providerOf returns the provider of a cell. Readings of microbenchmarks do not say it, so theirs
// is that of a run of the transport.
func providerOf(s *set.Set, c *set.Cell) string {
	if c.Plugin.Provider != "" {
		return c.Plugin.Provider
	}
	i := slices.IndexFunc(s.Cells, func(other set.Cell) bool {
		return other.Transport() == c.Transport() && other.Plugin.Provider != ""
	})
	if i < 0 {
		return ""
	}
	return s.Cells[i].Plugin.Provider
}

// oversubscribed reports whether a cell had fewer processors than polling threads.
func oversubscribed(c *set.Cell) bool {
	return slices.ContainsFunc(c.Warnings,
		func(f result.Finding) bool { return f.Name == "oversubscribed" })
}

func needs(r *Row) string {
	if r.Needs == "" {
		return ""
	}
	return "needs " + r.Needs
}

// find returns the index of the cell that matches one of the patterns, a measured one if there are
// several, or -1.
func find(s *set.Set, patterns []string) int {
	found := -1
	for _, pattern := range patterns {
		for i := range s.Cells {
			c := &s.Cells[i]
			if c.Status == set.Published || !set.Match(pattern, c.Config) {
				continue
			}
			if c.Status == set.Measured {
				return i
			}
			found = i
		}
	}
	return found
}

// theirs returns the published figures of a row. Two published rows are the ends of a range.
func (d *Document) theirs(t *Table, r *Row) Side {
	side := Side{Figures: make([]*Figure, len(t.Columns))}
	for i, column := range t.Columns {
		names := column.Theirs
		if len(names) == 0 {
			names = column.Ours
		}
		for _, from := range r.Theirs {
			f, _ := metricOf(d.row(from), names)
			switch has := side.Figures[i]; {
			case f == nil:
			case has == nil:
				side.Figures[i] = &Figure{Value: f.Value, Unit: f.Unit}
			default:
				has.To = f.Value
			}
		}
		if r.Floor == "" || side.XFloor > 0 || len(r.Theirs) == 0 {
			continue
		}
		f, name := metricOf(d.row(r.Theirs[0]), names)
		if floor, _ := metricOf(d.row(r.Floor), []string{name}); f != nil && floor != nil {
			if side.XFloor = f.Value / floor.Value; strings.HasSuffix(f.Unit, "/s") {
				side.XFloor = floor.Value / f.Value
			}
		}
	}
	return side
}

// metricOf returns the first metric that a published row has.
func metricOf(row *published.Row, names []string) (*published.Figure, string) {
	for _, name := range names {
		if f, has := row.Metrics[name]; has {
			return &f, name
		}
	}
	return nil, ""
}

// xFloor returns the ratio of a cell to the floor that its load allows, or 0.
func xFloor(c *set.Cell) float64 {
	for _, name := range []string{result.FloorRatio, result.OpTimeRatio} {
		if ratio := c.Median(name); ratio > 0 {
			return ratio
		}
	}
	time := c.Median(result.LatencyP50)
	if rate := c.Median(result.Throughput); time == 0 && rate > 0 {
		time = 1e9 / rate
	}
	if floor := cmp.Or(c.Median(result.RateFloor), c.Median(result.Floor)); floor > 0 {
		return time / floor
	}
	return 0
}

// xOwnFloor returns how many times the time of another cell a cell takes, or 0.
func xOwnFloor(c, floor *set.Cell) float64 {
	mine, known := c.Metric(result.Goodput)
	other, also := floor.Metric(result.Goodput)
	if !known || !also {
		return 0
	}
	return other.Median / mine.Median
}
