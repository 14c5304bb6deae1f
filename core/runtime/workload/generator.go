package workload

import (
	"math/bits"

	"transportbench/core/base/config"
)

// Request is the next operation of a client.
type Request struct {
	Key  uint64 // 0 to Config.TotalKeys()-1
	Size int    // bytes of the value to write; 0 if Op writes none
	Op   Op
}

// Generator draws the requests of one client. It belongs to one thread; Next does not lock or
// allocate.
type Generator struct {
	random random
	path   path
	// rest draws where the path is neither uniform nor zipfian: general, or the next request of a
	// stream.
	rest func(*Request)
	// readBelow, size and n serve the common configurations: reads and writes of values of one
	// size, over keys that are drawn uniformly or by zipfian.
	readBelow uint64 // share of reads, as a fraction of 2^63; see ops
	size      int
	n         uint64 // keys
	keys      keys
	ops       ops
	sizes     Sizes
}

// path is how a generator draws. The common configurations have faster paths.
type path uint8

const (
	pathUniform path = iota // a single draw
	pathZipfian
	pathGeneral
)

// New returns the generator of one client. cfg must be valid ([config.Config.Validate]). client
// is the client's number among the clients of all ranks, from 0; no two clients draw the same
// requests.
func New(cfg config.Config, client int) *Generator {
	g := &Generator{
		random:    newRandom(cfg.Seed, client),
		path:      pathOf(&cfg),
		readBelow: uint64(cfg.ReadRatio * (1 << 63)),
		size:      cfg.ValueSize.Max(),
		n:         uint64(cfg.TotalKeys()),
		keys:      newKeys(&cfg, client),
		ops:       newOps(&cfg, client),
		sizes:     *NewSizes(cfg.ValueSize),
	}
	g.rest = g.general
	return g
}

// Replay makes g return the requests of a stream.
func (g *Generator) Replay(s *Stream) { g.path, g.rest = pathGeneral, s.Next }

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
func (g *Generator) Next(r *Request) {
	if g.path != pathUniform {
		g.next(r)
		return
	}
	// Lemire's multiplication: the high half is the key, with a bias of keys/2^64. The low half
	// is the rest of the draw, uniform and independent of the key.
	key, rest := bits.Mul64(g.random.next(), g.n)
	g.readOrWrite(r, key, rest)
}

// readOrWrite does not branch on the draw x, because the branch would be unpredictable.
func (g *Generator) readOrWrite(r *Request, key, x uint64) {
	_, read := bits.Sub64(x>>1, g.readBelow, 0)
	r.Key = key
	r.Size = g.size & (int(read) - 1)
	r.Op = Op(1 - read)
}

func (g *Generator) next(r *Request) {
	if g.path == pathZipfian {
		key := g.keys.scramble.apply(g.keys.zipfian.next(&g.random))
		g.readOrWrite(r, key, g.random.next())
		return
	}
	g.rest(r)
}

// general is Next for every configuration.
func (g *Generator) general(r *Request) {
	var op Op
	if g.ops.cycle != nil {
		op = g.ops.step()
	} else {
		op = g.ops.pick(g.random.next())
	}
	if op == Insert {
		r.Key = g.keys.insert()
	} else {
		r.Key = g.keys.draw(&g.random)
	}
	size := g.size
	if g.sizes.vary() {
		size = g.sizes.of(g.random.next())
	}
	r.Size = size & -op.writes()
	r.Op = op
}
