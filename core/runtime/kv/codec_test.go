package kv

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWireFormat(t *testing.T) {
	get := EncodeGet(make([]byte, HeaderSize), 0x0123456789abcd)
	require.Equal(t, []byte{opGet, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0, 0, 0, 0, 0, 0,
		0, 0}, get)

	lookup := EncodeLookup(make([]byte, HeaderSize), 0x0123456789abcd)
	require.Equal(t, opLookup, int(lookup[0]))
	require.Equal(t, get[1:], lookup[1:])
	require.True(t, IsGet(get))
	require.False(t, IsGet(lookup))

	put := EncodePut(make([]byte, 100), 7, 40, 1)
	require.Len(t, put, HeaderSize+40)
	require.Equal(t, []byte{opPut, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, put[:12])
	require.Equal(t, checksum(put[HeaderSize:], 7), binary.LittleEndian.Uint32(put[12:]))
}

func TestEncodeOverwritesWhatItWasGiven(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 31, 32, 33, 100, 1000} {
		dirty := make([]byte, HeaderSize+size)
		for i := range dirty {
			dirty[i] = 0xff
		}
		require.Equal(t, EncodePut(make([]byte, HeaderSize+size), 5, size, 9),
			EncodePut(dirty, 5, size, 9))
		require.Equal(t, EncodeGet(make([]byte, HeaderSize), 5), EncodeGet(dirty, 5))
	}
}

func TestEncodeDoesNotWriteBeyondTheMessage(t *testing.T) {
	for size := range 200 {
		buffer := make([]byte, HeaderSize+size+64)
		EncodePut(buffer, 5, size, 9)
		require.Equal(t, make([]byte, 64), buffer[HeaderSize+size:])
	}
}

func TestValuesDependOnKeyAndNonce(t *testing.T) {
	const size = 256
	value := func(key, nonce uint64) []byte {
		return EncodePut(make([]byte, HeaderSize+size), key, size, nonce)[HeaderSize:]
	}
	require.Equal(t, value(1, 1), value(1, 1))
	seen := map[uint64]bool{}
	for key := range uint64(32) {
		for nonce := range uint64(32) {
			v := value(key, nonce)
			for i := 0; i < size; i += 8 {
				seen[word(v[i:])] = true
			}
		}
	}
	require.Len(t, seen, 32*32*size/8, "no two words are equal")
}

func TestChecksumSeesEveryBit(t *testing.T) {
	for _, size := range []int{1, 3, 8, 15, 16, 17, 31, 32, 33, 63, 64, 100, inlineUpTo,
		inlineUpTo + 1, 1000} {
		value := EncodePut(make([]byte, HeaderSize+size), 3, size, 1)[HeaderSize:]
		want := checksum(value, 3)
		for bit := range size * 8 {
			value[bit/8] ^= 1 << (bit % 8)
			require.NotEqual(t, want, checksum(value, 3), "bit %d of %d bytes", bit, size)
			value[bit/8] ^= 1 << (bit % 8)
		}
		require.Equal(t, want, checksum(value, 3))
	}
}

func TestChecksumSeesKeyLengthAndOrder(t *testing.T) {
	for _, size := range []int{0, 8, 32, 64, inlineUpTo, inlineUpTo + 32} {
		value := make([]byte, size, size+1) // zeros, the hardest
		want := checksum(value, 3)
		require.NotEqual(t, want, checksum(value, 4), "another key")
		require.NotEqual(t, want, checksum(value[:size+1], 3), "one more zero")
		for bit := range 56 {
			require.NotEqual(t, want, checksum(value, 3^1<<bit), "bit %d of the key", bit)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(2, 100).Draw(t, "words")
		value := EncodePut(make([]byte, HeaderSize+words*8), 3, words*8, 1)[HeaderSize:]
		i, j := rapid.IntRange(0, words-1).Draw(t, "i"), rapid.IntRange(0, words-1).Draw(t, "j")
		if i == j {
			return
		}
		want := checksum(value, 3)
		a, b := word(value[i*8:]), word(value[j*8:])
		binary.LittleEndian.PutUint64(value[i*8:], b)
		binary.LittleEndian.PutUint64(value[j*8:], a)
		if checksum(value, 3) == want {
			t.Fatalf("words %d and %d of %d exchanged unseen", i, j, words)
		}
	})
}

func TestChecksumsAreSpread(t *testing.T) {
	// 2^16 checksums of 32 bits: about half a pair is expected to collide,
	// and ten would be a hash of 27 bits.
	for _, size := range []int{1, 8, 32, 1024} {
		seen, collisions := map[uint32]bool{}, 0
		dst := make([]byte, HeaderSize+size)
		for key := range uint64(1 << 16) {
			EncodePut(dst, key, size, 0)
			sum := binary.LittleEndian.Uint32(dst[12:])
			if seen[sum] {
				collisions++
			}
			seen[sum] = true
		}
		require.Less(t, collisions, 10, "values of %d bytes", size)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	for _, size := range []int{0, 32, 4096} {
		s := filledStore(t, 16, size)
		var header [HeaderSize]byte
		dst := make([]byte, HeaderSize+size)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			response, _ := s.Serve(EncodeGet(dst, 3), &header)
			Check(response, 3, 1, size, true)
			response, _ = s.Serve(EncodePut(dst, 3, size, 8), &header)
			Check(response, 3, 2, 0, true)
			response, _ = s.Serve(EncodeLookup(dst, 3), &header)
			Check(s.Refresh(response), 3, 2, 0, true)
			s.Serve(dst[:5], &header)
		}))
	}
}
