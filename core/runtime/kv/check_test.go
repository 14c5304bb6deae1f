package kv

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// respond serves one request and returns a copy of the response.
func respond(t *testing.T, s *Store, request []byte) ([]byte, Outcome) {
	t.Helper()
	var header [HeaderSize]byte
	response, outcome := s.Serve(request, &header)
	return append([]byte(nil), response...), outcome
}

func TestCheckFindsEachFailure(t *testing.T) {
	const key, other, size = 5, 6, 32
	s := filledStore(t, 8, size)
	dst := make([]byte, HeaderSize+size)
	entry, _ := respond(t, s, EncodeGet(dst, key))
	missing, _ := respond(t, s, EncodeGet(dst, 1000))
	rejected, _ := respond(t, s, []byte{1, 2, 3})

	edit := func(change func(r []byte) []byte) []byte {
		return change(append([]byte(nil), entry...))
	}
	tests := []struct {
		name     string
		response []byte
		key      uint64
		version  uint32 // minimum
		size     int
		want     Failure
	}{
		{"right", entry, key, 1, size, FailureNone},
		{"no version known", entry, key, 0, size, FailureNone},
		{"nothing", nil, key, 1, size, FailureShort},
		{"a byte short of a header", entry[:HeaderSize-1], key, 1, size, FailureShort},
		{"missing", missing, 1000, 1, size, FailureStatus},
		{"rejected without a key", rejected, key, 1, size, FailureStatus},
		{"the answer to another", entry, other, 1, size, FailureKey},
		{"stale", entry, key, 2, size, FailureStale},
		{"stale across the wrap", entry, key, 1 << 31, size, FailureStale},
		{"newer across the wrap", entry, key, math.MaxUint32, size, FailureNone},
		{"short value", entry[:HeaderSize+size-1], key, 1, size, FailureSize},
		{"no value", entry[:HeaderSize], key, 1, size, FailureSize},
		{"long value", append(append([]byte(nil), entry...), 0), key, 1, size, FailureSize},
		{"value where none belongs", entry, key, 1, 0, FailureSize},
		{"damaged value", edit(func(r []byte) []byte { r[HeaderSize+9] ^= 4; return r }), key, 1,
			size, FailureChecksum},
		{"damaged checksum", edit(func(r []byte) []byte { r[12] ^= 1; return r }), key, 1, size,
			FailureChecksum},
		{"another's value under this key", edit(func(r []byte) []byte {
			response, _ := respond(t, s, EncodeGet(dst, other))
			binary.LittleEndian.PutUint64(response, key<<8)
			return response
		}), key, 1, size, FailureChecksum},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			version, f := Check(test.response, test.key, test.version, test.size, true)
			require.Equal(t, test.want, f, "%v", f)
			if f == FailureNone {
				require.EqualValues(t, 1, version)
			}
		})
	}
	seen := map[Failure]bool{}
	for _, test := range tests {
		seen[test.want] = true
	}
	require.Len(t, seen, NumFailures, "each has a test")
}

func TestCheckWithoutSumPassesDamage(t *testing.T) {
	s := filledStore(t, 8, 32)
	entry, _ := respond(t, s, EncodeGet(make([]byte, HeaderSize), 5))
	entry[HeaderSize] ^= 1
	_, f := Check(entry, 5, 1, 32, false)
	require.Equal(t, FailureNone, f)
}

// TestAnySize checks that with AnySize the checksum detects a value that was cut or extended.
func TestAnySize(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 33, 100, inlineUpTo, inlineUpTo + 1, 4096} {
		s := filledStore(t, 8, size)
		entry, _ := respond(t, s, EncodeGet(make([]byte, HeaderSize), 5))
		_, f := Check(entry, 5, 1, AnySize, true)
		require.Equal(t, FailureNone, f)
		for cut := HeaderSize; cut < len(entry); cut++ {
			_, f := Check(entry[:cut], 5, 1, AnySize, true)
			require.Equal(t, FailureChecksum, f, "%d of %d bytes", cut-HeaderSize, size)
		}
		_, f = Check(append(entry, 0), 5, 1, AnySize, true)
		require.Equal(t, FailureChecksum, f, "one byte more than %d", size)
	}
}

func TestLookup(t *testing.T) {
	s := filledStore(t, 8, 32)
	dst := make([]byte, HeaderSize+32)
	entry, _ := respond(t, s, EncodeGet(dst, 5))
	response, outcome := respond(t, s, EncodeLookup(dst, 5))
	require.Equal(t, OutcomeLookup, outcome)
	require.Equal(t, entry[:HeaderSize], response)
	version, f := Check(response, 5, 1, 0, true)
	require.Equal(t, FailureNone, f)
	require.EqualValues(t, 1, version)
	respond(t, s, EncodePut(dst, 5, 32, 1))
	response, _ = respond(t, s, EncodeLookup(dst, 5))
	version, _ = Check(response, 5, 1, 0, true)
	require.EqualValues(t, 2, version)
}

func TestFailuresHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range Failure(NumFailures) {
		require.NotEmpty(t, f.String())
		seen[f.String()] = true
	}
	require.Len(t, seen, NumFailures)
}

func TestIntact(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 600} {
		request := EncodePut(make([]byte, HeaderSize+size), 7, size, 1)
		require.True(t, Intact(request))
		for i := range request {
			if i >= 8 && i < 12 { // the version, which no checksum covers
				continue
			}
			request[i] ^= 1
			require.False(t, Intact(request), "byte %d of %d", i, len(request))
			request[i] ^= 1
		}
		require.False(t, Intact(request[:len(request)-1]))
		require.False(t, Intact(append(request, 0)))
	}
	require.False(t, Intact(EncodeGet(make([]byte, HeaderSize), 7)))
	require.False(t, Intact(nil))
}
