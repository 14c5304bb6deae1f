package record

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range in nanoseconds and the resolution of every [Histogram]. They are the same everywhere,
// so that any two histograms can be merged.
const (
	HistogramMin    = 1
	HistogramMax    = 60_000_000_000
	HistogramDigits = 3
)

// Histogram counts durations from 1 ns to 60 s in buckets that are 0.1% wide. It must not be used
// concurrently; give each thread its own and merge them.
type Histogram struct {
	hdr *hdrhistogram.Histogram
	sum float64 // of the recorded values, so that the mean is exact
}

// NewHistogram returns an empty histogram. It allocates all of its memory, about 220 KiB.
func NewHistogram() *Histogram {
	return &Histogram{hdr: hdrhistogram.New(HistogramMin, HistogramMax, HistogramDigits)}
}

// Record counts one duration in nanoseconds, clamped to the range. It does not allocate.
func (h *Histogram) Record(ns uint64) {
	value := int64(min(max(ns, HistogramMin), HistogramMax))
	h.sum += float64(value)
	// RecordValue fails only outside the range and after 2^63 records.
	_ = h.hdr.RecordValue(value)
}

// Merge adds the counts of other, which does not change.
func (h *Histogram) Merge(other *Histogram) {
	h.hdr.Merge(other.hdr)
	h.sum += other.sum
}

// Quantile returns the duration in nanoseconds that a share q of the records does not exceed, or
// 0 if there are no records. q is clamped to 0 to 1.
func (h *Histogram) Quantile(q float64) float64 {
	return float64(h.hdr.ValueAtPercentile(q * 100))
}

// Interpolate returns the quantile q of durations that a clock measured which advances in steps of
// step nanoseconds. Quantile returns one of the steps; Interpolate spreads the records of each step
// evenly over its width, and those of each bucket over the bucket, and so resolves differences
// smaller than a step. It returns 0 if there are no records.
func (h *Histogram) Interpolate(q, step float64) float64 {
	bars := h.Buckets()
	if len(bars) == 0 {
		return 0
	}
	half := max(step, 0) / 2
	// below returns how many records are below x.
	below := func(x float64) float64 {
		sum := 0.0
		for _, b := range bars {
			from, to := float64(b.From)-half, float64(b.To)+1+half // Record rounds down
			if x <= from {
				break
			}
			sum += float64(b.Count) * min((x-from)/(to-from), 1)
		}
		return sum
	}
	low, high := float64(bars[0].From), float64(h.Max())
	rank := min(max(q, 0), 1) * float64(h.Count())
	for high-low > 1e-6*high {
		if middle := (low + high) / 2; below(middle) < rank {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// Bucket counts the records from From to To nanoseconds.
type Bucket struct {
	From, To int64
	Count    uint64
}

// Buckets returns the buckets with records, in order.
func (h *Histogram) Buckets() []Bucket {
	var buckets []Bucket
	for _, b := range h.hdr.Distribution() {
		if b.Count > 0 {
			buckets = append(buckets, Bucket{b.From, b.To, uint64(b.Count)})
		}
	}
	return buckets
}

// Count returns the number of records.
func (h *Histogram) Count() uint64 { return uint64(h.hdr.TotalCount()) }

// Mean returns the mean in nanoseconds, or 0 if there are no records. It is exact for recorded and
// merged values, and accurate to the width of a bucket for decoded ones.
func (h *Histogram) Mean() float64 {
	if h.Count() == 0 {
		return 0
	}
	return h.sum / float64(h.Count())
}

// StdDev returns the standard deviation in nanoseconds, accurate to the width of a bucket, or 0 if
// there are no records.
func (h *Histogram) StdDev() float64 { return h.hdr.StdDev() }

// Max returns the upper bound of the highest bucket in use, in nanoseconds.
func (h *Histogram) Max() uint64 {
	if h.Count() == 0 {
		return 0
	}
	return uint64(h.hdr.Max())
}

// Reset drops all records and keeps the memory.
func (h *Histogram) Reset() {
	h.hdr.Reset()
	h.sum = 0
}

// Encode returns the histogram in the HDR V2 compressed format, as base64.
func (h *Histogram) Encode() string {
	encoded, err := h.hdr.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(fmt.Sprintf("record: encoding a histogram into memory: %v", err)) // the library cannot fail here
	}
	return string(encoded)
}

// DecodeHistogram decodes the output of [Histogram.Encode]. A histogram with another range or
// resolution is an error.
func DecodeHistogram(encoded string) (*Histogram, error) {
	hdr, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("decoding histogram: %w", err)
	}
	if hdr.LowestTrackableValue() != HistogramMin || hdr.HighestTrackableValue() != HistogramMax ||
		hdr.SignificantFigures() != HistogramDigits {
		return nil, fmt.Errorf("decoding histogram: it covers %d to %d at %d digits instead of %d to %d at %d",
			hdr.LowestTrackableValue(), hdr.HighestTrackableValue(), hdr.SignificantFigures(),
			HistogramMin, int64(HistogramMax), HistogramDigits)
	}
	return &Histogram{hdr: hdr, sum: hdr.Mean() * float64(hdr.TotalCount())}, nil
}
