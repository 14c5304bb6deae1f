package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/store/result"
)

// CellsOf returns the changes of cells that a row is of: itself, or those of its transport.
func (r *Report) CellsOf(row *Change) (cells []*Change) {
	if row.Config != nil {
		return []*Change{row}
	}
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Transport == row.Transport && c.Metric == row.Metric {
			cells = append(cells, c)
		}
	}
	return cells
}

// overLoads returns a row for each transport and metric that have a control under several loads:
// the change that they have in common. The windows of each load are strata of one rank test, so few
// repeats of many loads are enough for a verdict. How transports follow the machine is much the
// same under all their loads, so the spread comes from the other transports' rows.
func overLoads(changes []Change, o Options) []Change {
	rows := map[[2]string]*Change{}
	raw := map[*Change][]float64{}
	for i := range changes {
		c := &changes[i]
		if c.Verdict != "" || c.Control == nil || c.Control.Reference || c.Better == result.None {
			continue
		}
		of := [2]string{c.Transport, c.Metric}
		row := rows[of]
		if row == nil {
			row = &Change{Transport: c.Transport, Metric: c.Metric, Unit: c.Unit, Better: c.Better,
				Control: &Control{Others: c.Control.Others, peer: c.Control.peer}}
			rows[of] = row
		}
		row.Floor = max(row.Floor, c.Floor)
		row.blocks = append(row.blocks, c.blocks...)
		row.Control.Others = min(row.Control.Others, c.Control.Others)
		raw[row] = append(raw[row], math.Log1p(c.Control.Raw))
	}
	var list []Change
	for _, row := range rows {
		loads := len(raw[row])
		if loads < 2 {
			continue
		}
		row.Cell = fmt.Sprintf("%s, all %d loads", row.Transport, loads)
		ratio, _, _ := ranktest.Shift(row.blocks, 1)
		row.Change = new(ratio - 1)
		sum := 0.0
		for _, log := range raw[row] {
			sum += log
		}
		row.Control.Raw = math.Expm1(sum / float64(loads))
		row.Control.Machine = (1+row.Control.Raw)/ratio - 1
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Transport, b.Transport),
			slices.Index(o.Metrics, a.Metric)-slices.Index(o.Metrics, b.Metric))
	})
	test(list, o)
	return list
}
