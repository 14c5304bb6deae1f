package kv

import "encoding/binary"

// Failure is a reason why a response is wrong.
type Failure uint8

// The failures that [Check] finds, in the order of its checks.
const (
	FailureNone     Failure = iota
	FailureShort            // shorter than a header
	FailureStatus           // the key is missing, or the request was rejected
	FailureKey              // answers for another key
	FailureStale            // an older version than the client has seen
	FailureSize             // a value of the wrong length
	FailureChecksum         // a damaged value, or a value of another key

	// NumFailures is the number of failures, FailureNone included.
	NumFailures = iota
)

func (f Failure) String() string {
	return [NumFailures]string{
		"none", "short", "bad-status", "wrong-key", "stale-version", "wrong-size", "bad-checksum",
	}[f]
}

// AnySize is the wantSize of a GET if values differ in length.
const AnySize = -1

// Check verifies the response to a request for key and returns its version.
//
// minVersion is the newest version of the key that the client has seen; an older one (modulo 2^32)
// is stale. For a GET, wantSize is the length of the value in bytes, and sum enables the check of
// the checksum; without it, Check reads a word of each cache line of the value. Responses to a PUT
// and a LOOKUP have no value: wantSize is 0 and sum has no effect.
// With [AnySize], the checksum detects a wrong length, because it covers the length.
//
// The version is 0 with any failure except FailureSize and FailureChecksum.
func Check(response []byte, key uint64, minVersion uint32, wantSize int, sum bool) (version uint32,
	f Failure) {
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
	case wantSize == 0:
	case !sum:
		touch(response[HeaderSize:])
	case checksum(response[HeaderSize:], key) != uint32(rest>>32):
		return version, FailureChecksum
	}
	return version, FailureNone
}

// headerFailure checks the status first, because the rejection of a request that was too short to
// have a key has no key either.
func headerFailure(first uint64) Failure {
	if first&0xff != statusOK {
		return FailureStatus
	}
	return FailureKey
}

// Intact reports whether the value of a PUT has the checksum in its header.
func Intact(request []byte) bool {
	if len(request) < HeaderSize || request[0] != opPut {
		return false
	}
	return checksum(request[HeaderSize:], word(request)>>8) == uint32(word(request[8:])>>32)
}
