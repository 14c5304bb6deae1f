package workload

import (
	"math/bits"
	"slices"

	"transportbench/core/base/config"
)

// Op is the operation of a request.
type Op uint8

// The operations, in the order of [config.OpNames].
const (
	Read   Op = iota // read the entry of a key
	Write            // write a new value of a key
	Lookup           // read an entry's header: whether it exists, and its version
	Insert           // write a value of the next key in the client's own sequence
	// ReadModifyWrite is a read and, on its response, a write of the same key. It counts as one
	// operation, with the latency of both.
	ReadModifyWrite

	// NumOps is the number of operations.
	NumOps = iota
)

func (o Op) String() string { return config.OpNames()[o] }

// Writes reports whether the request has a value.
func (o Op) Writes() bool { return o.writes() != 0 }

// writes returns 1 if the request has a value, else 0.
func (o Op) writes() int {
	return (1<<Write | 1<<Insert | 1<<ReadModifyWrite) >> (o & 7) & 1
}

// ops draws operations from a mix or steps through a pattern.
type ops struct {
	// bounds divide 0..2^63 into the shares of the operations: bounds[i] is the upper end of
	// operation i, and the last operation has the rest. They have one bit less than a draw, so
	// that a share of 1 has a bound too.
	bounds [NumOps - 1]uint64
	cycle  []Op // one iteration of the pattern; nil for a mix
	at     int
}

// PatternStart returns the number of the operation of the pattern that a client begins with.
// Clients begin at different places of the pattern, because clients that begin at the same one send
// their reads together, and stay in step.
func PatternStart(cfg *config.Config, client int) int {
	return client % cfg.TotalClients() * cfg.Pattern.Len() / cfg.TotalClients()
}

func newOps(cfg *config.Config, client int) ops {
	if len(cfg.Pattern) > 0 {
		o := ops{at: PatternStart(cfg, client)}
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

// cut turns shares into bounds. The last operation with a share also gets the rounding error,
// so that an operation without a share is never drawn.
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

// step returns the next operation of the pattern.
func (o *ops) step() Op {
	op := o.cycle[o.at]
	if o.at++; o.at == len(o.cycle) {
		o.at = 0
	}
	return op
}

// pick turns a draw into an operation. It does not branch on the draw, because the branch would
// be unpredictable.
func (o *ops) pick(x uint64) Op {
	_, a := bits.Sub64(x>>1, o.bounds[0], 0)
	_, b := bits.Sub64(x>>1, o.bounds[1], 0)
	_, c := bits.Sub64(x>>1, o.bounds[2], 0)
	_, d := bits.Sub64(x>>1, o.bounds[3], 0)
	return Op(NumOps - 1 - (a + b + c + d))
}
