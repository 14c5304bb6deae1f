package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// scaling draws a metric over what varies, with a line for each configuration that has several
// values of it.
type scaling struct {
	Title  string          `json:"title"`
	X      string          `json:"x"` // title of the axis
	Log    bool            `json:"log,omitempty"`
	Metric string          `json:"metric"`
	Ticks  []cellpage.Tick `json:"ticks"`
	Lines  []*scalingLine  `json:"lines"`
	Table  *cellpage.Table `json:"table"`
}

// scalingLine is a configuration. Its points have the metric of their cells.
type scalingLine struct {
	Series int            `json:"series"`
	Set    int            `json:"set"`
	Rest   string         `json:"rest"` // its other options
	Points []scalingPoint `json:"points"`
}

type scalingPoint struct {
	Cell int     `json:"cell"`
	X    float64 `json:"x"`
	// Floor is what the bare medium does under the same load.
	Floor *float64 `json:"floor,omitempty"`
}

// over is what a scaling is drawn over.
type over struct {
	name, metric, title string
	unit                string // of impairments of the network
}

// overs lists the scalings.
var overs = []over{
	{"value_size", result.Goodput, "Payload size against goodput", ""},
	{"in_flight", result.Throughput, "Calls in flight against throughput", ""},
	{"clients", result.Throughput, "Clients against throughput", ""},
	{"ranks", result.Throughput, "Ranks against throughput", ""},
	{"threads", result.Throughput, "Threads against throughput", ""},
	{connections, result.SetupConnectAll,
		"Connections of a rank against the time to make them", ""},
	{"loss", result.Goodput, "Loss against goodput", "%"},
	{"loss", result.LatencyP99, "Loss against p99", "%"},
	{"delay", result.Goodput, "Delay against goodput", "ms"},
	{"delay", result.LatencyP99, "Delay against p99", "ms"},
}

// connections is what the time to make connections is drawn over; it is no option.
const connections = "connections"

// network is the option with the impairments.
const network = "network"

// plain reports whether open loops count too, and no floor is drawn.
func (o *over) plain() bool { return o.name == connections || o.unit != "" }

// option returns the option that the scaling is over.
func (o *over) option() string {
	switch {
	case o.unit != "":
		return network
	case o.name == connections:
		return ""
	}
	return o.name
}

// free reports whether an option follows from x, so that it does not tell lines apart.
func (o *over) free(option string) bool {
	return o.name == connections && slices.Contains([]string{"clients", "daemons", "ranks"}, option)
}

// scalings draws what the metrics of closed loops depend on.
func (b *builder) scalings() {
	b.doc.Scalings = []scaling{}
	for i := range overs {
		o := &overs[i]
		if !b.varies(o) {
			continue
		}
		s := scaling{Title: o.title, X: o.name, Log: o.unit == "", Metric: o.metric}
		s.Lines = b.scalingLines(o)
		if len(s.Lines) == 0 {
			continue
		}
		if o.unit != "" {
			s.X += " (" + o.unit + ")"
		}
		for _, l := range s.Lines {
			for _, p := range l.Points {
				if at := (cellpage.Tick{X: p.X, Text: o.text(p.X)}); !slices.Contains(s.Ticks, at) {
					s.Ticks = append(s.Ticks, at)
				}
			}
		}
		slices.SortFunc(s.Ticks, func(x, y cellpage.Tick) int { return cmp.Compare(x.X, y.X) })
		s.Table = b.scalingTable(o, s.Lines)
		b.doc.Scalings = append(b.doc.Scalings, s)
	}
}

// varies reports whether cells may differ in what o is over. All values of an option have to be
// numbers above 0.
func (b *builder) varies(o *over) bool {
	switch {
	case o.name == connections:
		return true
	case o.unit == "":
		for cell, c := range b.cells {
			if _, has := c.Option(o.name); has {
				if _, _, ok := b.x(o, cell); !ok {
					return false
				}
			}
		}
	}
	return slices.Contains(b.varying, o.option())
}

