package kv

import "encoding/binary"

// Outcome is what became of a request.
type Outcome uint8

// The outcomes of [Store.Serve].
const (
	OutcomeGet      Outcome = iota // answered with an entry
	OutcomePut                     // stored
	OutcomeLookup                  // answered with an entry's header
	OutcomeRejected                // could not be served; the response says why
)

// Serve answers a request, whatever its bytes are. The response is not to be
// written to. A GET's is the entry in the store: a PUT that is served later
// changes it in place, to the entry as it is then, which is as right an answer
// for as long as it has not been sent. Where [Store.Resized] says so, the length
// of the response has to follow: see [Store.Refresh]. It is valid until Close.
// All other responses lie in header, until the caller uses it again. The
// request is not kept. Serve does not allocate.
func (s *Store) Serve(request []byte, header *[HeaderSize]byte) (response []byte, outcome Outcome) {
	if len(request) < HeaderSize {
		return reject(header, 0, statusBad)
	}
	first := binary.LittleEndian.Uint64(request)
	rest := binary.LittleEndian.Uint64(request[8:])
	switch op := first & 0xff; {
	case op == opGet && rest == 0 && len(request) == HeaderSize:
		at, found := s.find(first &^ 0xff)
		if !found {
			return reject(header, first, statusMissing)
		}
		return s.entry(at, s.length(at)), OutcomeGet
	case op == opLookup && rest == 0 && len(request) == HeaderSize:
		at, found := s.find(first &^ 0xff)
		if !found {
			return reject(header, first, statusMissing)
		}
		copy(header[:], s.entry(at, HeaderSize))
		return header[:], OutcomeLookup
	case op == opPut && uint32(rest) == 0 && len(request)-HeaderSize <= s.maxValue:
		return s.put(first, uint32(rest>>32), request[HeaderSize:], header)
	}
	return reject(header, first, statusBad)
}

func (s *Store) put(first uint64, sum uint32, value []byte, header *[HeaderSize]byte) ([]byte, Outcome) {
	if s.verifyIn--; s.verifyIn <= 0 {
		s.verifyIn = s.VerifyEvery
		if checksum(value, first>>8) != sum {
			return reject(header, first, statusCorrupt)
		}
	}
	at, found := s.find(first &^ 0xff)
	if !found {
		return reject(header, first, statusMissing)
	}
	entry := s.renew(at, first, HeaderSize+len(value), sum, header)
	copy(entry[HeaderSize:], value)
	return header[:], OutcomePut
}

// renew gives an entry its next version, which has a length and a checksum, and
// writes its header to header as well.
func (s *Store) renew(at, first uint64, length int, sum uint32, header *[HeaderSize]byte) (entry []byte) {
	if s.length(at) != length {
		s.setLength(at, length)
		s.resized = true
	}
	entry = s.entry(at, length)
	version := binary.LittleEndian.Uint32(entry[8:]) + 1
	putHeader(entry, first&^0xff|statusOK, version, sum)
	putHeader(header[:], first&^0xff|statusOK, version, sum)
	return entry
}

// ServeHead answers a PUT of size bytes whose value stays in memory that the store
// cannot read: head is its first HeaderSize bytes, or more. Whoever can read the value
// verifies it, with [Intact]. The entry has the version, length and checksum of the new
// value and the bytes of an old one, so that a GET of it would be answered with what
// [Check] finds damaged. All other requests are rejected; otherwise it is as Serve.
func (s *Store) ServeHead(head []byte, size int, header *[HeaderSize]byte) (response []byte, outcome Outcome) {
	if len(head) < HeaderSize {
		return reject(header, 0, statusBad)
	}
	first := binary.LittleEndian.Uint64(head)
	rest := binary.LittleEndian.Uint64(head[8:])
	if first&0xff != opPut || uint32(rest) != 0 || size < HeaderSize || size-HeaderSize > s.maxValue {
		return reject(header, first, statusBad)
	}
	at, found := s.find(first &^ 0xff)
	if !found {
		return reject(header, first, statusMissing)
	}
	s.renew(at, first, size, uint32(rest>>32), header)
	return header[:], OutcomePut
}

// Resized says whether a PUT has changed the length of an entry since the last
// call of [Store.Settle]. Where all values have one length it never does.
func (s *Store) Resized() bool { return s.resized }

// Refresh returns a response of Serve as it is now: that to a GET has the
// entry's present length, and others are returned as they are. Responses that
// are still to be sent must be refreshed after any PUT that changed a length,
// or what is sent is neither the old entry nor the new one.
func (s *Store) Refresh(response []byte) []byte {
	at, found := s.find(binary.LittleEndian.Uint64(response) &^ 0xff)
	// The key is in the response, whose place says whether it is the entry.
	if !found || &response[0] != &s.memory[at+prefixSize] {
		return response
	}
	return s.entry(at, s.length(at))
}

// Settle says that every response that is still to be sent has been refreshed.
func (s *Store) Settle() { s.resized = false }

func reject(header *[HeaderSize]byte, first, status uint64) ([]byte, Outcome) {
	putHeader(header[:], first&^0xff|status, 0, 0)
	return header[:], OutcomeRejected
}
