package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range in nanoseconds and the resolution of every [Histogram]. They are the same everywhere,
// so that any two histograms can be merged.
const (
	HistogramMin    = 1
	HistogramMax    = 60_000_000_000
	HistogramDigits = 3
)

// Recorder counts the durations of one thread, as a [Histogram] does, with room for all buckets: a
// record costs some nanoseconds. It must not be used concurrently; give each thread its own.
type Recorder struct {
	hdr *hdrhistogram.Histogram
	sum float64 // of the recorded values, so that the mean is exact
}

// NewRecorder returns a recorder without records. It allocates all of its memory, about 220 KiB.
func NewRecorder() *Recorder {
	return &Recorder{hdr: hdrhistogram.New(HistogramMin, HistogramMax, HistogramDigits)}
}

// clamp returns a duration within the range of histograms.
func clamp(ns uint64) int64 { return int64(min(max(ns, HistogramMin), HistogramMax)) }

// Record counts one duration in nanoseconds, clamped to the range. It does not allocate.
func (r *Recorder) Record(ns uint64) {
	value := clamp(ns)
	r.sum += float64(value)
	// RecordValue fails only outside the range and after 2^63 records.
	_ = r.hdr.RecordValue(value)
}

// Merge adds the records of other, which does not change.
func (r *Recorder) Merge(other *Recorder) {
	r.hdr.Merge(other.hdr)
	r.sum += other.sum
}

// Reset drops all records and keeps the memory.
func (r *Recorder) Reset() {
	r.hdr.Reset()
	r.sum = 0
}

// Histogram returns the counts so far.
func (r *Recorder) Histogram() *Histogram {
	h := NewHistogram()
	h.hdr.MergeFrom(r.hdr)
	h.sum = r.sum
	return h
}

// Histogram counts durations from 1 ns to 60 s in buckets that are 0.1% wide. It has memory for the
// buckets with records only, so that reading it takes time for those alone. It must not be used
// concurrently.
type Histogram struct {
	hdr *hdrhistogram.PackedHistogram
	sum float64 // of the recorded values, so that the mean is exact
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{hdr: hdrhistogram.NewPacked(HistogramMin, HistogramMax, HistogramDigits)}
}

// Record counts one duration in nanoseconds, clamped to the range. For many, use a [Recorder].
func (h *Histogram) Record(ns uint64) {
	value := clamp(ns)
	h.sum += float64(value)
	_ = h.hdr.RecordValue(value)
}

// Within returns the share of the records that are at most ns, to the width of a bucket, or 0 if
// there are no records.
func (h *Histogram) Within(ns uint64) float64 {
	within := int64(0)
	for _, b := range h.Buckets() {
		if uint64(b.From) <= ns {
			within += int64(b.Count)
		}
	}
	return float64(within) / float64(max(h.Count(), 1))
}

// outlineBits is exactBits of an outline.
const outlineBits = 6

// Outline returns the histogram in buckets that are up to 3% wide, which takes little space.
func (h *Histogram) Outline() *Histogram {
	o := NewHistogram()
	for _, b := range h.Buckets() {
		width := int64(1) << max(0, bits.Len64(uint64(b.From))-outlineBits)
		// The middle of a bucket is in range, because the range ends below that of its width.
		_ = o.hdr.RecordValues(b.From&^(width-1)|width>>1, int64(b.Count))
	}
	o.sum = h.sum
	return o
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
	buckets := make([]Bucket, 0, h.hdr.Populated())
	for value, count := range h.hdr.ForEachBucket {
		buckets = append(buckets, Bucket{value, value + bucketWidth(value) - 1, uint64(count)})
	}
	return buckets
}

// exactBits is the number of bits of the durations that have a bucket to themselves, which three
// digits need. From there on, buckets are twice as wide from each power of two on.
const exactBits = 11

// bucketWidth returns the width of the bucket of a duration.
func bucketWidth(ns int64) int64 { return 1 << max(0, bits.Len64(uint64(ns))-exactBits) }

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

// Encode returns the histogram in the HDR V2 compressed format, as base64. The library's encoder
// makes a compressor for each call, which takes half a millisecond, and a window has a dozen
// histograms.
func (h *Histogram) Encode() string {
	payload := h.payload()
	const cookie, compressedCookie = 0x1c849313, 0x1c849314
	var header []byte
	for _, field := range []uint32{cookie, uint32(len(payload)), 0, HistogramDigits} {
		header = binary.BigEndian.AppendUint32(header, field)
	}
	// values are integers times 1
	for _, field := range []uint64{HistogramMin, HistogramMax, math.Float64bits(1)} {
		header = binary.BigEndian.AppendUint64(header, field)
	}
	encoded := bytes.NewBuffer(make([]byte, 8))
	w := compressors.Get().(*zlib.Writer)
	defer compressors.Put(w)
	w.Reset(encoded)
	_, _ = w.Write(append(header, payload...)) // writing to memory cannot fail
	_ = w.Close()
	binary.BigEndian.PutUint32(encoded.Bytes(), compressedCookie)
	binary.BigEndian.PutUint32(encoded.Bytes()[4:], uint32(encoded.Len()-8))
	return base64.StdEncoding.EncodeToString(encoded.Bytes())
}

var compressors = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(nil, zlib.BestCompression) // fails for an unknown level
	return w
}}

// payload returns the count of each bucket up to the last with records; a negative number stands
// for that many empty ones.
func (h *Histogram) payload() (encoded []byte) {
	next := int64(0) // bucket
	for value, count := range h.hdr.ForEachBucket {
		width := bucketWidth(value)
		bucket := value/width + int64(bits.TrailingZeros64(uint64(width)))<<(exactBits-1)
		switch empty := bucket - next; empty {
		case 0:
		case 1:
			encoded = binary.AppendVarint(encoded, 0)
		default:
			encoded = binary.AppendVarint(encoded, -empty)
		}
		encoded = binary.AppendVarint(encoded, count)
		next = bucket + 1
	}
	if next == 0 {
		encoded = binary.AppendVarint(encoded, 0)
	}
	return encoded
}

// DecodeHistogram decodes the output of [Histogram.Encode]. A histogram with another range or
// resolution is an error.
func DecodeHistogram(encoded string) (*Histogram, error) {
	hdr, err := hdrhistogram.DecodePacked([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("decoding histogram: %w", err)
	}
	if hdr.LowestTrackableValue() != HistogramMin || hdr.HighestTrackableValue() != HistogramMax ||
		hdr.SignificantFigures() != HistogramDigits {
		return nil,
			fmt.Errorf(
				"decoding histogram: it covers %d to %d at %d digits instead of %d to %d at %d",
				hdr.LowestTrackableValue(), hdr.HighestTrackableValue(), hdr.SignificantFigures(),
				HistogramMin, int64(HistogramMax), HistogramDigits)
	}
	return &Histogram{hdr: hdr, sum: hdr.Mean() * float64(hdr.TotalCount())}, nil
}
