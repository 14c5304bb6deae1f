package kv

import (
	"encoding/binary"
	"math/bits"
)

// Keys 0 to R*n-1 are spread over R ranks so that each owns n of them. Every rank owns one key of
// each block of R consecutive keys; the block's hash rotates their order. So the owner of a key,
// and the key of a block that a given rank owns, need no table, and no rank owns every R-th key.
// [DaemonOf] spreads the keys of a rank over its daemons, with another hash.

// RankOf returns the rank, 0 to ranks-1, that owns a key. ranks must be at least 1.
func RankOf(key uint64, ranks int) int {
	n := uint64(ranks)
	block := key / n
	rank := key - block*n + rotation(block, n)
	if rank >= n {
		rank -= n
	}
	return int(rank)
}

// OnRank returns the key that a rank owns in the block of key, which is key itself if the rank owns
// it. It is a bijection between the keys of any two ranks.
func OnRank(key uint64, rank, ranks int) uint64 {
	n := uint64(ranks)
	block := key / n
	offset := uint64(rank) + n - rotation(block, n)
	if offset >= n {
		offset -= n
	}
	return block*n + offset
}

// rotation returns the rank that owns the first key of a block. It mixes twice: after one mix, the
// rotations of consecutive blocks differ by nearly constant steps.
func rotation(block, ranks uint64) uint64 {
	first, _ := bits.Mul64(mix(mix(block^seedB, seedC)^seedD, seedA), ranks)
	return first
}

// DaemonOf returns the daemon, 0 to daemons-1, that serves a key. daemons must be at least 1. Every
// daemon owns about the same number of keys. The hash is not the store's, so that one daemon's keys
// spread over all buckets of its store.
func DaemonOf(key uint64, daemons int) int {
	daemon, _ := bits.Mul64(mix(key^seedC, seedD), uint64(daemons))
	return int(daemon)
}

// KeyOf returns the key of a request; ok is false if the request is shorter than a header.
func KeyOf(request []byte) (key uint64, ok bool) {
	if len(request) < HeaderSize {
		return 0, false
	}
	return binary.LittleEndian.Uint64(request) >> 8, true
}
