package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/transport"
)

// Sizes is the distribution of the sizes of values: a single size, a uniform range, or a
// histogram. The zero value is the fixed size 0. Sizes is immutable, so copies may share memory.
//
// In flags and files it is written "4KiB", "uniform:64-4KiB" or "histogram:64=9,4KiB=1". In JSON a
// fixed size is a plain number and the others are strings.
type Sizes struct {
	min, max Size
	// buckets has the sizes of a histogram in ascending order, with weights above 0. It is nil for
	// a fixed size and a range.
	buckets []SizeWeight
}

// SizeWeight is one entry of a histogram: a size in bytes and its relative frequency.
type SizeWeight struct {
	Size   Size
	Weight float64
}

// The bounds of a histogram: MaxSizeWeights is its number of distinct sizes, MaxHistogramFile the
// length of its file in bytes.
const (
	MaxSizeWeights   = 4096
	MaxHistogramFile = 1 << 20
)

const (
	prefixUniform   = "uniform:"
	prefixHistogram = "histogram:"
)

// FixedSize returns the distribution in which every value has n bytes.
func FixedSize(n Size) Sizes { return Sizes{min: n, max: n} }

// UniformSizes returns the uniform distribution over the sizes from low to high bytes, inclusive.
func UniformSizes(low, high Size) (Sizes, error) {
	if low < 0 || low > high {
		return Sizes{},
			fmt.Errorf("the range of sizes %s-%s is empty or negative; put the smaller size first",
				low, high)
	}
	return Sizes{min: low, max: high}, nil
}

// HistogramSizes returns the distribution in which the probability of a size is proportional to its
// weight. The order does not matter, and weights of the same size are added.
func HistogramSizes(weights []SizeWeight) (Sizes, error) {
	sorted := slices.Clone(weights)
	slices.SortStableFunc(sorted, func(a, b SizeWeight) int { return cmp.Compare(a.Size, b.Size) })
	var s Sizes
	total := 0.0
	for _, w := range sorted {
		if w.Size < 0 || !(w.Weight >= 0) || math.IsInf(w.Weight, 1) {
			return s, fmt.Errorf("size %d with weight %g: both must be finite and not negative",
				int64(w.Size), w.Weight)
		}
		if w.Weight == 0 {
			continue
		}
		total += w.Weight
		if last := len(s.buckets) - 1; last >= 0 && s.buckets[last].Size == w.Size {
			s.buckets[last].Weight += w.Weight
		} else {
			s.buckets = append(s.buckets, w)
		}
	}
	switch n := len(s.buckets); {
	case n == 0:
		return s, fmt.Errorf("the histogram has no size with a weight above 0")
	case n > MaxSizeWeights:
		return s, fmt.Errorf("the histogram has %d different sizes; use at most %d", n,
			MaxSizeWeights)
	case math.IsInf(total, 1):
		return s, fmt.Errorf("the sum of the weights is too large")
	case n == 1:
		return FixedSize(s.buckets[0].Size), nil
	}
	s.min, s.max = s.buckets[0].Size, s.buckets[len(s.buckets)-1].Size
	return s, nil
}

// ReadHistogram reads a histogram of at most [MaxHistogramFile] bytes. Each line has a size and a
// weight, separated by blanks. Sizes may have units; "#" starts a comment; empty lines are
// skipped. An error is a single line and names the number of the wrong line.
func ReadHistogram(r io.Reader) (Sizes, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxHistogramFile+1))
	if err != nil {
		return Sizes{}, err
	}
	if len(data) > MaxHistogramFile {
		return Sizes{}, fmt.Errorf("the histogram is longer than %s; use fewer sizes",
			Size(MaxHistogramFile))
	}
	var weights []SizeWeight
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		text, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return Sizes{}, fmt.Errorf("line %d: %q is not a size and a weight", number,
				shorten(text))
		}
		w, err := parseSizeWeight(fields[0], fields[1])
		if err != nil {
			return Sizes{}, fmt.Errorf("line %d: %w", number, err)
		}
		weights = append(weights, w)
	}
	return HistogramSizes(weights)
}

