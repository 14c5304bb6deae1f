package workload

import (
	"math"
	"math/bits"

	"transportbench/core/base/config"
)

type distribution uint8

const (
	uniform distribution = iota
	zipfianScrambled
	hotspot
	latest
	sequential
)

// keys draws the keys of one client and generates the sequence of its insertions.
// Distributions draw an index; where neighbouring indices are hot together, a permutation
// turns the index into a key.
type keys struct {
	distribution distribution
	n            uint64
	scramble     permutation // zipfian, hotspot and latest
	zipfian      *zipfian    // zipfian and latest

	hot      uint64 // indices below it are hot
	hotBelow uint64 // share of the requests for hot keys, as a fraction of 2^63

	inserted uint64 // index of the last insertion
	step     uint64 // distance between the client's insertions
	next     uint64 // index of the next key of sequential
}

func newKeys(cfg *config.Config, client int) keys {
	n, clients := uint64(cfg.TotalKeys()), uint64(cfg.TotalClients())
	k := keys{
		n: n, step: clients % n,
		inserted: (uint64(client)%n + n - clients%n) % n,
		next:     start(n, uint64(client)%clients, clients),
	}
	switch cfg.Distribution {
	case config.DistributionUniform:
	case config.DistributionSequential:
		k.distribution = sequential
	case config.DistributionZipfian:
		k.distribution, k.zipfian, k.scramble = zipfianScrambled, newZipfian(n, cfg.Theta),
			newPermutation(n)
	case config.DistributionLatest:
		k.distribution, k.zipfian, k.scramble = latest, newZipfian(n, cfg.Theta), newPermutation(n)
	case config.DistributionHotspot:
		k.distribution, k.scramble = hotspot, newPermutation(n)
		k.hot = min(max(uint64(math.Round(cfg.HotKeys*float64(n))), 1), max(n, 2)-1)
		k.hotBelow = uint64(cfg.HotShare * (1 << 63))
		if n == 1 { // the only key is hot
			k.hotBelow = 1 << 63
		}
	default:
		panic("workload: no distribution " + cfg.Distribution)
	}
	return k
}

// start returns the first key of a client's own stretch of the keys.
func start(n, client, clients uint64) uint64 {
	high, low := bits.Mul64(n, client)
	at, _ := bits.Div64(high, low, clients)
	return at
}

// draw returns the key of a request other than an insertion.
func (k *keys) draw(random *random) uint64 {
	switch k.distribution {
	case zipfianScrambled:
		return k.scramble.apply(k.zipfian.next(random))
	case hotspot:
		base, width := k.hot, k.n-k.hot
		if random.next()>>1 < k.hotBelow {
			base, width = 0, k.hot
		}
		offset, _ := bits.Mul64(random.next(), width)
		return k.scramble.apply(base + offset)
	case latest:
		age := k.zipfian.next(random)
		index, before := bits.Sub64(k.inserted, age, 0)
		return k.scramble.apply(index + k.n&-before)
	case sequential:
		key := k.next
		if k.next++; k.next == k.n {
			k.next = 0
		}
		return key
	default:
		key, _ := bits.Mul64(random.next(), k.n)
		return key
	}
}

// insert returns the key of the client's next insertion.
func (k *keys) insert() uint64 {
	if k.inserted += k.step; k.inserted >= k.n {
		k.inserted -= k.n
	}
	if k.distribution == uniform || k.distribution == sequential {
		return k.inserted
	}
	return k.scramble.apply(k.inserted)
}

// permutation is a fixed bijection of 0..n-1 onto itself, which scrambles indices.
//
// It applies a bijection of the next power of two again while the result is n or more (cycle
// walking): less than once more on average, and never if n is a power of two.
type permutation struct {
	n, mask uint64
	shift   uint
}

func newPermutation(n uint64) permutation {
	width := uint(bits.Len64(n - 1))
	return permutation{n: n, mask: 1<<width - 1, shift: (width + 1) / 2}
}

// apply takes x below n.
func (p permutation) apply(x uint64) uint64 {
	for {
		// Each step is invertible modulo the power of two: a product with an odd number, a
		// sum, and an exclusive or with the higher bits.
		x = (x*0xd1342543de82ef95 + 0x9e3779b97f4a7c15) & p.mask
		x ^= x >> (p.shift & 63)
		x = x * 0xda942042e4dd58b5 & p.mask
		x ^= x >> (p.shift & 63)
		if x < p.n {
			return x
		}
	}
}
