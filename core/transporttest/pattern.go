package transporttest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// patternHeader is the length of the seed and size at the start of a pattern that is long enough.
const patternHeader = 16

// pattern returns size bytes that depend on seed and on their position, so that shifted, mixed up
// and stale bytes are detected.
func pattern(seed uint64, size int) []byte {
	p := make([]byte, size)
	fillPattern(p, seed)
	return p
}

func fillPattern(p []byte, seed uint64) {
	var word [8]byte
	state := seed*0x9e3779b97f4a7c15 + uint64(len(p))
	for i := 0; i < len(p); i += len(word) {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(word[:], state)
		copy(p[i:], word[:])
	}
	if len(p) >= patternHeader {
		binary.LittleEndian.PutUint64(p, seed)
		binary.LittleEndian.PutUint64(p[8:], uint64(len(p)))
	}
}

// minChecked is the size of the smallest pattern that checkPattern can verify: it has one word
// besides the header.
const minChecked = patternHeader + 8

// checkPattern verifies a pattern by its own header.
func checkPattern(p []byte) error {
	if len(p) < minChecked {
		return fmt.Errorf("%d bytes are too few to verify", len(p))
	}
	seed, size := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
	if size != uint64(len(p)) {
		return fmt.Errorf("has %d bytes, sent with %d", len(p), size)
	}
	for i, b := range pattern(seed, len(p)) {
		if p[i] != b {
			return fmt.Errorf("byte %d of %d is %#x, sent as %#x", i, len(p), p[i], b)
		}
	}
	return nil
}

// dice returns a random number generator with a fixed seed.
func dice() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
