package kv

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type modelEntry struct {
	version uint32
	value   []byte
}

// TestStoreAgainstModel runs random requests against the store and a map.
func TestStoreAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxValue := rapid.SampledFrom([]int{0, 1, 32, 33, 600}).Draw(t, "maxValue")
		// Few keys, from all of the range, so that some requests hit.
		keys := rapid.SliceOfNDistinct(rapid.Uint64Range(0, MaxKey), 1, 20, rapid.ID).Draw(
			t, "keys")
		filled := rapid.IntRange(1, len(keys)).Draw(t, "filled")

		s, err := NewStore(filled, maxValue)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		model := map[uint64]modelEntry{}
		var header [HeaderSize]byte
		dst := make([]byte, HeaderSize+maxValue+1)
		for _, key := range keys[:filled] {
			require.NoError(t, s.Fill(key, maxValue))
			entry, _ := s.Serve(EncodeGet(dst, key), &header)
			model[key] = modelEntry{1, bytes.Clone(entry[HeaderSize:])}
		}

		size := rapid.IntRange(0, maxValue)
		key := rapid.SampledFrom(keys)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				key := key.Draw(t, "key")
				want, known := model[key]
				response, outcome := s.Serve(EncodeGet(dst, key), &header)
				if !known {
					require.Equal(t, OutcomeRejected, outcome)
					return
				}
				require.Equal(t, OutcomeGet, outcome)
				require.Equal(t, want.value, bytes.Clone(response[HeaderSize:]))
				version, f := Check(response, key, want.version, len(want.value), true)
				require.Equal(t, FailureNone, f)
				require.Equal(t, want.version, version)
			},
			"put": func(t *rapid.T) {
				key := key.Draw(t, "key")
				request := EncodePut(dst, key, size.Draw(t, "size"),
					rapid.Uint64().Draw(t, "nonce"))
				want, known := model[key]
				response, outcome := s.Serve(request, &header)
				if !known {
					require.Equal(t, OutcomeRejected, outcome)
					return
				}
				require.Equal(t, OutcomePut, outcome)
				version, f := Check(response, key, want.version, 0, true)
				require.Equal(t, FailureNone, f)
				require.Equal(t, want.version+1, version)
				model[key] = modelEntry{version, bytes.Clone(request[HeaderSize:])}
			},
			"lookup": func(t *rapid.T) {
				key := key.Draw(t, "key")
				want, known := model[key]
				response, outcome := s.Serve(EncodeLookup(dst, key), &header)
				if !known {
					require.Equal(t, OutcomeRejected, outcome)
					return
				}
				require.Equal(t, OutcomeLookup, outcome)
				version, f := Check(response, key, want.version, 0, true)
				require.Equal(t, FailureNone, f)
				require.Equal(t, want.version, version)
			},
			"put too large": func(t *rapid.T) {
				_, outcome := s.Serve(EncodePut(dst, key.Draw(t, "key"), maxValue+1, 0), &header)
				require.Equal(t, OutcomeRejected, outcome)
			},
			"damaged put": func(t *rapid.T) {
				request := EncodePut(dst, key.Draw(t, "key"), maxValue, 0)
				at := rapid.IntRange(12, len(request)-1).Draw(t, "at")
				request[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
				_, outcome := s.Serve(request, &header)
				require.Equal(t, OutcomeRejected, outcome)
			},
		})
	})
}

// pending is a response that is not sent yet.
type pending struct {
	response   []byte
	key        uint64
	get        bool
	minVersion uint32
}

