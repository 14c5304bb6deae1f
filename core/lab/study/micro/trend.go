package micro

import (
	"slices"

	"transportbench/core/lab/judge/compare/ranktest"
)

// Trend is by how much the last quarter of a series is above the first, as a share, with its 95%
// interval.
type Trend struct {
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Direction is 1 if each quarter is significantly above the one before it, -1 if each is below,
	// else 0. Another state of the machine lasts for some of the quarters and is no trend.
	Direction int `json:"direction"`
}

// minQuarter is the least number of values of a quarter: fewer have no interval.
const minQuarter = 4

// newTrend returns the trend of positive values, or nil if they are too few.
func newTrend(values []float64) *Trend {
	var quarters [4][]float64
	n := len(values) / len(quarters)
	if n < minQuarter {
		return nil
	}
	for i := range quarters {
		quarters[i] = slices.Sorted(slices.Values(values[i*n : (i+1)*n]))
	}
	shift := func(from, to int) (ratio, low, high float64) {
		return ranktest.Shift(ranktest.Blocks{{A: quarters[from], B: quarters[to]}}, 0.05)
	}
	ratio, low, high := shift(0, len(quarters)-1)
	t := &Trend{Change: ratio - 1, Low: low - 1, High: high - 1}
	above, below := 0, 0
	for i := range len(quarters) - 1 {
		_, low, high := shift(i, i+1)
		if low > 1 {
			above++
		}
		if high < 1 {
			below++
		}
	}
	switch len(quarters) - 1 {
	case above:
		t.Direction = 1
	case below:
		t.Direction = -1
	}
	return t
}
