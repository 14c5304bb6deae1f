package workload

import (
	"fmt"
	"math/bits"

	"transportbench/core/base/config"
)

// Request is what a client is to do next.
type Request struct {
	Key  uint64 // from 0 to Config.TotalKeys()-1
	Size int    // bytes of the value to write; 0 where Op writes none
	Op   Op
	// Last says that the request ends an iteration of Config.Pattern. Without
	// a pattern there are none.
	Last bool
}

// Source draws the requests of one client. It belongs to one thread; Next
// neither locks nor allocates.
type Source struct {
	random random
	path   path
	// The common cases, keys that are read or written with values of one
	// size, take a path of their own.
	readBelow uint64 // share of reads, as a fraction of 2^63; see ops
	size      int
	n         uint64 // keys
	keys      keys
	ops       ops
	sizes     Sizes
}

// path is the way that a source draws.
type path uint8

const (
	pathUniform path = iota // a single draw
	pathZipfian
	pathGeneral
)

// New returns the source of one client of a run. The client's number, from 0,
// counts the clients of all ranks, so that no two draw the same stream. The
// error is a [config.Error] for an option that is out of bounds.
func New(cfg config.Config, client int) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	if client < 0 {
		return nil, fmt.Errorf("workload: client %d is negative: number clients from 0", client)
	}
	s := &Source{
		random:    newRandom(cfg.Seed, client),
		path:      pathOf(&cfg),
		readBelow: uint64(cfg.ReadRatio * (1 << 63)),
		size:      cfg.ValueSize.Max(),
		n:         uint64(cfg.TotalKeys()),
		ops:       newOps(&cfg),
		sizes:     *NewSizes(cfg.ValueSize),
	}
	var err error
	s.keys, err = newKeys(&cfg, client)
	return s, err
}

func pathOf(cfg *config.Config) path {
	switch {
	case !cfg.ValueSize.Fixed() || len(cfg.Mix) > 0 || len(cfg.Pattern) > 0:
		return pathGeneral
	case cfg.Distribution == config.DistributionUniform:
		return pathUniform
	case cfg.Distribution == config.DistributionZipfian:
		return pathZipfian
	default:
		return pathGeneral
	}
}

// Next writes the next request to r, which stays the caller's.
func (s *Source) Next(r *Request) {
	if s.path != pathUniform {
		s.next(r)
		return
	}
	// Lemire's multiplication: the high half is the key, with a bias of
	// keys/2^64, and the low half is what the key leaves of the draw, uniform
	// and independent of it.
	key, rest := bits.Mul64(s.random.next(), s.n)
	s.readOrWrite(r, key, rest)
}

// readOrWrite does not branch on the draw x: nothing could predict it.
func (s *Source) readOrWrite(r *Request, key, x uint64) {
	_, read := bits.Sub64(x>>1, s.readBelow, 0)
	r.Key = key
	r.Size = s.size & (int(read) - 1)
	r.Op = Op(1 - read)
	r.Last = false
}

func (s *Source) next(r *Request) {
	if s.path == pathZipfian {
		key := s.keys.scramble.apply(s.keys.zipfian.next(&s.random))
		s.readOrWrite(r, key, s.random.next())
		return
	}
	s.general(r)
}

// general is Next for any configuration.
func (s *Source) general(r *Request) {
	var op Op
	var last bool
	if s.ops.cycle != nil {
		op, last = s.ops.step()
	} else {
		op = s.ops.pick(s.random.next())
	}
	if op == Insert {
		r.Key = s.keys.insert()
	} else {
		r.Key = s.keys.draw(&s.random)
	}
	size := s.size
	if s.sizes.vary() {
		size = s.sizes.of(s.random.next())
	}
	r.Size = size & -op.writes()
	r.Op = op
	r.Last = last
}
