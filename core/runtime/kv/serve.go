package kv

import "encoding/binary"

// Outcome is the outcome of a request.
type Outcome uint8

// The outcomes of [Store.Serve].
const (
	OutcomeGet      Outcome = iota // answered with an entry
	OutcomePut                     // stored
	OutcomeLookup                  // answered with an entry's header
	OutcomeRejected                // not served; the response has the status

	// NumOutcomes is the number of outcomes.
	NumOutcomes = iota
)

// Serve answers a request, which may have any bytes, and does not keep it. The caller must not
// write to the response. The response to a GET is the entry in the store and valid until Close: a
// later PUT changes it in place, and until it is sent the new entry is an equally correct answer.
// If [Store.Resized] returns true, the response must be updated with [Store.Refresh]. All other
// responses are in header. Serve does not allocate.
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

// Work counts what a service has done with values.
type Work struct {
	StoredBytes      uint64 // copied into the store
	ChecksummedBytes uint64 // whose checksum was verified before
}

// Work returns what Serve has done so far.
func (s *Store) Work() Work { return s.work }

// Since returns the difference between w and an earlier reading.
func (w Work) Since(earlier Work) Work {
	return Work{w.StoredBytes - earlier.StoredBytes, w.ChecksummedBytes - earlier.ChecksummedBytes}
}

func (s *Store) put(first uint64, sum uint32, value []byte, header *[HeaderSize]byte) ([]byte,
	Outcome) {
	if s.verifyIn--; s.verifyIn <= 0 {
		s.verifyIn = s.VerifyEvery
		s.work.ChecksummedBytes += uint64(len(value))
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
	s.work.StoredBytes += uint64(len(value))
	return header[:], OutcomePut
}

// renew sets the header of an entry's next version and copies it to header.
func (s *Store) renew(at, first uint64, length int, sum uint32,
	header *[HeaderSize]byte) (entry []byte) {
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

// ServeHead is Serve for a PUT of size bytes whose value is in memory that the store cannot read;
// head has at least the first HeaderSize bytes. The caller must verify the value, with [Intact].
// Afterwards the entry has the version, length and checksum of the new value and the bytes of an
// old one, so [Check] finds the response to a GET damaged. ServeHead rejects all requests other
// than PUTs.
func (s *Store) ServeHead(head []byte, size int, header *[HeaderSize]byte) (response []byte,
	outcome Outcome) {
	if len(head) < HeaderSize {
		return reject(header, 0, statusBad)
	}
	first := binary.LittleEndian.Uint64(head)
	rest := binary.LittleEndian.Uint64(head[8:])
	if first&0xff != opPut || uint32(rest) != 0 || size < HeaderSize ||
		size-HeaderSize > s.maxValue {
		return reject(header, first, statusBad)
	}
	at, found := s.find(first &^ 0xff)
	if !found {
		return reject(header, first, statusMissing)
	}
	s.renew(at, first, size, uint32(rest>>32), header)
	return header[:], OutcomePut
}

// Resized reports whether a PUT has changed the length of an entry since the last [Store.Settle].
// If all values have the same length, it is always false.
func (s *Store) Resized() bool { return s.resized }

// Refresh returns a response of Serve with the current length of its entry if it is the response
// to a GET; it returns other responses unchanged. After a PUT that changed a length, the responses
// that are not sent yet must be refreshed, or they are a mixture of the old and the new entry.
func (s *Store) Refresh(response []byte) []byte {
	at, found := s.find(binary.LittleEndian.Uint64(response) &^ 0xff)
	// The response has the key, and its address shows whether it is the entry.
	if !found || &response[0] != &s.memory[at+prefixSize] {
		return response
	}
	return s.entry(at, s.length(at))
}

// Settle clears Resized. Call it after all responses that are not sent yet have been refreshed.
func (s *Store) Settle() { s.resized = false }

func reject(header *[HeaderSize]byte, first, status uint64) ([]byte, Outcome) {
	putHeader(header[:], first&^0xff|status, 0, 0)
	return header[:], OutcomeRejected
}
