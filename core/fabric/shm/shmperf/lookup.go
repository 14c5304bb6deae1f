package shmperf

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"transportbench/core/transport"
)

// lookupCounts are the numbers of segments among which the one that holds an address is found.
var lookupCounts = []int{1, 10, 100, 1000, 10_000}

const (
	lookupBatch = 64
	lookupDraws = 1 << 16 // lookups that are drawn before they are made
	pageSize    = 4 << 10
	segmentSize = 64 << 20
	// highest is where mmap begins to place mappings: right below the stack.
	highest = 0x7fff_f7ff_f000
)

// segments are mappings of another process: where each begins there and here. As mmap does, they go
// down from the stack, with gaps where something else is mapped. They are in the order in which
// they were registered, which says nothing about their addresses.
type segments []struct{ remote, local uint64 }

func drawSegments(count int, random *rand.Rand) segments {
	list := make(segments, count)
	remote, local := uint64(highest), uint64(highest)
	for i := range list {
		gap := func() uint64 {
			return segmentSize +
				pageSize*(1+random.Uint64N(2*segmentSize/pageSize))
		}
		remote -= gap()
		local -= gap()
		list[i].remote, list[i].local = remote, local
	}
	random.Shuffle(count, func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
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
	list := make([]query, min(lookupDraws, max(1024, 4*len(s))))
	for i := range list {
		n, offset := random.IntN(len(s)), random.Uint64N(segmentSize)
		q := query{s[n].remote + offset, uint64(n), offset, s[n].local + offset, true}
		if !hit {
			q = query{address: s[n].remote + segmentSize + offset%pageSize,
				segment: uint64(n), offset: segmentSize + offset}
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

// A descriptor is as large as that of a buffer in Mooncake, with its two names and lists of keys,
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
	sorted := slices.Clone(s)
	slices.SortFunc(sorted, func(a, b struct{ remote, local uint64 }) int {
		return int(int64(a.remote) - int64(b.remote))
	})
	// A segment lies in two granules of its size at most, and a granule has parts of two.
	granules := make(map[uint64][2]uint32, 2*len(s)) // indices from 1
	for i := range s {
		for _, g := range []uint64{s[i].remote / segmentSize, (s[i].remote + segmentSize - 1) /
			segmentSize} {
			in := granules[g]
			if in[0] == 0 || in[0] == uint32(i+1) {
				in[0] = uint32(i + 1)
			} else {
				in[1] = uint32(i + 1)
			}
			granules[g] = in
		}
	}
	descriptors := make([]descriptor, len(s))
	for i := range s {
		descriptors[i] = descriptor{name: "segment", start: s[i].remote, length: segmentSize,
			local: s[i].local}
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
			at := &sorted[low-1]
			offset := q.address - at.remote
			return at.local + offset, offset < segmentSize
		},
		func(q *query) (uint64, bool) {
			for _, i := range granules[q.address/segmentSize] {
				if i == 0 {
					break
				}
				if offset := q.address - s[i-1].remote; offset < segmentSize {
					return s[i-1].local + offset, true
				}
			}
			return 0, false
		},
		func(q *query) (uint64, bool) {
			if q.segment >= uint64(len(s)) || q.offset >= segmentSize {
				return 0, false
			}
			return s[q.segment].local + q.offset, true
		},
	}
}

// lookup measures the ways to find the segment that holds an address. The baseline is a linear scan
// over the ranges, which the document describes.
func (b *bench) lookup() error {
	for _, count := range lookupCounts {
		random := rand.New(rand.NewPCG(uint64(count), 1))
		list := drawSegments(count, random)
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
