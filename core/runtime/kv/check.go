package kv

import "encoding/binary"

// Failure is what is wrong with a response.
type Failure uint8

// What [Check] finds, in the order in which it looks.
const (
	FailureNone     Failure = iota
	FailureShort            // shorter than a header
	FailureStatus           // the key is missing, or the request was rejected
	FailureKey              // answers for another key
	FailureStale            // a version that the client has seen replaced
	FailureSize             // a value of the wrong length
	FailureChecksum         // a value that was damaged, or belongs to another key

	// NumFailures sizes an array that counts them.
	NumFailures = iota
)

func (f Failure) String() string {
	return [NumFailures]string{
		"none", "short", "bad-status", "wrong-key", "stale-version", "wrong-size", "bad-checksum",
	}[f]
}

// AnySize is the wantSize of a GET where values differ in length.
const AnySize = -1

// Check verifies the response to a request for key and returns its version.
//
// minVersion is the newest version that the client has seen of the key; an
// older one (modulo 2^32) is stale. For a GET, wantSize is the length of the
// value in bytes, and sum asks for its checksum to be verified; for a PUT and a
// LOOKUP, whose responses have no value, wantSize is 0 and sum has no effect.
// With [AnySize] a value that was cut or prolonged is found by its checksum,
// which covers its length.
//
// The version is 0 with any failure but FailureSize and FailureChecksum.
func Check(response []byte, key uint64, minVersion uint32, wantSize int, sum bool) (version uint32, f Failure) {
	if len(response) < HeaderSize {
		return 0, FailureShort
	}
	header := (*[HeaderSize]byte)(response)
	if first := binary.LittleEndian.Uint64(header[:]); first != key<<8|statusOK {
		return 0, headerFailure(first)
	}
	rest := binary.LittleEndian.Uint64(header[8:])
	version = uint32(rest)
	switch {
	case int32(version-minVersion) < 0:
		return 0, FailureStale
	case len(response)-HeaderSize != wantSize && wantSize >= 0:
		return version, FailureSize
	case sum && wantSize != 0 && checksum(response[HeaderSize:], key) != uint32(rest>>32):
		return version, FailureChecksum
	}
	return version, FailureNone
}

// headerFailure looks at the status first: a request that arrived too short to
// have a key is rejected with none.
func headerFailure(first uint64) Failure {
	if first&0xff != statusOK {
		return FailureStatus
	}
	return FailureKey
}

// Intact says whether a PUT has the value that its header promises.
func Intact(request []byte) bool {
	if len(request) < HeaderSize || request[0] != opPut {
		return false
	}
	return checksum(request[HeaderSize:], word(request)>>8) == uint32(word(request[8:])>>32)
}
