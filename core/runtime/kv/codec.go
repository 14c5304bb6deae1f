package kv

import (
	"encoding/binary"

	"transportbench/core/base/config"
)

// HeaderSize is the size in bytes of a message without its value.
const HeaderSize = config.MessageHeader

// MaxKey is the largest key; the header has 56 bits for it.
const MaxKey = 1<<56 - 1

// The low byte of a request's first word.
const (
	opGet    = 1
	opPut    = 2
	opLookup = 3
	opEcho   = 4 // differs from every status, because it is in the response
)

// The low byte of a response's first word.
const (
	statusOK      = 0 // must be 0, because it is in the header of every entry
	statusMissing = 1 // no such key
	statusBad     = 2 // not a valid request, or a value too large for the store
	statusCorrupt = 3 // wrong checksum
)

// EncodeGet writes a GET of key to the start of dst and returns that part of dst. dst must have a
// capacity of at least HeaderSize. The key must not exceed [MaxKey].
func EncodeGet(dst []byte, key uint64) []byte {
	dst = dst[:HeaderSize]
	putHeader(dst, key<<8|opGet, 0, 0)
	return dst
}

// EncodeLookup writes a LOOKUP of key like [EncodeGet].
func EncodeLookup(dst []byte, key uint64) []byte {
	dst = dst[:HeaderSize]
	putHeader(dst, key<<8|opLookup, 0, 0)
	return dst
}

// IsGet reports whether a request, which must have a header, is a GET.
func IsGet(request []byte) bool { return request[0] == opGet }

// IsPut reports whether a request, which must have a header, is a PUT.
func IsPut(request []byte) bool { return request[0] == opPut }

// IsLookup reports whether a request, which must have a header, is a LOOKUP.
func IsLookup(request []byte) bool { return request[0] == opLookup }

// EncodePut writes a PUT of key with a value of size bytes to the start of dst and returns that
// part of dst. dst must have a capacity of at least HeaderSize+size. The key must not exceed
// [MaxKey].
//
// The value depends on key and nonce. Another nonce gives other words, and the words within a value
// differ, so that the checksum detects lost, repeated and stale parts.
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

// fill writes words that start at seed and increase by an odd step.
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

// fillTail writes the last 1 to 31 bytes of a value.
func fillTail(dst []byte, seed uint64) {
	for i := range dst {
		dst[i] = byte((seed + uint64(i/8)*fillStep) >> (i % 8 * 8))
	}
}

// fillStep is odd, and four times its value fits a 64-bit constant.
const fillStep = 0x1e3779b97f4a7c15
