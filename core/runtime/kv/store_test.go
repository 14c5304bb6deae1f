package kv

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func newStore(tb testing.TB, capacity, maxValue int) *Store {
	tb.Helper()
	s, err := NewStore(capacity, maxValue)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

func TestGetIsTheEntryItself(t *testing.T) {
	s := filledStore(t, 8, 32)
	var header [HeaderSize]byte
	first, outcome := s.Serve(EncodeGet(make([]byte, HeaderSize), 3), &header)
	require.Equal(t, OutcomeGet, outcome)
	again, _ := s.Serve(EncodeGet(make([]byte, HeaderSize), 3), &header)
	require.Same(t, &first[0], &again[0])
	require.Zero(t, header, "the header is left alone")
	require.Equal(t, len(first), cap(first), "an append must not reach the store")
}

func TestPutIsRead(t *testing.T) {
	const key, size = 3, 100
	s := filledStore(t, 8, size)
	put := EncodePut(make([]byte, HeaderSize+size), key, size, 77)
	response, outcome := respond(t, s, put)
	require.Equal(t, OutcomePut, outcome)
	require.Len(t, response, HeaderSize)
	version, f := Check(response, key, 1, 0, true)
	require.Equal(t, FailureNone, f)
	require.EqualValues(t, 2, version)
	require.Equal(t, put[12:16], response[12:16], "the checksum that was stored")

	response, _ = respond(t, s, EncodeGet(make([]byte, HeaderSize), key))
	version, f = Check(response, key, version, size, true)
	require.Equal(t, FailureNone, f)
	require.EqualValues(t, 2, version)
	require.Equal(t, put[HeaderSize:], response[HeaderSize:])
}

func TestValuesMayChangeTheirLength(t *testing.T) {
	s := filledStore(t, 4, 100)
	dst := make([]byte, HeaderSize+100)
	for _, size := range []int{100, 0, 1, 33, 100} {
		_, outcome := respond(t, s, EncodePut(dst, 2, size, 1))
		require.Equal(t, OutcomePut, outcome)
		response, _ := respond(t, s, EncodeGet(dst, 2))
		_, f := Check(response, 2, 1, size, true)
		require.Equal(t, FailureNone, f)
	}
}

func TestVersionWraps(t *testing.T) {
	s := filledStore(t, 4, 8)
	at, found := s.find(2 << 8)
	require.True(t, found)
	binary.LittleEndian.PutUint32(s.entry(at, HeaderSize)[8:], math.MaxUint32)
	response, _ := respond(t, s, EncodePut(make([]byte, 24), 2, 8, 1))
	version, f := Check(response, 2, math.MaxUint32, 0, false)
	require.Equal(t, FailureNone, f)
	require.Zero(t, version)
}

func TestServeRejects(t *testing.T) {
	const key, size = 3, 32
	put := func(edit func(r []byte)) []byte {
		r := EncodePut(make([]byte, HeaderSize+size), key, size, 1)
		edit(r)
		return r
	}
	get := func(edit func(r []byte)) []byte {
		r := EncodeGet(make([]byte, HeaderSize), key)
		edit(r)
		return r
	}
	tests := []struct {
		name    string
		request []byte
		key     uint64
		status  byte
	}{
		{"nothing", nil, 0, statusBad},
		{"a byte short", get(func([]byte) {})[:HeaderSize-1], 0, statusBad},
		{"op 0", get(func(r []byte) { r[0] = 0 }), key, statusBad},
		{"op 4", get(func(r []byte) { r[0] = 4 }), key, statusBad},
		{"lookup with a version", get(func(r []byte) { r[0], r[8] = opLookup, 1 }), key, statusBad},
		{"lookup with a value", append(EncodeLookup(make([]byte, HeaderSize), key), 0), key,
			statusBad},
		{"lookup of an unknown key", EncodeLookup(make([]byte, HeaderSize), MaxKey), MaxKey,
			statusMissing},
		{"get with a version", get(func(r []byte) { r[8] = 1 }), key, statusBad},
		{"get with a checksum", get(func(r []byte) { r[15] = 1 }), key, statusBad},
		{"get with a value", append(get(func([]byte) {}), 0), key, statusBad},
		{"get of an unknown key", EncodeGet(make([]byte, HeaderSize), MaxKey), MaxKey,
			statusMissing},
		{"put with a version", put(func(r []byte) { r[8] = 1 }), key, statusBad},
		{"put of too much", EncodePut(make([]byte, 100), key, size+1, 1), key, statusBad},
		{"put of an unknown key", EncodePut(make([]byte, 100), 1000, size, 1), 1000, statusMissing},
		{"put with a damaged value", put(func(r []byte) { r[20] ^= 1 }), key, statusCorrupt},
		{"put under another key", put(func(r []byte) { r[1] ^= 1 }), key ^ 1, statusCorrupt},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := filledStore(t, 8, size)
			before, _ := respond(t, s, EncodeGet(make([]byte, HeaderSize), key))
			response, outcome := respond(t, s, test.request)
			require.Equal(t, OutcomeRejected, outcome)
			require.Equal(t, test.key<<8|uint64(test.status), word(response))
			require.Zero(t, word(response[8:]))
			_, f := Check(response, test.key, 0, 0, true)
			require.Equal(t, FailureStatus, f)
			after, _ := respond(t, s, EncodeGet(make([]byte, HeaderSize), key))
			require.Equal(t, before, after, "nothing is changed")
		})
	}
}

