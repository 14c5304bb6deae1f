package workload

import (
	"math/bits"

	"transportbench/core/base/config"
)

// Sizes draws sizes of values. It does not change once made, so threads may
// share it.
type Sizes struct {
	least, span uint64 // of a range, and of one size, whose span is 1
	table       []sizeBucket
}

// sizeBucket is an entry of an alias table with the size of its alias beside
// its own.
type sizeBucket struct {
	keep        uint64
	size, other uint32
}

// NewSizes makes what draws from c.
func NewSizes(c config.Sizes) *Sizes {
	s := &Sizes{least: uint64(c.Min()), span: uint64(c.Max()-c.Min()) + 1}
	histogram := c.Histogram()
	if histogram == nil {
		return s
	}
	weights := make([]float64, len(histogram))
	for i, h := range histogram {
		weights[i] = h.Weight
	}
	for i, a := range newAliases(weights) {
		s.table = append(s.table, sizeBucket{a.keep, uint32(histogram[i].Size), uint32(histogram[a.other].Size)})
	}
	return s
}

// At returns the size in bytes that the value of a key has before anyone writes
// it. It follows from the key, and over all keys is distributed as the sizes
// that are written.
func (s *Sizes) At(key uint64) int { return s.of(mix64(key + gamma)) }

func (s *Sizes) vary() bool { return s.span > 1 }

// of turns a draw into a size.
func (s *Sizes) of(x uint64) int {
	if s.table == nil {
		offset, _ := bits.Mul64(x, s.span)
		return int(s.least + offset)
	}
	i, fraction := bits.Mul64(x, uint64(len(s.table)))
	b := &s.table[i]
	_, below := bits.Sub64(fraction, b.keep, 0) // by mask, as in zipfian.pick
	return int(b.other ^ (b.other^b.size)&-uint32(below))
}
