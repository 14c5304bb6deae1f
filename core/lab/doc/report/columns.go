package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// columns fills in the data of all cells that do not need their results.
func (b *builder) columns() {
	d := b.doc
	b.axes()
	b.machines()
	c := &d.Cells
	c.Repeats = map[string][][]float64{}
	for _, s := range b.sets {
		shown := state.ShownOf(s)
		b.choices, b.views = append(b.choices, shown), append(b.views, shown.Set(s))
	}
	for i, s := range slices.Backward(b.sets) {
		shown := b.choices[i]
		for at := range s.Cells {
			cell := &s.Cells[at]
			c.Set = append(c.Set, i)
			c.States = append(c.States, statesOf(cell, shown.Classifier))
			c.RepeatStates = append(c.RepeatStates,
				stateNames(cell, result.Throughput, shown.Classifier))
			c.Windows = append(c.Windows, shown.Windows(cell))
			b.shown = append(b.shown, &b.views[i].Cells[at])
		}
	}
	b.metrics()
	for i, cell := range b.cells {
		for _, name := range drawn {
			c.Repeats[name] = append(c.Repeats[name], roundedAll(cell.Samples[name]))
		}
		c.Series = append(c.Series, b.seriesOf(cell))
		c.Label = append(c.Label, b.labels.Of(cell.Config))
		c.Names = append(c.Names, b.label(i))
		c.Load = append(c.Load, b.load(cell))
		c.Own = append(c.Own, b.own(cell))
		c.Status = append(c.Status, string(cell.Status))
		c.Reason = append(c.Reason, cell.Reason)
		failed := b.shown[i].Warnings
		c.Worst, c.Warnings = append(c.Worst, string(worst(failed))),
			append(c.Warnings, warnings(failed))
		c.Limit, c.Floors = append(c.Limit, b.limit(i)), append(c.Floors, b.floors(i))
		counted := ""
		if rate := b.summary(i, result.Throughput); rate != nil {
			counted = format.Count(rate.N, "repeat")
		}
		c.Counted = append(c.Counted, counted)
	}
	for i := range d.Series {
		s := &d.Series[i]
		s.Name, s.Look = s.String(), lookOf(s.Transport)
		s.Mark = s.Look
		for _, other := range d.Series[:i] {
			if other.Transport == s.Transport {
				s.Mark = (other.Mark + 3) % looks
			}
		}
	}
}

// own has a transport's own options of a cell that vary.
func (b *builder) own(c *set.Cell) string {
	var parts []string
	for _, name := range b.varying {
		own, isOwn := strings.CutPrefix(name, ownPrefix)
		if value, has := b.named(c, name); isOwn && has {
			parts = append(parts, own+"="+set.Value(name, value))
		}
	}
	return strings.Join(parts, " ")
}

// floorOf returns how far a cell is from the floor of the medium, by the ratio that its load
// allows, and what that is of, or nil.
func (b *builder) floorOf(cell int) (ratio *result.Metric, of string) {
	if time := b.summary(cell, result.FloorRatio); time != nil {
		return time, "p50 / round trip"
	}
	return b.summary(cell, result.OpTimeRatio), "time per op / floor"
}

func (b *builder) limit(cell int) string {
	if ratio, _ := b.floorOf(cell); ratio != nil {
		return format.Value(*ratio) + " x"
	}
	return ""
}

// floors has the ratios of a cell to the floor of the medium.
func (b *builder) floors(cell int) string {
	var parts []string
	for _, of := range [][2]string{{result.FloorRatio, "p50"}, {result.OpTimeRatio, "op"}} {
		if m := b.summary(cell, of[0]); m != nil {
			parts = append(parts, of[1]+" "+format.Value(*m)+" x the floor")
		}
	}
	return strings.Join(parts, ", ")
}

// statesOf has the throughput of a closed loop and its ratio to the floor in each state of the
// machine. An open loop has none: its rate is the load's.
func statesOf(c *set.Cell, states state.Classifier) string {
	if c.OpenLoop() {
		return ""
	}
	ratios := map[string]string{}
	for _, m := range states.Ratios(c) {
		ratios[m.State] = ", " + format.Digits(m.Metric.Median) + " x the floor"
	}
	var parts []string
	for _, m := range states.Medians(c, result.Throughput) {
		parts = append(parts, m.State+" "+format.Value(m.Metric)+ratios[m.State]+" ("+
			format.Count(m.Metric.N, "window")+")")
	}
	return strings.Join(parts, "; ")
}