// TestResponsesThatWait sends the responses of a batch at its end, or later, after PUTs of the
// same keys with values of other lengths. A response that is sent must be intact, and not older
// than when its request was served.
func TestResponsesThatWait(t *testing.T) {
	const keys, maxValue = 3, 80
	torn := 0 // responses that would have been wrong without Refresh
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewStore(keys, maxValue)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		versions := map[uint64]uint32{}
		for key := range uint64(keys) {
			require.NoError(t, s.Fill(key, int(key)*maxValue/keys))
			versions[key] = 1
		}
		var waiting []pending
		dst := make([]byte, HeaderSize+maxValue)
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			for range rapid.IntRange(1, 12).Draw(t, "requests") {
				key := rapid.Uint64Range(0, keys-1).Draw(t, "key")
				header := new([HeaderSize]byte)
				request := EncodeGet(dst, key)
				switch rapid.IntRange(0, 2).Draw(t, "op") {
				case 1:
					request = EncodePut(dst, key, rapid.IntRange(0, maxValue).Draw(t, "size"),
						rapid.Uint64().Draw(t, "nonce"))
					versions[key]++
				case 2:
					request = EncodeLookup(dst, key)
				}
				response, outcome := s.Serve(request, header)
				require.NotEqual(t, OutcomeRejected, outcome)
				waiting = append(waiting, pending{response, key, outcome == OutcomeGet,
					versions[key]})
			}
			if s.Resized() {
				for i := range waiting {
					w := &waiting[i]
					if _, f := Check(w.response, w.key, 0, AnySize, w.get); f != FailureNone {
						torn++
					}
					w.response = s.Refresh(w.response)
				}
				s.Settle()
			}
			send := rapid.IntRange(0, len(waiting)).Draw(t, "send")
			for _, w := range waiting[:send] {
				size := 0
				if w.get {
					size = AnySize
				}
				version, f := Check(w.response, w.key, w.minVersion, size, true)
				require.Equal(t, FailureNone, f, "%v", f)
				require.LessOrEqual(t, version, versions[w.key])
			}
			waiting = waiting[send:]
		}
	})
	require.Positive(t, torn, "the test must reach the case that Refresh is for")
}

// TestOneLengthIsNeverResized checks that values of one length need no refresh.
func TestOneLengthIsNeverResized(t *testing.T) {
	s := filledStore(t, 4, 32)
	var header [HeaderSize]byte
	dst := make([]byte, HeaderSize+32)
	for key := range uint64(4) {
		s.Serve(EncodePut(dst, key, 32, 1), &header)
	}
	require.False(t, s.Resized())
	s.Serve(EncodePut(dst, 1, 31, 1), &header)
	require.True(t, s.Resized())
	s.Settle()
	require.False(t, s.Resized())
}

// FuzzServe checks that any request gets a response that fits the outcome, and that entries stay
// intact.
func FuzzServe(f *testing.F) {
	const keys, size = 4, 40
	f.Add([]byte(nil))
	f.Add(EncodeGet(make([]byte, HeaderSize), 2))
	f.Add(EncodeLookup(make([]byte, HeaderSize), 2))
	f.Add(EncodePut(make([]byte, HeaderSize+size), 2, size, 1))
	f.Add(EncodePut(make([]byte, HeaderSize+size+1), 2, size+1, 1))
	f.Add(EncodePut(make([]byte, HeaderSize), 2, 0, 1))
	f.Fuzz(func(t *testing.T, request []byte) {
		s := filledStore(t, keys, size)
		before := bytes.Clone(request)
		var header [HeaderSize]byte
		response, outcome := s.Serve(request, &header)
		require.Equal(t, before, request, "a request is only read")
		require.GreaterOrEqual(t, len(response), HeaderSize)
		key := uint64(0)
		if len(request) >= HeaderSize {
			key = word(request) >> 8
		}
		require.Equal(t, key, word(response)>>8)
		switch _, f := Check(response, key, 1, len(response)-HeaderSize, true); outcome {
		case OutcomeGet, OutcomePut, OutcomeLookup:
			require.Equal(t, FailureNone, f)
		default:
			require.Equal(t, FailureStatus, f)
		}
		for key := range uint64(keys) {
			entry, _ := s.Serve(EncodeGet(make([]byte, HeaderSize), key), &header)
			_, f := Check(entry, key, 1, len(entry)-HeaderSize, true)
			require.Equal(t, FailureNone, f)
		}
	})
}

// FuzzCheck checks that Check accepts any bytes, and passes only responses that differ from the
// right one in the version.
func FuzzCheck(f *testing.F) {
	const key, size = 2, 40
	s := filledStore(f, 4, size)
	var header [HeaderSize]byte
	right, _ := s.Serve(EncodeGet(make([]byte, HeaderSize), key), &header)
	right = bytes.Clone(right)
	f.Add([]byte(nil))
	f.Add(right)
	f.Add(right[:HeaderSize])
	f.Fuzz(func(t *testing.T, response []byte) {
		if _, failure := Check(response, key, 1, size, true); failure == FailureNone {
			require.Equal(t, uint64(key<<8), word(response))
			require.Len(t, response, HeaderSize+size)
			require.Equal(t, checksum(response[HeaderSize:], key), uint32(word(response[8:])>>32))
		}
	})
}
