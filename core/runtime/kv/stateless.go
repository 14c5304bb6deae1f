package kv

import "encoding/binary"

// The services without a store: an echo returns the request, and a sink reads it and returns a
// header. Both identify the answered request by its key and checksum, so a client detects the
// response to another request without reading the value.

// EncodeEcho writes a request like [EncodePut], which an echo returns as it is.
func EncodeEcho(dst []byte, key uint64, size int, nonce uint64) []byte {
	dst = EncodePut(dst, key, size, nonce)
	dst[0] = opEcho
	return dst
}

// IsEcho reports whether a request, which may have any bytes, is an echo.
func IsEcho(request []byte) bool { return len(request) >= HeaderSize && request[0] == opEcho }

// RejectEcho returns an echo's response to a request that is not one.
func RejectEcho(header *[HeaderSize]byte) (response []byte, outcome Outcome) {
	return reject(header, 0, statusBad)
}

// SameEcho reports whether the short response of an echo has the request's header, length and last
// byte. It is small, so that it is inlined. A response that is longer than a cache line, or not the
// same, needs [CheckEcho].
func SameEcho(response, request []byte) bool {
	return len(response) == len(request) && len(response) >= HeaderSize &&
		len(response) <= cacheLine && // two lines at most: those of the first and the last byte
		word(response) == word(request) && word(response[8:]) == word(request[8:]) &&
		response[len(response)-1] == request[len(response)-1]
}

// CheckEcho verifies the response of an echo. If full is set, it compares all bytes, else the
// header, the length, and it reads one word of each cache line.
func CheckEcho(response, request []byte, full bool) Failure {
	if len(response) != len(request) || len(response) < HeaderSize ||
		word(response) != word(request) || word(response[8:]) != word(request[8:]) {
		return wrongEcho(response, request)
	}
	if full {
		if string(response[HeaderSize:]) != string(request[HeaderSize:]) {
			return FailureChecksum
		}
	} else if len(response) > cacheLine {
		touch(response)
	} else if !SameEcho(response, request) {
		return FailureChecksum
	}
	return FailureNone
}

func wrongEcho(response, request []byte) Failure {
	if f := checkHeader(response, request, word(request)); f != FailureNone {
		return f
	}
	return FailureSize
}

// CheckSink verifies the response of a [Sink] to a request of EncodePut.
func CheckSink(response, request []byte) Failure {
	if f := checkHeader(response, request, word(request)&^0xff|statusOK); f != FailureNone {
		return f
	}
	if len(response) != HeaderSize {
		return FailureSize
	}
	return FailureNone
}

// checkHeader checks the first word of a response, and that its second word, with the checksum, is
// the request's.
func checkHeader(response, request []byte, first uint64) Failure {
	if len(response) < HeaderSize {
		return FailureShort
	}
	got := word(response)
	switch {
	case got == first && word(response[8:]) == word(request[8:]):
		return FailureNone
	case got&0xff != first&0xff:
		return FailureStatus
	case got != first:
		return FailureKey
	}
	return FailureStale
}

// Sink serves PUTs without storing them. It belongs to one thread.
type Sink struct {
	// VerifyEvery is the sampling of checksums: one of VerifyEvery values is verified, and each
	// cache line is read of the others. 0 is 1.
	VerifyEvery int
	// Unread leaves out the reading of values that are not verified.
	Unread   bool
	verifyIn int // PUTs until the next verification
	work     Work
}

// Work returns what Serve has done so far.
func (s *Sink) Work() Work { return s.work }

// Serve answers a request, which may have any bytes, like [Store.Serve].
func (s *Sink) Serve(request []byte, header *[HeaderSize]byte) (response []byte, outcome Outcome) {
	response, outcome = s.ServeHead(request, len(request), header)
	if outcome != OutcomePut {
		return response, outcome
	}
	value := request[HeaderSize:]
	if s.verifyIn--; s.verifyIn > 0 {
		if !s.Unread {
			touch(value)
		}
	} else {
		s.verifyIn = s.VerifyEvery
		s.work.ChecksummedBytes += uint64(len(value))
		if first := word(request); checksum(value, first>>8) != binary.LittleEndian.Uint32(
			request[12:]) {
			return reject(header, first, statusCorrupt)
		}
	}
	return response, outcome
}

// ServeHead is Serve for a value in memory that the processor cannot read, like [Store.ServeHead].
func (s *Sink) ServeHead(head []byte, size int, header *[HeaderSize]byte) (response []byte,
	outcome Outcome) {
	if len(head) < HeaderSize {
		return reject(header, 0, statusBad)
	}
	first, rest := word(head), word(head[8:])
	if first&0xff != opPut || uint32(rest) != 0 || size < HeaderSize {
		return reject(header, first, statusBad)
	}
	binary.LittleEndian.PutUint64(header[:], first&^0xff|statusOK)
	binary.LittleEndian.PutUint64(header[8:], rest)
	return header[:], OutcomePut
}

// touch reads each cache line that b covers, so that its bytes have to arrive even if nobody
// verifies them.
//
//go:noinline
func touch(b []byte) (sum uint64) {
	if len(b) == 0 {
		return 0
	}
	last := uint64(b[len(b)-1])
	for len(b) >= 8*cacheLine { // without checks of the index within a stretch
		p := (*[8 * cacheLine]byte)(b)
		sum += uint64(p[0]) + uint64(p[1*cacheLine]) + uint64(p[2*cacheLine]) +
			uint64(p[3*cacheLine]) +
			uint64(p[4*cacheLine]) + uint64(p[5*cacheLine]) + uint64(p[6*cacheLine]) +
			uint64(p[7*cacheLine])
		b = b[8*cacheLine:]
	}
	for i := 0; i < len(b); i += cacheLine {
		sum += uint64(b[i])
	}
	return sum + last
}
