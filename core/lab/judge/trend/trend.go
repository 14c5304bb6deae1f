package trend

import (
	"cmp"
	"math"
	"slices"

	"transportbench/core/base/record"
)

// Trend is how much a series changes from value to value, as a share of its median, with a 95%
// interval.
type Trend struct {
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Early and Late are the slopes of the two halves.
	Early float64 `json:"early"`
	Late  float64 `json:"late"`
}

// Rises reports whether the interval and the slopes of both halves are above 0. What lasts longer
// than a series, such as another state of the machine, is mostly in one half.
func (t Trend) Rises() bool { return t.Low > 0 && t.Early > 0 && t.Late > 0 }

// Falls is the opposite of [Trend.Rises].
func (t Trend) Falls() bool { return t.High < 0 && t.Early < 0 && t.Late < 0 }

// minValues is the smallest number of values that have a trend: with fewer, no order of them is
// rare enough.
const minValues = 8

// maxPoints bounds the number of points. A longer series is divided into so many parts of equal
// length, of which the medians count.
const maxPoints = 400

// Of returns the trend of a series: Theil's and Sen's median of the slopes between all pairs of
// values, which a third of outliers does not spoil, with the interval by the distribution of
// Kendall's statistic (Sen, 1968). The statistic varies more if neighbors resemble each other, as
// on a machine that changes its state from time to time; the interval is as much wider (Hamed and
// Rao, 1998). ok is false if there are too few values or their median is not above 0.
func Of(values []float64) (t Trend, ok bool) {
	center := record.Median(values)
	if len(values) < minValues || !(center > 0) {
		return Trend{}, false
	}
	points, step := parts(values)
	n := len(points)
	slopes := slopesOf(points, step*center)
	slope := record.Median(slopes)
	const z = 1.959964 // of 95%
	size := float64(n)
	width := z * math.Sqrt(inflation(points, slope*step*center)*size*(size-1)*(2*size+5)/18)
	pairs := float64(len(slopes))
	low := max(int(math.Floor((pairs-width)/2)), 0)
	high := min(int(math.Ceil((pairs+width)/2)), len(slopes)-1)
	return Trend{
		Slope: slope, Low: slopes[low], High: slopes[high],
		Early: record.Median(slopesOf(points[:n/2], step*center)),
		Late:  record.Median(slopesOf(points[n/2:], step*center)),
	}, true
}

// slopesOf returns the slopes between all pairs of points, sorted, in units of unit per point.
func slopesOf(points []float64, unit float64) []float64 {
	slopes := make([]float64, 0, len(points)*(len(points)-1)/2)
	for i, a := range points {
		for j, b := range points[i+1:] {
			slopes = append(slopes, (b-a)/(float64(j+1)*unit))
		}
	}
	slices.Sort(slopes)
	return slopes
}

// inflation returns the ratio of the variance of Kendall's statistic to that of independent points,
// at least 1. It is computed from the autocorrelation of the ranks of the points without their
// slope, up to the first lag at which it is not significant: that of longer ones is noise.
func inflation(points []float64, slope float64) float64 {
	n := float64(len(points))
	flat := make([]float64, len(points))
	for i, p := range points {
		flat[i] = p - slope*float64(i)
	}
	ranks := ranksOf(flat)
	mean, variance := (n-1)/2, 0.0
	for _, r := range ranks {
		variance += (r - mean) * (r - mean)
	}
	if variance == 0 {
		return 1
	}
	sum := 0.0
	for lag := 1; lag < len(ranks)-2; lag++ {
		covariance := 0.0
		for i := lag; i < len(ranks); i++ {
			covariance += (ranks[i] - mean) * (ranks[i-lag] - mean)
		}
		k, r := float64(lag), covariance/variance
		if r < 1.96/math.Sqrt(n) {
			break
		}
		sum += (n - k) * (n - k - 1) * (n - k - 2) * r
	}
	return max(1, 1+2*sum/(n*(n-1)*(n-2)))
}

// ranksOf returns the rank of each value, from 0; equal values have the mean of theirs.
func ranksOf(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return ranks
}

// parts returns the medians of at most [most] parts of a series, and how many values are between
// two.
func parts(values []float64) (points []float64, step float64) {
	size := (len(values) + maxPoints - 1) / maxPoints
	for ; len(values) >= size; values = values[size:] {
		points = append(points, record.Median(values[:size]))
	}
	return points, float64(size)
}
