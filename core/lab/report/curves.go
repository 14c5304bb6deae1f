package report

import (
	"fmt"

	"transportbench/core/lab/analyze"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// curves takes the loads of each set from its capacity. A set that has none
// leaves a note.
func (b *builder) curves() {
	b.doc.Curves = []curve{}
	for i, s := range b.sets {
		capacity, err := analyze.CapacityOf(s, analyze.CapacityOptions{Objective: b.Objective})
		if err != nil {
			b.doc.Notes = append(b.doc.Notes, fmt.Sprintf("%s: %v", b.doc.Sets[i].Name, err))
			continue
		}
		b.doc.Notes = append(b.doc.Notes, capacity.Notes...)
		for _, c := range capacity.Curves {
			if len(c.Points) == 0 {
				continue
			}
			mine := curve{
				Set: i, Series: b.doc.Cells.Series[b.first[i]+c.Points[0].Cell], Label: set.Label(c.Config, b.naming[c.Transport]), Open: c.Open, Axis: c.Axis,
				Metric: c.Metric, Knee: c.Knee, Most: mostOf(&c, b.Objective != nil), Operating: c.Operating, Message: c.Message,
				Points: []point{},
			}
			for _, p := range c.Points {
				mine.Points = append(mine.Points, point{b.first[i] + p.Cell, p.Load, p.Meets, p.Past, p.Unusable})
			}
			b.doc.Curves = append(b.doc.Curves, mine)
		}
	}
}

// mostOf is the point of a curve with the most throughput, under the objective
// where there is one.
func mostOf(c *analyze.Curve, objective bool) *int {
	if objective {
		return c.Most
	}
	var most *int
	for i := range c.Points {
		if c.Points[i].Unusable == "" && (most == nil || c.Points[i].Rate.Median > c.Points[*most].Rate.Median) {
			most = &i
		}
	}
	return most
}

// shareOf is how good a value is against the best one, from 0 to 1.
func shareOf(value, best float64, better result.Better) float64 {
	switch {
	case value <= 0 || best <= 0:
		return 0
	case better == result.Lower:
		return best / value
	}
	return value / best
}
