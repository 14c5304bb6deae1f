package control

import (
	"math"
	"slices"
	"time"

	"transportbench/core/base/record"
)

const (
	// Fewest is the least number of other transports that are a control.
	Fewest = 4
	// MaxMovement is the movement of the machine, as a share, above which there is no verdict:
	// the transports follow it too differently.
	MaxMovement = 0.25
)

// Point is one window of a transport: the logarithm of its value minus that of its level in the
// state, which is the same for both sets.
type Point struct {
	At        time.Time
	State     string
	Deviation float64
}

// Series are the windows of one transport in one set, in the order of time.
type Series []Point

// near returns the deviation of the window in the state that is nearest to a time, and no farther
// than reach. ok is false if there is none.
func (s Series) near(at time.Time, state string, reach time.Duration) (deviation float64, ok bool) {
	from, _ := slices.BinarySearchFunc(s, at, func(p Point, at time.Time) int {
		return p.At.Compare(at)
	})
	nearest, best := reach+1, 0.0
	for i := from - 1; i >= 0 && at.Sub(s[i].At) < nearest; i-- {
		if s[i].State == state {
			nearest, best = at.Sub(s[i].At), s[i].Deviation
		}
	}
	for i := from; i < len(s) && s[i].At.Sub(at) < nearest; i++ {
		if s[i].State == state {
			nearest, best = s[i].At.Sub(at), s[i].Deviation
		}
	}
	return best, nearest <= reach
}

// Movement returns how far the machine is from its level at a time and in a state: the median of
// the deviations of the other transports, each in its window that is nearest, and no farther than
// reach. ok is false if fewer than minimum of them have one.
func Movement(others [][]Series, at time.Time, state string, reach time.Duration,
	minimum int) (movement float64, ok bool) {
	var deviations []float64
	for _, cells := range others {
		sum, n := 0.0, 0
		for _, s := range cells {
			if d, ok := s.near(at, state, reach); ok {
				sum, n = sum+d, n+1
			}
		}
		if n > 0 {
			deviations = append(deviations, sum/float64(n))
		}
	}
	if len(deviations) < max(minimum, 1) {
		return 0, false
	}
	return record.Median(deviations), true
}

// Row has the logarithms of the values of a cell in each of several sets, NaN where it has none.
type Row struct {
	Transport string
	Values    []float64
}

// Movements returns how far the machine is from its level in each set, by all transports but
// without, if that is not empty: the median of their deviations, each the mean of its rows. It is
// NaN if fewer than minimum transports are in the set. The levels of the rows and the movements
// follow from each other, as in Tukey's median polish, so a transport that is not in all sets moves
// nothing when it comes.
func Movements(rows []Row, without string, minimum int) []float64 {
	rows = slices.DeleteFunc(slices.Clone(rows),
		func(r Row) bool { return r.Transport == without && without != "" })
	if len(rows) == 0 {
		return nil
	}
	moved := make([]float64, len(rows[0].Values))
	levels := make([]float64, len(rows))
	const rounds, precision = 20, 1e-6
	for changed, i := true, 0; changed && i < rounds; i++ {
		changed = false
		for i, r := range rows {
			levels[i] = medianOf(len(moved), func(set int) float64 {
				return r.Values[set] - moved[set]
			})
		}
		for set := range moved {
			sums, counts := map[string]float64{}, map[string]float64{}
			for i, r := range rows {
				if d := r.Values[set] - levels[i]; !math.IsNaN(d) {
					sums[r.Transport], counts[r.Transport] = sums[r.Transport]+d,
						counts[r.Transport]+1
				}
			}
			deviations := make([]float64, 0, len(sums))
			for transport, sum := range sums {
				deviations = append(deviations, sum/counts[transport])
			}
			now := math.NaN()
			if len(deviations) >= max(minimum, 1) {
				now = record.Median(deviations)
			}
			changed = changed || math.Abs(now-moved[set]) > precision
			moved[set] = now
		}
	}
	return moved
}

// medianOf returns the median of n values without those that are NaN; NaN if all are.
func medianOf(n int, value func(int) float64) float64 {
	var values []float64
	for i := range n {
		if v := value(i); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	return record.Median(values)
}

// Residual is what is left of a transport's change without the movement of the machine.
type Residual struct {
	Transport string
	Change    float64 // of the logarithm
	Error     float64 // its standard error within the sets
}

// Spread is the scatter of residuals that no transport caused.
type Spread struct {
	Tau float64 // standard deviation of the logarithm, beyond the errors within the sets
	// Freedom is the degrees of freedom of Tau: the transports, since how one follows the machine
	// is much the same under all of its loads.
	Freedom float64
}

// None reports whether the spread widens nothing.
func (s Spread) None() bool { return s.Tau == 0 }

// SpreadWithout returns the spread of the residuals of all transports but one, so that a change of
// that one does not hide itself.
func SpreadWithout(transport string, residuals []Residual) Spread {
	q, weights, n := 0.0, 0.0, 0
	others := map[string]bool{}
	for _, r := range residuals {
		if r.Transport == transport || r.Error <= 0 {
			continue
		}
		w := 1 / (r.Error * r.Error)
		q, weights, n = q+w*r.Change*r.Change, weights+w, n+1
		others[r.Transport] = true
	}
	if n == 0 {
		return Spread{}
	}
	return Spread{Tau: math.Sqrt(max(0, (q-float64(n))/weights)), Freedom: float64(len(others))}
}

// AtLeast returns the spread, or the movement of the machine (a logarithm) itself if that is more
// or the spread is of too few residuals to tell: a transport is then taken to follow the machine by
// anything between not at all and twice as much, one standard deviation each way.
func (s Spread) AtLeast(movement float64) Spread {
	if moved := math.Abs(movement); moved > s.Tau || s.Freedom < Fewest {
		return Spread{Tau: moved, Freedom: math.Inf(1)}
	}
	return s
}

// Reach returns how far the spread reaches on each side of a logarithm at 1-alpha: the quantile of
// Student's distribution times tau.
func (s Spread) Reach(alpha float64) float64 {
	if s.None() {
		return 0
	}
	return s.Tau * quantile(alpha/2, s.Freedom)
}

// quantile returns the value that Student's t exceeds with probability p, at most 1/2, by the
// asymptotic expansion in the degrees of freedom (Abramowitz and Stegun, 26.7.5). With four
// degrees of freedom it is 1.4% too small at p = 0.0005, and with more it is closer.
func quantile(p, freedom float64) float64 {
	z := math.Sqrt2 * math.Erfcinv(2*p)
	z2 := z * z
	terms := []float64{
		z * (z2 + 1) / 4,
		z * ((5*z2+16)*z2 + 3) / 96,
		z * (((3*z2+19)*z2+17)*z2 - 15) / 384,
		z * ((((79*z2+776)*z2+1482)*z2-1920)*z2 - 945) / 92160,
	}
	t, power := z, 1.0
	for _, term := range terms {
		power *= freedom
		t += term / power
	}
	return t
}
