package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/store/format"
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
		c := calibrationView{Machine: cmp.Or(format.MachineOf(f.Identity),
			"an unknown machine"), Unused: f.Unused}
		if f.Document != nil {
			c.HTML = template.HTML(doc.HTML(findings.Calibration(f.Document)))
		}
		list = append(list, c)
	}
	return list
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
