package report

import (
	"cmp"
	"slices"

	"transportbench/core/lab/result"
)

// findingGroup is one thing that was found out about some cells.
type findingGroup struct {
	Check    string          `json:"check"`
	Severity result.Severity `json:"severity"`
	Cells    []int           `json:"cells"`
	Example  string          `json:"example"` // of the first cell
}

// severities from the least to the worst; the first is that of no finding.
var severities = []result.Severity{"", result.Info, result.Warning, result.Error}

// findings groups what the checks and the analyses found, the worst first and
// then what concerns most cells.
func (b *builder) findings() {
	type kind struct {
		check    string
		severity result.Severity
	}
	at := map[kind]int{}
	list := []findingGroup{}
	add := func(cell int, check string, severity result.Severity, message string) {
		k := kind{check, severity}
		i, known := at[k]
		if !known {
			i = len(list)
			at[k] = i
			list = append(list, findingGroup{Check: check, Severity: severity, Example: message})
		}
		if g := &list[i]; len(g.Cells) == 0 || g.Cells[len(g.Cells)-1] != cell {
			g.Cells = append(g.Cells, cell)
		}
	}
	for i, c := range b.cells {
		for _, d := range c.Warnings {
			add(i, d.Check, d.Severity, d.Message)
		}
		if a := b.briefs[i].analysis; a != nil {
			for _, f := range a.Findings {
				add(i, f.Name, f.Severity, f.Message)
			}
		}
	}
	slices.SortStableFunc(list, func(x, y findingGroup) int {
		return cmp.Or(slices.Index(severities, y.Severity)-slices.Index(severities, x.Severity), len(y.Cells)-len(x.Cells))
	})
	b.doc.Findings = list
}
