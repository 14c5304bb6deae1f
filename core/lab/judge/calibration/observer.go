package calibration

import (
	"strconv"

	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/set"
)

// observer compares the throughput of each sampling with that of none at the same calls in flight.
func (d *Document) observer() []Observer {
	rows := []Observer{}
	e := d.experiment(ExperimentObserver)
	if e == nil {
		return rows
	}
	states := state.NewClassifier(e.Set)
	off := map[string]*set.Cell{} // by calls in flight
	for i, every := range e.Known {
		if c := &e.Set.Cells[i]; every == 0 {
			off[c.Config["in_flight"]] = c
		}
	}
	for i, every := range e.Known {
		c := &e.Set.Cells[i]
		reference := off[c.Config["in_flight"]]
		if every == 0 || reference == nil {
			continue
		}
		ratio, _, ok := throughputRatio(reference, c, states)
		if !ok {
			continue
		}
		inFlight, _ := strconv.Atoi(c.Config["in_flight"])
		rows = append(rows, Observer{
			SampleEvery: int(every), InFlight: inFlight,
			Change:  ratio.transform(func(ratio float64) float64 { return ratio - 1 }),
			Windows: len(c.Windows),
		})
	}
	return rows
}
