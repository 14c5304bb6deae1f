package report

import (
	"math"
	"slices"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// trustRow is one check over all cells: how far each is from its limit.
type trustRow struct {
	Check, Title, Help string
	Unit, Limit        string
	Judged, Failed     int
	Dots               []dot
	Bins               []bin // in the place of dots, where there would be too many
}

type dot struct {
	Cell, Series int
	X, Y         float64 // percent, and pixels
	OK           bool
	Text         string
}

// bin is how many cells lie in a stretch of the axis.
type bin struct {
	X, W, Opacity float64
	Over          bool
	Text          string
}

// measures are the checks that have a size: what is looked at before a number
// is believed.
var measures = []struct{ check, title, help, unit string }{
	{"schedule_lag", "Schedule lag", "open loop: how late 1% of the operations started", "ns"},
	{"littles_law", "Little's law", "residual: throughput times mean latency against the calls in flight", "share"},
	{"drift", "Drift in windows", "rate of the last third of a window against the first", "share"},
	{"overlong", "Window length", "how much longer a window lasted than it should", "ratio"},
	{"sampling_cost", "Cost of sampling", "share of a client's time that taking latencies took", "share"},
	{"involuntary_switches", "Lost processors", "involuntary context switches of a polling thread in a second", "number"},
}

// dotsShown is up to how many cells each is a dot.
const dotsShown = 400

// trustRows places the cells of each measure on one axis: the logarithm of the
// value over its limit, from a hundredth to a hundred times.
func (b *builder) trustRows() []trustRow {
	var rows []trustRow
	for _, m := range measures {
		row := trustRow{Check: m.check, Title: m.title, Help: m.help, Unit: m.unit}
		for cell := range b.cells {
			c, found := farthest(b.briefs[cell].checks, m.check)
			if !found || c.Value == 0 && c.OK || c.Limit == 0 {
				continue
			}
			row.Judged++
			if !c.OK {
				row.Failed++
			}
			row.Limit = measureText(c.Limit, m.unit)
			row.Dots = append(row.Dots, dot{
				Cell: cell, Series: b.doc.Cells.Series[cell], OK: c.OK, X: limitScale(math.Abs(c.Value / c.Limit)),
				Y: 10 + 4*float64(cell%4), Text: b.doc.Cells.Label[cell] + ": " + measureText(c.Value, m.unit),
			})
		}
		if row.Judged == 0 {
			continue
		}
		if row.Judged > dotsShown {
			row.bin()
		}
		rows = append(rows, row)
	}
	return rows
}

// farthest is the check of that name that is farthest beyond its limit, of
// several results.
func farthest(checks []result.Check, name string) (c result.Check, found bool) {
	for _, one := range checks {
		if one.Name == name && (!found || math.Abs(one.Value) > math.Abs(c.Value)) {
			c, found = one, true
		}
	}
	return c, found
}

// limitAt is where on the axis the limit stands, in percent.
const limitAt = 50

func limitScale(ratio float64) float64 {
	const decades = 2 // to each side
	return limitAt + limitAt*max(-1, min(1, math.Log10(max(ratio, 1e-9))/decades))
}

// bin counts dots in stretches of the axis.
func (r *trustRow) bin() {
	const n = 40
	var counts [n]int
	for _, d := range r.Dots {
		counts[min(n-1, int(d.X/100*n))]++
	}
	most := slices.Max(counts[:])
	for i, count := range counts {
		if count > 0 {
			r.Bins = append(r.Bins, bin{
				X: 100 * float64(i) / n, W: 100.0 / n, Opacity: 0.2 + 0.8*float64(count)/float64(most),
				Over: i >= n/2, Text: format.Count(count, "cell"),
			})
		}
	}
	r.Dots = nil
}

func measureText(value float64, unit string) string {
	switch unit {
	case "ns":
		return format.Time(value)
	case "share":
		return percentOf(value)
	}
	return format.Digits(value)
}