// drawn are the metrics of charts, which draw their intervals, and each repeat behind its median.
var drawn = []string{
	result.Throughput, result.Goodput, result.LatencyP50, result.LatencyP99, result.LatencyP999,
	result.ResponseP50, result.ResponseP99, result.ResponseP999, result.SetupConnectAll,
}

// rounded returns a value with four digits, enough to draw it and to sort by it.
func rounded(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return short
}

func roundedAll(samples []float64) []float64 {
	var list []float64
	for _, v := range samples {
		list = append(list, rounded(v))
	}
	return list
}

func roundedOrNil(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return new(rounded(*v))
}

// worst returns the highest severity.
func worst(list []result.Finding) result.Severity {
	w := 0
	for _, one := range list {
		w = max(w, slices.Index(severities, tables.SeverityOf(one.Name, one.Severity)))
	}
	return severities[w]
}

// warnings counts the failed checks of severity warning.
func warnings(list []result.Finding) int {
	n := 0
	for _, one := range list {
		if tables.SeverityOf(one.Name, one.Severity) == result.Warning {
			n++
		}
	}
	return n
}

// look returns the colour of a cell.
func (b *builder) look(cell int) int { return b.doc.Series[b.doc.Cells.Series[cell]].Look }

// seriesOf returns the series of a cell, and adds a new one. A cell that never ran has no provider
// and belongs to any series of its transport.
func (b *builder) seriesOf(c *set.Cell) int {
	mine := series{Transport: c.Transport(), Provider: c.Plugin.Provider}
	for i, s := range b.doc.Series {
		if s == mine || mine.Provider == "" && s.Transport == mine.Transport &&
			c.Status != set.Published {
			return i
		}
		if s.Transport == mine.Transport && s.Provider == "" {
			b.doc.Series[i] = mine
			return i
		}
	}
	b.doc.Series = append(b.doc.Series, mine)
	return len(b.doc.Series) - 1
}

// axes lists the options that vary, and the values of each cell.
func (b *builder) axes() {
	for _, name := range b.varying {
		a := axis{Name: strings.TrimPrefix(name, ownPrefix),
			Own: strings.HasPrefix(name, ownPrefix)}
		for _, c := range b.cells {
			if v, has := b.named(c, name); has && !slices.Contains(a.Values, v) {
				a.Values = append(a.Values, v)
			}
		}
		slices.SortFunc(a.Values, set.CompareValues)
		for _, v := range a.Values {
			a.Shown = append(a.Shown, set.Value(name, v))
		}
		column := make([]int, len(b.cells))
		for i, c := range b.cells {
			column[i] = -1
			if v, has := b.named(c, name); has {
				column[i] = slices.Index(a.Values, v)
			}
		}
		b.doc.Axes = append(b.doc.Axes, a)
		b.doc.Cells.Axes = append(b.doc.Cells.Axes, column)
	}
}

// named returns a cell's value of an option that is one of its axes.
func (b *builder) named(c *set.Cell, option string) (value string, has bool) {
	value, has = c.Option(option)
	return value, has && slices.Contains(b.naming[c.Transport()], option)
}

// machines lists the environments of all sets.
func (b *builder) machines() {
	for _, s := range slices.Backward(b.sets) {
		base := len(b.doc.Environments)
		b.doc.Environments = append(b.doc.Environments, s.Environments...)
		for i := range s.Cells {
			at := -1
			if e := s.Cells[i].Environment; e >= 0 {
				at = base + e
			}
			b.doc.Cells.Environment = append(b.doc.Cells.Environment, at)
		}
	}
}

// machineTables describe the environments.
func (b *builder) machineTables() []*cellpage.Table {
	list := []*cellpage.Table{}
	for i, e := range b.doc.Environments {
		caption := "Machine"
		if len(b.doc.Environments) > 1 {
			caption = fmt.Sprintf("Machine %d", i+1)
		}
		t := doc.NewTable("property", "value", "role")
		for _, of := range []struct {
			role  string
			pairs map[string]string
		}{{"must be equal to compare", e.Identity}, {"may explain a difference", e.Volatile}} {
			for _, name := range slices.Sorted(maps.Keys(of.pairs)) {
				t.Row(name, cmp.Or(of.pairs[name], "-"), of.role)
			}
		}
		list = append(list, cellpage.NewTable(caption, t))
	}
	return list
}