func parseSizeWeight(size, weight string) (w SizeWeight, err error) {
	if err := w.Size.Set(size); err != nil {
		return w, fmt.Errorf("%q is not a size", shorten(size))
	}
	if w.Weight, err = strconv.ParseFloat(weight, 64); err != nil || !(w.Weight >= 0) ||
		math.IsInf(w.Weight, 1) {
		return w, fmt.Errorf("%q is not a weight; use a number from 0", shorten(weight))
	}
	return w, nil
}

// shorten limits the part of a file that an error quotes.
func shorten(text string) string {
	const limit = 40
	if text = strings.TrimSpace(text); len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}

// Max returns the largest size in bytes.
func (s Sizes) Max() int { return int(s.max) }

// Min returns the smallest size in bytes.
func (s Sizes) Min() int { return int(s.min) }

// Fixed reports whether all values have the same size, Max.
func (s Sizes) Fixed() bool { return s.min == s.max }

// Mean returns the mean size in bytes.
func (s Sizes) Mean() float64 {
	if s.buckets == nil {
		return (float64(s.min) + float64(s.max)) / 2
	}
	sum, total := 0.0, 0.0
	for _, b := range s.buckets {
		sum += float64(b.Size) * b.Weight
		total += b.Weight
	}
	return sum / total
}

// Histogram returns the sizes of a histogram in ascending order, or nil for a fixed size and a
// range. The caller owns the slice.
func (s Sizes) Histogram() []SizeWeight { return slices.Clone(s.buckets) }

func (s Sizes) String() string {
	switch {
	case s.buckets != nil:
		parts := make([]string, len(s.buckets))
		for i, b := range s.buckets {
			parts[i] = b.Size.String() + "=" + strconv.FormatFloat(b.Weight, 'g', -1, 64)
		}
		return prefixHistogram + strings.Join(parts, ",")
	case s.Fixed():
		return s.max.String()
	default:
		return prefixUniform + s.min.String() + "-" + s.max.String()
	}
}

// Set parses the format of String.
func (s *Sizes) Set(text string) (err error) {
	if list, found := strings.CutPrefix(text, prefixHistogram); found {
		*s, err = parseHistogram(list)
		return err
	}
	if span, found := strings.CutPrefix(text, prefixUniform); found {
		from, to, found := strings.Cut(span, "-")
		var low, high Size
		if !found || low.Set(from) != nil || high.Set(to) != nil {
			return fmt.Errorf("%q is not a range of sizes such as uniform:64-4KiB", text)
		}
		*s, err = UniformSizes(low, high)
		return err
	}
	n, err := transport.ParseSize(text)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 4KiB, a range such as uniform:64-4KiB, or a "+
			"histogram such as histogram:64=9,4KiB=1", shorten(text))
	}
	*s = FixedSize(Size(n))
	return nil
}

func parseHistogram(list string) (Sizes, error) {
	var weights []SizeWeight
	for item := range strings.SplitSeq(list, ",") {
		size, weight, found := strings.Cut(item, "=")
		if !found {
			return Sizes{}, fmt.Errorf("%q is not size=weight", shorten(item))
		}
		w, err := parseSizeWeight(size, weight)
		if err != nil {
			return Sizes{}, err
		}
		weights = append(weights, w)
	}
	return HistogramSizes(weights)
}

// MarshalJSON implements [json.Marshaler].
func (s Sizes) MarshalJSON() ([]byte, error) {
	if s.Fixed() {
		return json.Marshal(int64(s.max))
	}
	return json.Marshal(s.String())
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Sizes) UnmarshalJSON(data []byte) error {
	var n int64
	if err := json.Unmarshal(data, &n); err == nil {
		*s = FixedSize(Size(n))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("sizes are neither a number nor a string: %w", err)
	}
	return s.Set(text)
}
