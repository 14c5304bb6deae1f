package kv

import (
	"encoding/binary"

	"transportbench/core/base/config"
)

// HeaderSize is the size of a message without its value, in bytes.
const HeaderSize = config.MessageHeader

// MaxKey is the largest key: the header has 56 bits for it.
const MaxKey = 1<<56 - 1

// The low byte of a request's first word.
const (
	opGet    = 1
	opPut    = 2
	opLookup = 3
)

// The low byte of a response's first word.
const (
	statusOK      = 0 // not to be changed: an entry in the store carries it
	statusMissing = 1 // no such key
	statusBad     = 2 // not a request, or a value larger than the store takes
	statusCorrupt = 3 // the value does not fit its checksum
)

// EncodeGet writes a GET of key to the start of dst and returns that part of
// it. dst must have a capacity of HeaderSize; its contents do not matter. The
// key must not exceed [MaxKey].
func EncodeGet(dst []byte, key uint64) []byte {
	dst = dst[:HeaderSize]
	putHeader(dst, key<<8|opGet, 0, 0)
	return dst
}

// EncodeLookup writes a LOOKUP of key to the start of dst and returns that part
// of it. dst must have a capacity of HeaderSize; its contents do not matter. The
// key must not exceed [MaxKey].
func EncodeLookup(dst []byte, key uint64) []byte {
	dst = dst[:HeaderSize]
	putHeader(dst, key<<8|opLookup, 0, 0)
	return dst
}

// IsGet says whether a request, which must have a header, asks for a GET.
func IsGet(request []byte) bool { return request[0] == opGet }

// EncodePut writes a PUT of key with a value of size bytes to the start of dst
// and returns that part of it. dst must have a capacity of HeaderSize+size; its
// contents do not matter. The key must not exceed [MaxKey].
//
// The value follows from key and nonce. Under another nonce its words are
// others, and within a value no two are alike, so that lost, repeated and stale
// parts show in the checksum.
func EncodePut(dst []byte, key uint64, size int, nonce uint64) []byte {
	dst = dst[:HeaderSize+size]
	value := dst[HeaderSize:]
	fill(value, mix(key^seedA, nonce^seedB))
	putHeader(dst, key<<8|opPut, 0, checksum(value, key))
	return dst
}

func putHeader(dst []byte, word uint64, version, sum uint32) {
	_ = dst[HeaderSize-1]
	binary.LittleEndian.PutUint64(dst, word)
	binary.LittleEndian.PutUint64(dst[8:], uint64(sum)<<32|uint64(version))
}

// fill writes words that start at seed and step by an odd number.
func fill(dst []byte, seed uint64) {
	for len(dst) >= 32 {
		binary.LittleEndian.PutUint64(dst, seed)
		binary.LittleEndian.PutUint64(dst[8:], seed+fillStep)
		binary.LittleEndian.PutUint64(dst[16:], seed+2*fillStep)
		binary.LittleEndian.PutUint64(dst[24:], seed+3*fillStep)
		seed += 4 * fillStep
		dst = dst[32:]
	}
	if len(dst) > 0 {
		fillTail(dst, seed)
	}
}

// fillTail writes the last 1 to 31 bytes.
func fillTail(dst []byte, seed uint64) {
	for i := range dst {
		dst[i] = byte((seed + uint64(i/8)*fillStep) >> (i % 8 * 8))
	}
}

// fillStep is odd, and four times it fits a constant of 64 bits.
const fillStep = 0x1e3779b97f4a7c15
