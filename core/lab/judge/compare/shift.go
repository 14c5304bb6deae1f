package compare

import (
	"math"

	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/set"
)

// Values names the values of one metric of a cell.
type Values struct {
	Cell   *set.Cell
	Metric string
}

// Shift is how the values of one cell relate to those of another within the states of the machine.
type Shift struct {
	Value float64
	// Low and High are its interval, absent if there are too few values for one.
	Low, High *float64
	// A and B count the values of both sides in states that both had.
	A, B int
}

// NewShift estimates how b relates to a. ok is false if no state of the machine has values of both.
func NewShift(a, b Values, relation ranktest.Relation, states state.Classifier,
	alpha float64) (shift Shift, ok bool) {
	c := newComparison(newSample(a.Cell, a.Metric), newSample(b.Cell, b.Metric), states)
	if len(c.blocks) == 0 {
		return Shift{}, false
	}
	value, low, high := ranktest.ShiftBy(c.blocks, alpha, relation)
	shift = Shift{Value: value, A: c.comparedA, B: c.comparedB}
	if !math.IsInf(low, 0) {
		shift.Low, shift.High = &low, &high
	}
	return shift, true
}
