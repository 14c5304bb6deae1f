package shmperf

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"transportbench/core/transport"
)

const (
	lookupBatch = 64
	lookupDraws = 1 << 16 // lookups that are drawn before they are made
	pageSize    = 4 << 10
	// highest is where mmap begins to place mappings: right below the stack.
	highest = 0x7fff_f7ff_f000
)

// segments are mappings of another process: where each begins there and here. As mmap does, they go
// down from the stack, with gaps where something else is mapped. They are in the order in which
// they were registered, which says nothing about their addresses.
type segments struct {
	size uint64 // of each, a power of two
	at   []mapping
}

type mapping struct{ remote, local uint64 }

// maxSpread is how many times its size a segment takes at most, with the gap below it.
const maxSpread = 3

func drawSegments(count int, size uint64, random *rand.Rand) segments {
	s := segments{size: size, at: make([]mapping, count)}
	remote, local := uint64(highest), uint64(highest)
	for i := range s.at {
		taken := func() uint64 { return size + pageSize*(1+random.Uint64N(2*size/pageSize)) }
		remote -= taken()
		local -= taken()
		s.at[i] = mapping{remote, local}
	}
	random.Shuffle(count, func(i, j int) { s.at[i], s.at[j] = s.at[j], s.at[i] })
	return s
}

// A query is an address with its answer. An address as (segment, offset) is what a peer sends that
// knows of segments.
type query struct {
	address         uint64
	segment, offset uint64
	local           uint64
	found           bool
}

// queries draws addresses in segments, or in the gap above one.
func (s segments) queries(hit bool, random *rand.Rand) []query {
	list := make([]query, min(lookupDraws, max(1024, 4*len(s.at))))
	for i := range list {
		n, offset := random.IntN(len(s.at)), random.Uint64N(s.size)
		q := query{s.at[n].remote + offset, uint64(n), offset, s.at[n].local + offset, true}
		if !hit {
			q = query{address: s.at[n].remote + s.size + offset%pageSize,
				segment: uint64(n), offset: s.size + offset}
		}
		list[i] = q
	}
	return list
}

// check returns an error if an answer is wrong.
func (q *query) check(local uint64, found bool) error {
	if found != q.found || found && local != q.local {
		return fmt.Errorf("address %#x: got %#x (found: %t), want %#x (found: %t)", q.address,
			local, found, q.local, q.found)
	}
	return nil
}

// finder returns the local address of a query's address.
type finder func(q *query) (local uint64, found bool)

// A descriptor is as large as a buffer's in Mooncake, with its two names and lists of keys,
// so that a scan reads as many cache lines.
type descriptor struct {
	name                 string
	start, length, local uint64
	_                    [128 - 40]byte
}

// finders returns the ways to find an address, by name. The first is that of Mooncake's
// relocateSharedMemoryAddress (mooncake-transfer-engine, shm_transport.cpp): it scans a vector of
// descriptors.
func (s segments) finders() ([]string, []finder) {
	at, size, shift := s.at, s.size, bits.TrailingZeros64(s.size)&63
	sorted := slices.Clone(at)
	slices.SortFunc(sorted, func(a, b mapping) int { return cmp.Compare(a.remote, b.remote) })
	// A segment lies in two granules of its size at most, and a granule has parts of two.
	granules := make(map[uint64][2]uint32, 2*len(at)) // indices from 1
	for i := range at {
		for _, g := range []uint64{at[i].remote >> shift, (at[i].remote + size - 1) >> shift} {
			in := granules[g]
			if in[0] == 0 || in[0] == uint32(i+1) {
				in[0] = uint32(i + 1)
			} else {
				in[1] = uint32(i + 1)
			}
			granules[g] = in
		}
	}
	descriptors := make([]descriptor, len(at))
	for i := range at {
		descriptors[i] = descriptor{name: "segment", start: at[i].remote, length: size,
			local: at[i].local}
	}
	return []string{"linear", "ordered", "hash", "arithmetic"}, []finder{
		func(q *query) (uint64, bool) {
			for i := range descriptors {
				d := &descriptors[i]
				if d.name != "" && d.start <= q.address && q.address < d.start+d.length {
					return q.address - d.start + d.local, true
				}
			}
			return 0, false
		},
		func(q *query) (uint64, bool) {
			low, high := 0, len(sorted) // the last segment that does not begin above the address
			for low < high {
				if middle := int(uint(low+high) / 2); sorted[middle].remote <= q.address {
					low = middle + 1
				} else {
					high = middle
				}
			}
			if low == 0 {
				return 0, false
			}
			below := &sorted[low-1]
			offset := q.address - below.remote
			return below.local + offset, offset < size
		},
		func(q *query) (uint64, bool) {
			for _, i := range granules[q.address>>shift] {
				if i == 0 {
					break
				}
				if offset := q.address - at[i-1].remote; offset < size {
					return at[i-1].local + offset, true
				}
			}
			return 0, false
		},
		func(q *query) (uint64, bool) {
			if q.segment >= uint64(len(at)) || q.offset >= size {
				return 0, false
			}
			return at[q.segment].local + q.offset, true
		},
	}
}

// lookup measures the ways to find the segment that holds an address. The baseline is a linear scan
// over the ranges, which the document describes.
func (b *bench) lookup() error {
	for _, count := range b.Segments {
		random := rand.New(rand.NewPCG(uint64(count), 1))
		list := drawSegments(count, uint64(b.SegmentSize), random)
		names, find := list.finders()
		for _, hit := range []bool{true, false} {
			outcome := "miss"
			if hit {
				outcome = "hit"
			}
			name := func(way string) string {
				return fmt.Sprintf("lookup/%s/%d/%s", way, count,
					outcome)
			}
			queries := list.queries(hit, random)
			for i, way := range names {
				t, err := b.find(find[i], queries)
				if err != nil {
					return fmt.Errorf("%s: %w", name(way), err)
				}
				m := transport.Measurement{Name: name(way), Samples: len(t) * lookupBatch,
					Latency: t.quantile(0.5)}
				if i > 0 {
					m.Baseline = name(names[0])
				}
				if err := b.report(m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// find makes lookups and checks every answer. A batch is timed together, because one may take less
// than a reading of the clock.
func (b *bench) find(find finder, queries []query) (times, error) {
	next := 0
	return b.repeat(lookupBatch, func() error {
		q := &queries[next]
		if next++; next == len(queries) {
			next = 0
		}
		return q.check(find(q))
	})
}
