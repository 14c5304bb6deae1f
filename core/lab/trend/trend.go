package trend

import (
	"math"
	"slices"
)

// Trend is how much a series changes from value to value, as a share of its median, with a 95%
// interval.
type Trend struct {
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Rises and Falls report whether the interval is on one side of 0.
func (t Trend) Rises() bool { return t.Low > 0 }

// Falls is the opposite of [Trend.Rises].
func (t Trend) Falls() bool { return t.High < 0 }

// least is the smallest number of values that have a trend: with fewer, no order of them is rare enough.
const least = 8

// most bounds the number of points. A longer series is divided into so many parts of equal length, of
// which the medians count.
const most = 400

// Of returns the trend of a series: Theil's and Sen's median of the slopes between all pairs of values,
// which a third of outliers does not spoil, with the interval by the distribution of Kendall's statistic
// (Sen, 1968). ok is false if there are too few values or their median is not above 0.
func Of(values []float64) (t Trend, ok bool) {
	center := median(slices.Clone(values))
	if len(values) < least || !(center > 0) {
		return Trend{}, false
	}
	points, step := parts(values)
	n := len(points)
	slopes := make([]float64, 0, n*(n-1)/2)
	for i, a := range points {
		for j, b := range points[i+1:] {
			slopes = append(slopes, (b-a)/(float64(j+1)*step*center))
		}
	}
	slices.Sort(slopes)
	const z = 1.959964 // of 95%
	size := float64(n)
	width := z * math.Sqrt(size*(size-1)*(2*size+5)/18)
	pairs := float64(len(slopes))
	low := max(int(math.Floor((pairs-width)/2)), 0)
	high := min(int(math.Ceil((pairs+width)/2)), len(slopes)-1)
	return Trend{Slope: median(slopes), Low: slopes[low], High: slopes[high]}, true
}

// parts returns the medians of at most [most] parts of a series, and how many values are between two.
func parts(values []float64) (points []float64, step float64) {
	size := (len(values) + most - 1) / most
	for ; len(values) >= size; values = values[size:] {
		points = append(points, median(slices.Clone(values[:size])))
	}
	return points, float64(size)
}

// median sorts its argument. It returns 0 without values.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}
