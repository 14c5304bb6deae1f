package workload

import (
	"fmt"
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

// keys draws the keys of one client, and has the sequence of those that it
// inserts. Distributions draw an index; for those that make neighbours hot
// together a permutation turns it into a key.
type keys struct {
	distribution distribution
	n            uint64
	scramble     permutation // of zipfian, hotspot and latest
	zipfian      *zipfian    // of zipfian and latest

	hot      uint64 // indices below it are hot
	hotBelow uint64 // share of the requests for them, as a fraction of 2^63

	// The indices of the last key inserted and of the next in sequence, and
	// how far apart a client's insertions are.
	inserted, next, step uint64
}

func newKeys(cfg *config.Config, client int) (keys, error) {
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
		k.distribution, k.zipfian, k.scramble = zipfianScrambled, newZipfian(n, cfg.Theta), newPermutation(n)
	case config.DistributionLatest:
		k.distribution, k.zipfian, k.scramble = latest, newZipfian(n, cfg.Theta), newPermutation(n)
	case config.DistributionHotspot:
		k.distribution, k.scramble = hotspot, newPermutation(n)
		k.hot = min(max(uint64(math.Round(cfg.HotKeys*float64(n))), 1), max(n, 2)-1)
		k.hotBelow = uint64(cfg.HotShare * (1 << 63))
		if n == 1 { // which is hot
			k.hotBelow = 1 << 63
		}
	default:
		return k, fmt.Errorf("workload: distribution %q is not built in", cfg.Distribution)
	}
	return k, nil
}

// start is where a client begins to walk: the keys are cut into a stretch for
// each.
func start(n, client, clients uint64) uint64 {
	high, low := bits.Mul64(n, client)
	at, _ := bits.Div64(high, low, clients)
	return at
}

// draw returns the key of a request that is not an insertion.
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
