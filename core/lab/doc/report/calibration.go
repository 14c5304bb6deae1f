package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// calibrationView shows how far comparisons on one machine can be trusted.
type calibrationView struct {
	Machine string
	HTML    template.HTML // of the calibration; empty if there is none
	Unused  []string      // why other calibrations do not count
}

// calibrations has the last calibration of each machine.
func (b *builder) calibrations() []calibrationView {
	var list []calibrationView
	for _, f := range b.found {
		c := calibrationView{Machine: cmp.Or(machineOf(set.Environment{Identity: f.Identity}),
			"an unknown machine"), Unused: f.Unused}
		if f.Document != nil {
			text := doc.HTML(findings.Calibration(f.Document))
			c.HTML = template.HTML(text + falseVerdicts(f.Document) + power(f.Document))
		}
		list = append(list, c)
	}
	return list
}

// falseVerdicts draws how often a configuration differs from itself, by method.
func falseVerdicts(d *calibration.Document) string {
	var bars []cellpage.Bar
	for _, f := range d.FalseVerdicts {
		class := "s0"
		if low := f.Share.Low; low != nil && *low > d.Alpha {
			class = "over"
		}
		bars = append(bars, cellpage.Bar{
			Label: f.Method, Text: format.Share(f.Share.Value),
			Value: f.Share.Value, Low: f.Share.Low, High: f.Share.High, Class: class,
		})
	}
	return cellpage.Bars("", "False verdicts, with 95% intervals; the dashed line is alpha, "+
		format.Share(d.Alpha), d.Alpha, bars)
}

// power draws how often a change of each size is detected; the dashed line is always.
func power(d *calibration.Document) string {
	var bars []cellpage.Bar
	for at, p := range d.Measured() {
		on := "quiet"
		if p.Loaded {
			on = "loaded"
		}
		for _, t := range p.Trials {
			bars = append(bars, cellpage.Bar{
				Label: fmt.Sprintf("%s, %s slower, %d repeats, %s", p.Class,
					format.Share(t.Known), p.Repeats, on),
				Text:  fmt.Sprintf("%d of %d", t.Found, t.Count),
				Value: t.Share.Value, Low: t.Share.Low, High: t.Share.High,
				Class: fmt.Sprintf("s%d", at%8),
			})
		}
	}
	return cellpage.Bars("", "Power: trials in which a known change was detected, with 95% "+
		"intervals; the dashed line is all of them", 1, bars)
}

// minEffects says which minimum effects the comparisons have, and where they are from.
func (b *builder) minEffects() string {
	var texts []string
	for _, d := range b.doc.Diffs {
		if d.Report == nil || d.Report.FloorFrom == "" {
			continue
		}
		text := fmt.Sprintf("The minimum effect is %s, %s.", format.Share(d.Report.Floor),
			d.Report.FloorFrom)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " ")
}