// metrics summarizes the shown samples of all cells.
func (b *builder) metrics() {
	lists := make([][]set.Cell, len(b.sets))
	for i, s := range b.sets {
		lists[i] = s.Cells
	}
	for _, name := range set.Metrics(lists...) {
		m := metricColumn{result.Define(name), make([]*result.Metric, len(b.cells))}
		m.Name = name
		for i, c := range b.shown {
			if s, known := c.Metric(name); known && !c.Void(name) {
				s.Unit, s.Better = m.Unit, m.Better
				m.Values[i] = &s
			}
		}
		b.doc.Metrics = append(b.doc.Metrics, m)
	}
}

// column returns a metric of all cells, or nil.
func (b *builder) column(name string) *metricColumn {
	for i := range b.doc.Metrics {
		if b.doc.Metrics[i].Name == name {
			return &b.doc.Metrics[i]
		}
	}
	return nil
}

// summary returns a cell's summary of one metric, or nil.
func (b *builder) summary(cell int, name string) *result.Metric {
	if m := b.column(name); m != nil {
		return m.Values[cell]
	}
	return nil
}

// inHeat are the units of the metrics in the heat maps.
var inHeat = []string{"op/s", "B/s", "ns", "ratio", "token/s", "iteration/s"}

// show writes the metrics for the script: those of the charts and of the heat maps.
func (b *builder) show(maps []heatMap) {
	for i := range b.doc.Metrics {
		m := &b.doc.Metrics[i]
		isDrawn := slices.Contains(drawn, m.Name)
		isHeat := m.Better != result.None && slices.Contains(inHeat, m.Unit)
		if !isDrawn && !isHeat && m.Name != result.Floor {
			continue
		}
		shown := shownMetric{Name: m.Name, Unit: m.Unit, Help: m.Help}
		for _, v := range m.Values {
			text, between := "", ""
			var median, low, high *float64
			if v != nil {
				text, between = format.Value(*v), format.Interval(*v)
				median = new(rounded(v.Median))
				low, high = roundedOrNil(v.Low), roundedOrNil(v.High)
			}
			shown.Text, shown.Interval = append(shown.Text, text), append(shown.Interval, between)
			shown.Median = append(shown.Median, median)
			if isDrawn {
				shown.Low, shown.High = append(shown.Low, low), append(shown.High, high)
			}
		}
		if isHeat {
			shown.Share, shown.Level = sharesOf(maps, m)
		}
		b.doc.Shown = append(b.doc.Shown, shown)
	}
}

// curves adds the load curves of each set, or a note for a set without one.
func (b *builder) curves() {
	b.doc.Curves = []curve{}
	for i := range slices.Backward(b.sets) {
		capacity, err := analyze.CapacityOf(b.views[i],
			analyze.CapacityOptions{Objective: b.Objective})
		if err != nil {
			b.doc.Notes = append(b.doc.Notes, fmt.Sprintf("%s: %v", b.doc.Sets[i].Name, err))
			continue
		}
		b.doc.Notes = append(b.doc.Notes, capacity.Notes...)
		for _, c := range capacity.Curves {
			if len(c.Points) == 0 {
				continue
			}
			mine := curve{
				Set: i, Series: b.doc.Cells.Series[b.first[i]+c.Points[0].Cell],
				Label: b.labels.Of(c.Config), Open: c.Open, Metric: c.Metric,
				Load:   b.load(b.cells[b.first[i]+c.Points[0].Cell], "in_flight", "rate"),
				Points: []point{}, Knee: -1, Peak: -1,
			}
			transport := b.doc.Series[mine.Series].Transport
			mine.Rest = strings.TrimSpace(strings.TrimPrefix(mine.Label, transport))
			if len(b.sets) > 1 {
				mine.Rest = b.names[i] + " " + mine.Rest
			}
			for _, p := range c.Points {
				mine.Points = append(mine.Points, point{Cell: b.first[i] + p.Cell, Meets: p.Meets,
					AfterMiss: p.AfterMiss, Past: p.Past, Unusable: p.Unusable})
			}
			if c.Knee != nil {
				mine.Knee = mine.Points[*c.Knee].Cell
			}
			peak := c.Peak
			if n := len(c.Operating); b.Objective == nil && n > 0 {
				peak = &c.Operating[n-1].Point // the highest throughput
			}
			if peak != nil && b.summary(mine.Points[*peak].Cell, result.Throughput) != nil {
				mine.Peak = mine.Points[*peak].Cell
			}
			b.doc.Curves = append(b.doc.Curves, mine)
		}
	}
}

// shareOf returns how good a value is compared with the best one, from 0 to 1.
func shareOf(value, best float64, better result.Better) float64 {
	switch {
	case value <= 0 || best <= 0:
		return 0
	case better == result.Lower:
		return best / value
	}
	return value / best
}
