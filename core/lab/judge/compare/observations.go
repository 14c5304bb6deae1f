package compare

import (
	"math"

	"transportbench/core/lab/judge/compare/control"
	"transportbench/core/lab/judge/compare/ranktest"
)

// observations are the values by which a change is judged.
type observations struct {
	// blocks has the values of both sides; nil if they were not compared.
	blocks ranktest.Blocks
	// spread is that of changes of the same kind between the sets without a cause in the
	// transport; zero if there is no control.
	spread control.Spread
}

// interval returns the change as a ratio with its interval at 1-alpha: that of the rank test,
// widened by the spread. If there are too few values for one, low is 0 and high infinite. There
// must be values.
func (e observations) interval(alpha float64) (ratio, low, high float64) {
	r := ranktest.NewRelations(e.blocks, ranktest.Ratio)
	ratio = r.Median()
	low, high = e.widened(r, ratio, alpha)
	return ratio, low, high
}

func (e observations) widened(r *ranktest.Relations, ratio, alpha float64) (low, high float64) {
	if low, high = r.Interval(alpha); low <= 0 {
		return 0, math.Inf(1)
	}
	reach := e.spread.Reach(alpha)
	return ratio / math.Exp(math.Hypot(math.Log(ratio/low), reach)),
		ratio * math.Exp(math.Hypot(math.Log(high/ratio), reach))
}

// beyond returns the one-sided p-value of the ratio being at most the limit if above is set, else
// of its being at least the limit: half the least alpha at which the interval excludes the limit.
// Without a spread it is that of the rank test.
func (e observations) beyond(limit float64, above bool) float64 {
	p := e.blocks.Beyond(limit, above)
	if e.spread.None() || p >= 0.5 || limit <= 0 {
		return p
	}
	r := ranktest.NewRelations(e.blocks, ranktest.Ratio)
	ratio := r.Median()
	excludes := func(p float64) bool {
		low, high := e.widened(r, ratio, 2*p)
		return above && low > limit || !above && high < limit
	}
	low, high := math.Log(p), math.Log(0.5)
	const precision = 1e-3
	for high-low > precision {
		if middle := (low + high) / 2; excludes(math.Exp(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Exp(high)
}

// outside returns the two-sided p-value of the ratio being within 1-floor and 1+floor. ratio is its
// estimate, which decides the limit that is tested.
func (e observations) outside(ratio, floor float64) float64 {
	if ratio > 1 {
		return min(1, 2*e.beyond(1+floor, true))
	}
	return min(1, 2*e.beyond(1-floor, false))
}

// standardError returns that of the logarithm of the ratio, from the interval of the rank test; ok
// is false if there are too few values for one.
func (e observations) standardError() (se float64, ok bool) {
	const alpha, normal = 0.05, 1.959964
	_, low, high := ranktest.Shift(e.blocks, alpha)
	if low <= 0 {
		return 0, false
	}
	return math.Log(high/low) / (2 * normal), true
}
