package shmperf

import (
	"fmt"
	"math/rand/v2"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm/index"
	"transportbench/core/transport"
)

// lookupCounts are the numbers of buffers among which one is found.
var lookupCounts = []int{10, 100, 1000, 10_000, 100_000, 1_000_000}

const (
	lookupBatch  = 64
	lookupDraws  = 1 << 16 // lookups that are drawn before they are made
	bufferSize   = 64 << 20
	sharedLookup = "shared-hash"
)

// bufferName returns a name. All have the same length, so that a name that is missing differs only
// in its bytes.
func bufferName(i int) string { return fmt.Sprintf("segment/%07d", i) }

// A query is a lookup with its answer.
type query struct {
	name   string
	number int // for arithmetic
	offset uint64
	found  bool
}

// drawQueries draws buffers that are there, or some that are not.
func drawQueries(count int, hit bool) []query {
	random := rand.New(rand.NewPCG(uint64(count), 1))
	list := make([]query, min(lookupDraws, 4*count))
	for i := range list {
		n := random.IntN(count)
		q := query{name: bufferName(n), number: n, offset: uint64(n) * bufferSize, found: hit}
		if !hit {
			q = query{name: bufferName(count + n), number: count + n}
		}
		list[i] = q
	}
	return list
}

// check returns an error if an answer is wrong.
func (q *query) check(offset uint64, found bool) error {
	if found != q.found || found && offset != q.offset {
		return fmt.Errorf("%s: got offset %d (found: %t), want %d (found: %t)", q.name, offset,
			found, q.offset, q.found)
	}
	return nil
}

// finder finds the offset of a buffer.
type finder func(q *query) (offset uint64, found bool)

// finders returns the ways to find one of count buffers within a process, by name.
func finders(count int) ([]string, []finder) {
	type entry struct {
		name   string
		offset uint64
	}
	list, table := make([]entry, count), make(map[string]uint64, count)
	for i := range list {
		list[i] = entry{bufferName(i), uint64(i) * bufferSize}
		table[list[i].name] = list[i].offset
	}
	return []string{"linear", "map", "arithmetic"}, []finder{
		func(q *query) (uint64, bool) {
			for i := range list {
				if list[i].name == q.name {
					return list[i].offset, true
				}
			}
			return 0, false
		},
		func(q *query) (uint64, bool) { offset, found := table[q.name]; return offset, found },
		func(q *query) (uint64, bool) {
			return uint64(q.number) * bufferSize,
				uint(q.number) < uint(count)
		},
	}
}

// lookup measures the ways to find a buffer. The baseline is a linear scan, as it is in the
// document.
func (b *bench) lookup() error {
	for _, count := range lookupCounts {
		names, find := finders(count)
		for _, hit := range []bool{true, false} {
			name := func(way string) string {
				if hit {
					return fmt.Sprintf("lookup/%s/%d/hit", way, count)
				}
				return fmt.Sprintf("lookup/%s/%d/miss", way, count)
			}
			queries := drawQueries(count, hit)
			for i, way := range names {
				t, err := b.find(find[i], queries, count)
				if err != nil {
					return fmt.Errorf("%s: %w", name(way), err)
				}
				m := transport.Measurement{Name: name(way), Samples: t.samples, Latency: t.median}
				if i > 0 {
					m.Baseline = name(names[0])
				}
				if err := b.report(m); err != nil {
					return err
				}
			}
			j := job{Work: "lookup", Variant: "miss", Nodes: 2, Count: count,
				Body: index.Bytes(count)}
			if hit {
				j.Variant = "hit"
			}
			o, err := b.team(j, processes)
			if err != nil {
				return fmt.Errorf("%s: %w", name(sharedLookup), err)
			}
			m := transport.Measurement{Name: name(sharedLookup), Samples: o.samples,
				Latency: floor.Median(o.latencies), Baseline: name(names[0])}
			if err := b.report(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// found is the outcome of lookups.
type found struct {
	median  float64
	samples int
}

// find makes lookups, as many together as take some time, and checks every answer.
func (b *bench) find(find finder, queries []query, count int) (found, error) {
	batch := lookupBatch
	if count > 10_000 {
		batch = 1 // a scan takes long
	}
	// Lookups that take less than a reading of the clock are timed together, whatever the count.
	next := 0
	one := func() error {
		q := &queries[next]
		if next++; next == len(queries) {
			next = 0
		}
		return q.check(find(q))
	}
	if batch == 1 {
		before := time.Now()
		for range 4 {
			if err := one(); err != nil {
				return found{}, err
			}
		}
		if time.Since(before) < 40*time.Microsecond {
			batch = lookupBatch
		}
	}
	t, err := b.repeat(batch, one)
	return found{t.quantile(0.5), len(t) * batch}, err
}

// lookups is the work of two nodes: node 1 writes an index, and node 0 reads it.
func (n *node) lookups() error {
	x, err := index.New(n.body, n.Count)
	if err != nil {
		return err
	}
	if n.Node != 0 {
		for i := range n.Count {
			if err := x.Put(bufferName(i), uint64(i)*bufferSize); err != nil {
				return err
			}
		}
		if err := n.join(); err != nil {
			return err
		}
		for n.phase.Load() != over {
			n.idle()
		}
		return nil
	}
	queries := drawQueries(n.Count, n.Variant == "hit")
	if err := n.join(); err != nil { // the index is written
		return err
	}
	next, done := 0, uint64(0)
	return n.window(func() (uint64, error) {
		before := time.Now()
		for range lookupBatch {
			q := &queries[next]
			if next++; next == len(queries) {
				next = 0
			}
			if err := q.check(x.Get(q.name)); err != nil {
				return 0, err
			}
		}
		if done += lookupBatch; n.phase.Load() == measuring {
			n.latencies = append(n.latencies, float64(time.Since(before))/lookupBatch)
		}
		return done, nil
	})
}
