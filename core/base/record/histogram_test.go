package record

import (
	"math"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHistogramAgainstSortedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Uint64Range(0, 2*HistogramMax), 1, 200).Draw(t, "values")
		split := rapid.IntRange(0, len(values)).Draw(t, "split")

		// Two threads' records, merged and sent to the host.
		thread, other := NewRecorder(), NewHistogram()
		for i, v := range values {
			if i < split {
				thread.Record(v)
			} else {
				other.Record(v)
			}
		}
		h := thread.Histogram()
		h.Merge(other)
		encoded := h.Encode()
		decoded, err := DecodeHistogram(encoded)
		require.NoError(t, err)

		sum := 0.0
		clamped := make([]uint64, len(values))
		for i, v := range values {
			clamped[i] = min(max(v, HistogramMin), HistogramMax)
			sum += float64(clamped[i])
		}
		slices.Sort(clamped)
		const width = 1e-3
		require.InEpsilon(t, sum/float64(len(values)), h.Mean(), 1e-12)
		require.InEpsilon(t, h.Mean(), decoded.Mean(), width)
		for _, got := range []*Histogram{h, decoded} {
			require.EqualValues(t, len(values), got.Count())
			require.InEpsilon(t, clamped[len(clamped)-1], got.Max(), width)
			require.InEpsilon(t, clamped[0], got.Quantile(0), width)
			require.InEpsilon(t, clamped[len(clamped)-1], got.Quantile(1), width)
			q := rapid.Float64Range(0.001, 1).Draw(t, "q")
			// The library rounds the rank to the nearest record.
			rank := min(max(int(q*float64(len(clamped))+0.5), 1), len(clamped))
			require.InEpsilon(t, clamped[rank-1], got.Quantile(q), width)
			outline := got.Outline()
			require.EqualValues(t, len(values), outline.Count())
			require.InEpsilon(t, got.Quantile(q), outline.Quantile(q), 1./64+width)
		}
		require.EqualValues(t, len(values)-split, other.Count())
	})
}

// TestInterpolate measures durations with a clock of coarse step: Interpolate resolves quantiles
// within a step, Quantile does not.
func TestInterpolate(t *testing.T) {
	const step = 10.0
	for _, shift := range []float64{0, 2.5, 7} {
		h := NewHistogram()
		for i := range 100_000 {
			length := 95 + shift + 20*math.Mod(float64(i)*0.618034, 1) // uniform over two steps
			start := math.Mod(float64(i)*0.414214, 1) * step
			read := func(at float64) uint64 { return uint64(math.Floor(at/step) * step) }
			h.Record(read(start+length) - read(start))
		}
		for _, q := range []float64{0.25, 0.5, 0.75} {
			require.InDelta(t, 95+shift+20*q, h.Interpolate(q, step), 1.5, "quantile %g", q)
		}
		require.Zero(t, math.Mod(h.Quantile(0.5), step), "a step")
		require.LessOrEqual(t, h.Interpolate(1, step), float64(h.Max()))
		require.GreaterOrEqual(t, h.Interpolate(0, step), 90.0)
	}
	single := NewHistogram()
	require.Zero(t, single.Interpolate(0.5, step))
	single.Record(1_000_000)
	require.InEpsilon(t, 1e6, single.Interpolate(0.5, step), 1e-3)
	require.InEpsilon(t, 1e6, single.Interpolate(0.5, 0), 1e-3)
}

func TestHistogramEdges(t *testing.T) {
	h := NewHistogram()
	require.Zero(t, h.Count())
	require.Zero(t, h.Mean())
	require.Zero(t, h.Max())
	require.Zero(t, h.Quantile(0.5))

	h.Record(0)
	require.EqualValues(t, 1, h.Quantile(0.5))
	h.Record(math.MaxUint64)
	require.EqualValues(t, 2, h.Count())
	require.InEpsilon(t, HistogramMax, h.Max(), 1e-3)
	require.Equal(t, h.Quantile(0), h.Quantile(-3))
	require.Equal(t, h.Quantile(1), h.Quantile(7))

	r := NewRecorder()
	r.Record(3)
	r.Reset()
	require.Zero(t, r.Histogram().Count())
	require.Zero(t, r.Histogram().Mean())
	r.Record(7)
	require.EqualValues(t, 7, r.Histogram().Mean())
}

func TestDecodeHistogramRefuses(t *testing.T) {
	other, err := hdrhistogram.New(1, 1000, 2).Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	require.NoError(t, err)
	for _, bad := range []string{"", "AAAA", "not base64!", string(other)} {
		_, err := DecodeHistogram(bad)
		require.ErrorContains(t, err, "decoding histogram", "%q", bad)
	}
}

func FuzzDecodeHistogram(f *testing.F) {
	h := NewHistogram()
	for _, v := range []uint64{1, 120, 120, 5_000_000} {
		h.Record(v)
	}
	encoded := h.Encode()
	f.Add(encoded)
	f.Add(encoded[:len(encoded)/2])
	f.Fuzz(func(t *testing.T, encoded string) {
		h, err := DecodeHistogram(encoded)
		if err != nil {
			require.Nil(t, h)
			return
		}
		merged := NewHistogram()
		merged.Merge(h)
		require.Equal(t, h.Count(), merged.Count())
		require.LessOrEqual(t, h.Quantile(0.5), h.Quantile(0.99))
	})
}

func TestHistogramStdDev(t *testing.T) {
	h := NewHistogram()
	require.Zero(t, h.StdDev())
	for range 3 {
		h.Record(1000)
	}
	require.Zero(t, h.StdDev())
	h.Record(3000) // mean 1500
	require.InEpsilon(t, math.Sqrt((3*500*500+1500*1500)/4), h.StdDev(), 1e-3)
}

// TestBuckets compares the buckets and the encoding with those of the library's dense histogram.
func TestBuckets(t *testing.T) {
	dense, h := hdrhistogram.New(HistogramMin, HistogramMax, HistogramDigits), NewHistogram()
	compare := func() {
		var want []Bucket
		for _, b := range dense.Distribution() {
			if b.Count > 0 {
				want = append(want, Bucket{b.From, b.To, uint64(b.Count)})
			}
		}
		require.ElementsMatch(t, want, h.Buckets())
		encoded, err := dense.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		require.NoError(t, err)
		require.Equal(t, string(encoded), h.Encode())
	}
	compare()
	for v := uint64(1); v <= HistogramMax; v += v/3 + 1 {
		for _, near := range []uint64{v - 1, v, v + 3} {
			require.NoError(t, dense.RecordValues(clamp(near), int64(v)))
			require.NoError(t, h.hdr.RecordValues(clamp(near), int64(v)))
		}
		compare()
	}
}

func BenchmarkEncode(b *testing.B) {
	r := NewRecorder()
	for i := range uint64(1000) {
		r.Record(500 + i*i%997)
	}
	for b.Loop() {
		r.Histogram().Encode()
	}
}

func BenchmarkDecode(b *testing.B) {
	h := NewHistogram()
	for i := range uint64(1000) {
		h.Record(500 + i*i%997)
	}
	encoded := h.Encode()
	for b.Loop() {
		h, err := DecodeHistogram(encoded)
		require.NoError(b, err)
		h.Interpolate(0.5, 10)
	}
}
