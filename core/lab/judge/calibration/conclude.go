package calibration

import (
	"fmt"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// intervalAlpha is that of all intervals, which are at 95%. It is not the level of the comparisons.
const intervalAlpha = 0.05

// Conclude computes the conclusions of d from its experiments alone. An experiment that is missing
// or too short leaves rows out, or leaves them without an interval.
func Conclude(d *Document) error {
	for i := range d.Experiments {
		if err := d.Experiments[i].check(); err != nil {
			return fmt.Errorf("experiment %q: %w", d.Experiments[i].Name, err)
		}
	}
	d.Recovery = d.recovery()
	d.Observer = d.observer()
	var err error
	if d.Resolution, err = d.resolution(); err != nil {
		return fmt.Errorf("resolution: %w", err)
	}
	if d.FalseVerdicts, err = d.falseVerdicts(); err != nil {
		return fmt.Errorf("false verdicts: %w", err)
	}
	if d.Drift, err = d.drift(); err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if d.Power, err = d.power(); err != nil {
		return fmt.Errorf("power: %w", err)
	}
	return nil
}

// experiment returns the experiment of a name, or nil.
func (d *Document) experiment(name string) *Experiment {
	for i := range d.Experiments {
		if d.Experiments[i].Name == name {
			return &d.Experiments[i]
		}
	}
	return nil
}

// reference returns the cell in which nothing is changed, or nil.
func (e *Experiment) reference() *set.Cell {
	for i, known := range e.Known {
		if known == 0 {
			return &e.Set.Cells[i]
		}
	}
	return nil
}

// rounds returns how many rounds e has. It is checked.
func (e *Experiment) rounds() int {
	if len(e.Set.Cells) == 0 {
		return 0
	}
	return len(e.Set.Cells[0].Windows)
}

// cut returns a cell with its windows of n rounds from a round on. It has no warnings, which are
// those of the whole cell.
func cut(c *set.Cell, from, n int) set.Cell {
	part := *c
	part.Windows = c.Windows[from : from+n]
	part.Warnings, part.Incomplete, part.Pooled = nil, false, nil
	part.Samples = map[string][]float64{}
	for metric, values := range c.Samples {
		part.Samples[metric] = values[from : from+n]
	}
	return part
}

func (e *Experiment) setOf(cells ...set.Cell) *set.Set {
	s := set.New()
	s.Environments, s.Cells = e.Set.Environments, cells
	return s
}

func newEstimate(s compare.Shift) Estimate { return Estimate{s.Value, s.Low, s.High} }
