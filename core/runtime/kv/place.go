package kv

import (
	"encoding/binary"
	"math/bits"
)

// Keys 0 to R*n-1 are spread over R ranks so that each has n. They come in
// blocks of R consecutive keys, of which every rank owns one: the block's hash
// rotates who begins. So the owner of a key, and the key of its block that a
// given rank owns, follow without a table, and no rank owns a stride of the
// keys. Among a rank's daemons [Owner] decides, by another hash.

// RankOf returns which of the ranks, 0 to ranks-1, owns a key; there must be
// one at least.
func RankOf(key uint64, ranks int) int {
	n := uint64(ranks)
	block := key / n
	rank := key - block*n + rotation(block, n)
	if rank >= n {
		rank -= n
	}
	return int(rank)
}

// OnRank returns the key that a rank owns among those of key's block: key
// itself where the rank owns that. It maps the keys of any one rank to those of
// any other one to one.
func OnRank(key uint64, rank, ranks int) uint64 {
	n := uint64(ranks)
	block := key / n
	offset := uint64(rank) + n - rotation(block, n)
	if offset >= n {
		offset -= n
	}
	return block*n + offset
}

// rotation is the rank that owns the first key of a block. Mixed only once,
// consecutive blocks would be rotated by nearly constant steps.
func rotation(block, ranks uint64) uint64 {
	first, _ := bits.Mul64(mix(mix(block^seedB, seedC)^seedD, seedA), ranks)
	return first
}

// Owner returns which of the daemons, 0 to daemons-1, serves a key; there must
// be one at least. Every daemon owns about as many keys as any other. It goes by
// another hash than the store's, so that one daemon's keys still spread over
// all of its slots.
func Owner(key uint64, daemons int) int {
	owner, _ := bits.Mul64(mix(key^seedC, seedD), uint64(daemons))
	return int(owner)
}

// KeyOf returns the key that a request is about; ok is false for one that is
// shorter than a header.
func KeyOf(request []byte) (key uint64, ok bool) {
	if len(request) < HeaderSize {
		return 0, false
	}
	return binary.LittleEndian.Uint64(request) >> 8, true
}
