package experiment

import (
	"context"
	"time"

	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/set"
)

// topUpShare is the part of the planned time of a sweep that it may take for windows beyond its
// repeats. The standard sweep needs about 0.09 on a machine that is near in 61% of its windows.
const topUpShare = 0.15

// TopUps returns the most time that the sweep takes beyond what is expected, for windows beyond its
// repeats. Sweeps without rounds, or of too few repeats, take none.
func (p *Plan) TopUps(b runner.Beside) time.Duration {
	if p.Order != Interleaved || p.Repeats < fewestForInterval {
		return 0
	}
	return time.Duration(topUpShare * float64(p.Expected(b)))
}

// topUp measures cells again that have too few windows for an interval among those that are shown:
// in one state of the machine, and undisturbed. That decides alone, never a value, so it biases no
// metric.
func (s *sweep) topUp(ctx context.Context) error {
	budget := s.Plan.TopUps(s.beside)
	if budget == 0 {
		return nil
	}
	end := time.Now().Add(budget)
	for {
		short := s.short()
		for _, i := range short {
			s.pace.ToCome += s.Plan.Cells[i].Expected(s.beside)
		}
		for _, i := range short {
			if s.overLimit() || time.Now().Add(s.Plan.Cells[i].Expected(s.beside)).After(end) {
				return nil
			}
			s.current++
			before := len(s.store.cells[i].cell.Windows)
			if err := s.run(ctx, run{i, before}); err != nil {
				return err
			}
			if len(s.store.cells[i].cell.Windows) == before {
				return nil // the run failed, and the cell is complete without it
			}
		}
		if len(short) == 0 {
			return nil
		}
	}
}

// short returns the cells that are complete and shown with too few of their windows.
func (s *sweep) short() (cells []int) {
	soFar := &set.Set{}
	var at []int
	for i := range s.store.cells {
		if p := &s.store.cells[i]; p.complete && !s.Plan.Cells[i].isReference {
			soFar.Cells, at = append(soFar.Cells, p.cell), append(at, i)
		}
	}
	shown := state.ShownOf(soFar)
	for i := range soFar.Cells {
		c := &soFar.Cells[i]
		if n := len(shown.Cell(c).Windows); n < len(c.Windows) && n < fewestForInterval {
			cells = append(cells, at[i])
		}
	}
	return cells
}
