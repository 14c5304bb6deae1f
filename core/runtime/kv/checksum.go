package kv

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Constants without structure: the fractions of square roots, made odd.
const (
	seedA = 0x6a09e667f3bcc909 // 2
	seedB = 0xbb67ae8584caa73b // 3
	seedC = 0x3c6ef372fe94f82b // 5
	seedD = 0xa54ff53a5f1d36f1 // 7
)

// inlineUpTo is the largest value that is summed here; xxhash does the longer
// ones. xxhash.Sum64 takes 5.8 ns for 32 bytes, where the products below take
// 2.5; the two meet between 512 and 1024 bytes, and from there on xxhash's
// assembly is the faster.
const inlineUpTo = 512

// checksum is 32 bits over a value and the key that it belongs to. It is
// against accidents: whoever wants to can make a value to fit.
func checksum(value []byte, key uint64) uint32 {
	a, b := key^seedA, uint64(len(value))^seedB
	if len(value) > inlineUpTo {
		return uint32(mix(a^xxhash.Sum64(value), b))
	}
	// Two chains, which the processor overlaps.
	for len(value) >= 32 {
		a = mix(a^word(value), word(value[8:])^seedC)
		b = mix(b^word(value[16:]), word(value[24:])^seedD)
		value = value[32:]
	}
	if len(value) > 0 {
		a, b = foldTail(value, a, b)
	}
	return uint32(mix(a^seedC, b^seedD))
}

// foldTail takes the last 1 to 31 bytes.
func foldTail(value []byte, a, b uint64) (uint64, uint64) {
	for len(value) >= 8 {
		a, b = b, mix(a^word(value), seedC)
		value = value[8:]
	}
	tail := uint64(0)
	for i, octet := range value {
		tail |= uint64(octet) << (8 * i)
	}
	return a, b ^ tail
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// mix folds a product of 128 bits, so that high bits of the factors reach the
// low ones of the result too.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
