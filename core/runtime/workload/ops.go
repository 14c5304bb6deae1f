package workload

import (
	"math/bits"
	"slices"

	"transportbench/core/base/config"
)

// Op is what a request asks for.
type Op uint8

// The operations, in the order of [config.OpNames].
const (
	Read   Op = iota // the entry of a key
	Write            // a new value for a key
	Lookup           // an entry's header: whether it is there, and its version
	Insert           // a new value for the next key of the client's own sequence
	// ReadModifyWrite is a read, and on its response a write of the same key.
	// It is one request, and its latency that of both.
	ReadModifyWrite

	// NumOps sizes an array with an element for each.
	NumOps = iota
)

func (o Op) String() string { return config.OpNames()[o] }

// Writes says whether a value is sent.
func (o Op) Writes() bool { return o.writes() != 0 }

// writes is 1 where a value is sent, else 0.
func (o Op) writes() int {
	return (1<<Write | 1<<Insert | 1<<ReadModifyWrite) >> (o & 7) & 1
}

// ops draws operations, or goes through a pattern of them.
type ops struct {
	// bounds cut 0..2^63 into the shares of the operations: bounds[i] is the
	// upper end of operation i, and the last operation has the rest. They have
	// one bit less than a draw, so that all of them is a number too.
	bounds [NumOps - 1]uint64
	cycle  []Op // of the pattern; nil for draws
	at     int
}

func newOps(cfg *config.Config) ops {
	if len(cfg.Pattern) > 0 {
		o := ops{}
		for _, c := range cfg.Pattern {
			o.cycle = append(o.cycle, slices.Repeat([]Op{opNamed(c.Op)}, c.Count)...)
		}
		return o
	}
	var shares [NumOps]float64
	shares[Read], shares[Write] = cfg.ReadRatio, 1-cfg.ReadRatio
	if len(cfg.Mix) > 0 {
		shares = [NumOps]float64{}
		for _, s := range cfg.Mix {
			shares[opNamed(s.Op)] = s.Share
		}
	}
	return ops{bounds: cut(shares)}
}

// cut turns shares into bounds. What rounding leaves over is the last
// operation's that has a share at all, so that none is drawn that has none.
func cut(shares [NumOps]float64) (bounds [NumOps - 1]uint64) {
	last := NumOps - 1
	for shares[last] == 0 {
		last--
	}
	sum := 0.0
	for i := range bounds {
		sum += shares[i]
		bounds[i] = uint64(min(sum, 1) * (1 << 63))
		if i >= last {
			bounds[i] = 1 << 63
		}
	}
	return bounds
}

func opNamed(name string) Op { return Op(slices.Index(config.OpNames(), name)) }

// step returns the next operation of the pattern, and whether it ends an
// iteration.
func (o *ops) step() (op Op, last bool) {
	op = o.cycle[o.at]
	if o.at++; o.at == len(o.cycle) {
		o.at = 0
		last = true
	}
	return op, last
}

// pick turns a draw into an operation, without a branch on what was drawn,
// which nothing could predict.
func (o *ops) pick(x uint64) Op {
	_, a := bits.Sub64(x>>1, o.bounds[0], 0)
	_, b := bits.Sub64(x>>1, o.bounds[1], 0)
	_, c := bits.Sub64(x>>1, o.bounds[2], 0)
	_, d := bits.Sub64(x>>1, o.bounds[3], 0)
	return Op(NumOps - 1 - (a + b + c + d))
}
