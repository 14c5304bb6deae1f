package workload

import (
	"math/bits"

	"transportbench/core/base/config"
)

// Sizes draws sizes of values. It is immutable, so threads may share it.
type Sizes struct {
	min, span uint64       // of a range; the span of a single size is 1
	table     []sizeBucket // of a histogram
}

// sizeBucket is an entry of an alias table, with its own size and that of its alias.
type sizeBucket struct {
	keep        uint64
	size, other uint32
}

// NewSizes returns the sizes that c describes.
func NewSizes(c config.Sizes) *Sizes {
	s := &Sizes{min: uint64(c.Min()), span: uint64(c.Max()-c.Min()) + 1}
	histogram := c.Histogram()
	if histogram == nil {
		return s
	}
	weights := make([]float64, len(histogram))
	for i, h := range histogram {
		weights[i] = h.Weight
	}
	for i, a := range newAliases(weights) {
		s.table = append(s.table, sizeBucket{a.keep, uint32(histogram[i].Size),
			uint32(histogram[a.other].Size)})
	}
	return s
}

// At returns the initial size in bytes of a key's value. It depends on the key alone; over all
// keys, the sizes have the same distribution as the sizes that are written.
func (s *Sizes) At(key uint64) int { return s.of(mix64(key + gamma)) }

func (s *Sizes) vary() bool { return s.span > 1 }

// of turns a draw into a size.
func (s *Sizes) of(x uint64) int {
	if s.table == nil {
		offset, _ := bits.Mul64(x, s.span)
		return int(s.min + offset)
	}
	i, fraction := bits.Mul64(x, uint64(len(s.table)))
	b := &s.table[i]
	_, below := bits.Sub64(fraction, b.keep, 0) // no branch, as in zipfian.pick
	return int(b.other ^ (b.other^b.size)&-uint32(below))
}