func TestVerifyEverySamples(t *testing.T) {
	s := filledStore(t, 8, 32)
	bad := EncodePut(make([]byte, 48), 3, 32, 1)
	bad[20] ^= 1
	count := func() (rejected int) {
		for range 40 {
			if _, outcome := respond(t, s, bad); outcome == OutcomeRejected {
				rejected++
			}
		}
		return rejected
	}
	require.Equal(t, 40, count())
	s.VerifyEvery = 4
	require.InDelta(t, 10, count(), 1)

	// A value that was stored unverified is detected when it is read.
	response, _ := respond(t, s, EncodeGet(make([]byte, HeaderSize), 3))
	_, f := Check(response, 3, 1, 32, true)
	require.Equal(t, FailureChecksum, f)
}

func TestFillRefuses(t *testing.T) {
	s := newStore(t, 2, 8)
	require.ErrorContains(t, s.Fill(MaxKey+1, 8), "largest")
	require.ErrorContains(t, s.Fill(1, 9), "made for 8")
	require.ErrorContains(t, s.Fill(1, -1), "made for 8")
	require.NoError(t, s.Fill(1, 8))
	require.NoError(t, s.Fill(MaxKey, 8))
	require.NoError(t, s.Fill(1, 4), "a key that is there")
	require.ErrorContains(t, s.Fill(2, 8), "2 keys")
	require.Equal(t, 2, s.Len())
}

func TestNewStoreRefuses(t *testing.T) {
	for _, size := range [][2]int{{0, 8}, {-1, 8}, {1, -1}, {1 << 30, 1 << 30},
		{math.MaxInt, math.MaxInt}, {1, math.MaxInt}, {math.MaxInt, 1}} {
		_, err := NewStore(size[0], size[1])
		require.Error(t, err, "%v", size)
	}
}

func TestCloseTwice(t *testing.T) {
	s, err := NewStore(1, 1)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
}

func TestEntriesAreAligned(t *testing.T) {
	for _, maxValue := range []int{0, 1, 32, 33, 48, 100, 4096} {
		s := filledStore(t, 10, maxValue)
		require.Zero(t, s.stride%cacheLine)
		if maxValue <= 32 {
			require.EqualValues(t, cacheLine, s.stride)
		}
		for key := range uint64(10) {
			at, found := s.find(key << 8)
			require.True(t, found)
			require.Zero(t, (at+prefixSize)%16)
		}
	}
}

// probes counts the buckets that a lookup of each key reads.
func probes(s *Store, keys []uint64) (total int) {
	for _, key := range keys {
		at, _ := s.find(key << 8)
		home := key * fibonacci >> s.shift
		total += 1 + int((at/s.stride-home)&s.mask)
	}
	return total
}

func TestProbesAreFew(t *testing.T) {
	var all, thirdOfThem, spread []uint64
	for key := range uint64(3 << 12) {
		if key < 1<<12 {
			all = append(all, key)
			spread = append(spread, mix(key^seedA, seedB)&MaxKey)
		}
		if DaemonOf(key, 3) == 1 {
			thirdOfThem = append(thirdOfThem, key)
		}
	}
	tests := []struct {
		name  string
		keys  []uint64
		limit float64 // probes a lookup; 1.5 is linear probing's, half full
	}{
		{"consecutive", all, 1.05},
		{"one daemon's", thirdOfThem, 1.5},
		{"random", spread, 1.6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStore(t, len(test.keys), 8)
			for _, key := range test.keys {
				require.NoError(t, s.Fill(key, 8))
			}
			require.LessOrEqual(t, float64(probes(s, test.keys))/float64(len(test.keys)),
				test.limit)
		})
	}
}

// TestServeHead checks that a PUT by its head is answered like a whole one, and that Check finds
// the response to a later GET damaged.
func TestServeHead(t *testing.T) {
	const key, size = 5, 32
	s := filledStore(t, 8, size)
	whole := filledStore(t, 8, size)
	var header [HeaderSize]byte
	for round := range uint64(2) {
		put := EncodePut(make([]byte, HeaderSize+size), key, size, round)
		want, _ := respond(t, whole, put)
		got, outcome := s.ServeHead(put[:HeaderSize], len(put), &header)
		require.Equal(t, OutcomePut, outcome)
		require.Equal(t, want, got)
	}
	entry, _ := respond(t, s, EncodeGet(make([]byte, HeaderSize), key))
	_, failure := Check(entry, key, 3, size, true)
	require.Equal(t, FailureChecksum, failure)

	shorter := EncodePut(make([]byte, HeaderSize+size), key, 3, 1)
	_, outcome := s.ServeHead(shorter[:HeaderSize], len(shorter), &header)
	require.Equal(t, OutcomePut, outcome)
	require.True(t, s.Resized())

	for name, c := range map[string]struct {
		head []byte
		size int
	}{
		"short":         {shorter[:HeaderSize-1], 19},
		"no head":       {shorter[:HeaderSize], HeaderSize - 1},
		"too large":     {shorter[:HeaderSize], HeaderSize + size + 1},
		"a get":         {EncodeGet(make([]byte, HeaderSize), key), HeaderSize},
		"another key":   {EncodePut(make([]byte, HeaderSize), 1000, 0, 1), HeaderSize},
		"has a version": {append(append([]byte{}, shorter[:8]...), 1, 0, 0, 0, 0, 0, 0, 0), 19},
	} {
		_, outcome := s.ServeHead(c.head, c.size, &header)
		require.Equal(t, OutcomeRejected, outcome, name)
	}
}