// text formats a place on the axis.
func (o *over) text(x float64) string {
	if o.name == "value_size" {
		return transport.FormatSize(int64(x))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// x returns the place of a cell on the axis, and what its option says besides.
func (b *builder) x(o *over, cell int) (x float64, besides string, ok bool) {
	if o.name == connections {
		x = float64(b.overviews[cell].Made)
		return x, "", x > 0
	}
	value, _ := b.cells[cell].Option(o.option())
	if o.unit == "" {
		x, err := strconv.ParseFloat(value, 64)
		return x, "", err == nil && x > 0
	}
	var others []string
	for part := range strings.SplitSeq(value, ",") {
		name, amount, found := strings.Cut(part, "=")
		switch {
		case !found:
		case name == o.name:
			x = impairment(amount)
		default:
			others = append(others, part)
		}
	}
	return x, strings.Join(others, ","), true
}

// impairment returns a loss in percent, or a delay in milliseconds.
func impairment(text string) float64 {
	digits := strings.TrimRight(text, "%µnums")
	x, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0
	}
	switch strings.TrimPrefix(text, digits) {
	case "ns":
		return x * 1e-6
	case "us", "µs":
		return x * 1e-3
	case "s":
		return x * 1e3
	}
	return x
}

// scalingLines returns the configurations with several values of what o is over.
func (b *builder) scalingLines(o *over) []*scalingLine {
	var lines []*scalingLine
	known := map[string]*scalingLine{}
	for cell, c := range b.cells {
		x, besides, ok := b.x(o, cell)
		m := b.summary(cell, o.metric)
		if !ok || m == nil || c.OpenLoop() && !o.plain() {
			continue
		}
		rest := []string{}
		for _, name := range b.varying {
			if value, has := b.named(c, name); has && name != o.option() && !o.free(name) {
				rest = append(rest, strings.TrimPrefix(name, ownPrefix)+"="+set.Value(name, value))
			} else if name == o.option() && besides != "" {
				rest = append(rest, besides)
			}
		}
		at, series := b.doc.Cells.Set[cell], b.doc.Cells.Series[cell]
		l := &scalingLine{Series: series, Set: at, Rest: strings.Join(rest, " ")}
		key := fmt.Sprint(at, series, l.Rest)
		if known[key] == nil {
			known[key] = l
			lines = append(lines, l)
		}
		p := scalingPoint{Cell: cell, X: x}
		ratio := cmp.Or(b.summary(cell, result.OpTimeRatio), b.summary(cell, result.FloorRatio))
		if ratio != nil && !o.plain() {
			p.Floor = new(rounded(m.Median * ratio.Median))
		}
		known[key].Points = append(known[key].Points, p)
	}
	for _, l := range lines {
		slices.SortStableFunc(l.Points, func(p, q scalingPoint) int {
			return cmp.Compare(p.X, q.X)
		})
	}
	return slices.DeleteFunc(lines, func(l *scalingLine) bool {
		return l.Points[0].X == l.Points[len(l.Points)-1].X
	})
}

func (b *builder) scalingTable(o *over, lines []*scalingLine) *cellpage.Table {
	names := []string{"cell", ">" + o.name, ">" + o.metric, ">95% interval"}
	if !o.plain() {
		names = append(names, ">floor")
	}
	t, cells := doc.NewTable(names...), []int{}
	for _, l := range lines {
		for _, p := range l.Points {
			m := b.summary(p.Cell, o.metric)
			x := doc.Cell{Type: doc.Quantity, Text: o.text(p.X), Value: p.X}
			row := []any{b.link(p.Cell), x, doc.Median(*m), format.Interval(*m)}
			if !o.plain() {
				ratio, _ := b.floorOf(p.Cell)
				limit := doc.MedianOf(ratio)
				if ratio != nil {
					limit.Text += " x"
				}
				row = append(row, limit)
			}
			t.Row(row...)
			cells = append(cells, p.Cell)
		}
	}
	return cellpage.NewTable(o.title, t, cells...)
}
