package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// trustRow shows one check: how far each cell is from its limit.
type trustRow struct {
	Check, Title, Help string
	Unit, Limit        string
	Judged, Failed     int
	Dots               []dot
}

type dot struct {
	Cell, Look int
	X, Y       float64 // percent, and pixels
	OK         bool
	Text       string
}

// measures lists the checks that are shown.
var measures = []struct{ check, title, help, unit string }{
	{"schedule_lag", "Schedule lag",
		"open loop: how late operations started, beside the response times", "ns"},
	{"mean", "Sampled mean", "mean of the sampled latencies compared with the exact mean", "share"},
	{"drift", "Drift in windows", "rate of the last third of a window compared with the first",
		"share"},
	{"mixed", "Mixed windows", "share of windows in which the machine changed its state", "share"},
	{"steal", "Steal", "share of time for which the hypervisor took the processors away", "share"},
	{"sampling_cost", "Cost of sampling", "share of the clients' time for taking latencies",
		"share"},
	{"preempted", "Lost processors",
		"share of time for which spinning threads were off their processors", "share"},
}

// dotsShown is the largest number of cells that are drawn: those with the largest values.
const dotsShown = 400

// trustRows draws the cells of each measure on a logarithmic axis of the value over its limit, from
// 1/100 to 100.
func (b *builder) trustRows() []trustRow {
	var rows []trustRow
	for _, m := range measures {
		row := trustRow{Check: m.check, Title: m.title, Help: m.help, Unit: m.unit}
		for cell := range b.cells {
			c, found := farthest(b.overviews[cell].Checks, m.check)
			if !found || c.NotJudged || c.Value == 0 && c.OK || c.Limit == 0 {
				continue
			}
			row.Judged++
			if !c.OK {
				row.Failed++
			}
			row.Limit = measureText(c.Limit, m.unit)
			row.Dots = append(row.Dots, dot{
				Cell: cell, Look: b.look(cell), OK: c.OK,
				X: limitScale(math.Abs(c.Value / c.Limit)),
				Y: 10 + 4*float64(cell%4), Text: b.doc.Cells.Label[cell] + ": " +
					measureText(c.Value, m.unit),
			})
		}
		if row.Judged == 0 {
			continue
		}
		if row.Judged > dotsShown {
			slices.SortStableFunc(row.Dots, func(x, y dot) int { return cmp.Compare(y.X, x.X) })
			row.Dots = row.Dots[:dotsShown]
		}
		rows = append(rows, row)
	}
	return rows
}

// farthest returns the check of that name with the largest value.
func farthest(checks []result.Finding, name string) (c result.Finding, found bool) {
	for _, one := range checks {
		if one.Name == name && (!found || math.Abs(one.Value) > math.Abs(c.Value)) {
			c, found = one, true
		}
	}
	return c, found
}

// limitAt is the position of the limit on the axis in percent.
const limitAt = 50

func limitScale(ratio float64) float64 {
	const decades = 2 // on each side
	return limitAt + limitAt*max(-1, min(1, math.Log10(max(ratio, 1e-9))/decades))
}

func measureText(value float64, unit string) string {
	switch unit {
	case "ns":
		return format.Time(value)
	case "share":
		return percent(value)
	}
	return format.Digits(value)
}

// severities are in ascending order; the first is that of cells without findings.
var severities = []result.Severity{"", result.Info, result.Warning, result.Error}

// findings groups the findings of checks and analyses by severity, then by the number of cells. A
// group names its cells by their numbers.
func (b *builder) findings() []set.GroupedWarning {
	groups := set.WarningGroups{Info: true}
	for i, c := range b.cells {
		list := c.Warnings
		if a := b.overviews[i].Analysis; a != nil {
			list = append(slices.Clone(list), a.Findings...)
		}
		for _, f := range list {
			groups.Add("", strconv.Itoa(i), f)
		}
	}
	list := groups.List()
	slices.SortStableFunc(list, func(x, y set.GroupedWarning) int {
		return cmp.Or(severityOf(y.Severity)-severityOf(x.Severity), len(y.Cells)-len(x.Cells))
	})
	return list
}

func severityOf(s result.Severity) int { return slices.Index(severities, s) }
