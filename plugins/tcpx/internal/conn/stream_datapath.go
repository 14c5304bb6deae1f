package conn

// minDirect is the size from which Write sends a payload without copying it to the staging ring
// first: the copy then costs about what a system call costs.
const minDirect = 32 << 10

// SetStaging gives the stream its staging ring: memory that is mapped twice in a row. If others
// than Write fill the ring, filled returns the position up to which they have; otherwise it is nil.
func (s *Sender) SetStaging(ring []byte, filled func() uint64) {
	s.staging, s.filled = ring, filled
}

func (s *Sender) size() uint64 { return uint64(len(s.staging) / 2) }

// Offset returns where in the staging ring a position of the stream is.
func (s *Sender) Offset(position uint64) uint64 { return (position - s.first) % s.size() }

// at returns size bytes of the staging ring from a position on.
func (s *Sender) at(position, size uint64) []byte { return s.staging[s.Offset(position):][:size] }

// End returns the position of the end of the stream.
func (s *Sender) End() uint64 { return s.end }

// hasRoom reports whether the staging ring has room for size bytes. It frees the requests that
// credits prove consumed, and asks TCP about the others only when the ring is half full.
// When the ring is empty, the stream starts again at its beginning, which is still in the caches;
// the ring is larger than they are.
func (s *Sender) hasRoom(size uint64) bool {
	for s.acked != s.end && s.credits.Last() > s.requests.First()+s.peerWindow && s.FreeOldest() {
	}
	if s.acked == s.end {
		s.first = s.end
	}
	if s.end+size-s.acked > s.size()/2 {
		s.freeAll()
	}
	return s.end+size-s.acked <= s.size()
}

// Skip appends size bytes that the caller itself writes to the staging ring. There must be room.
func (s *Sender) Skip(size int) { s.end += uint64(size) }

// Write appends a payload, for which there must be room. It copies the payload to the staging ring;
// of a large one, only what the sockets do not take at once.
func (s *Sender) Write(payload []byte) {
	c, size := s.conn, uint64(len(payload))
	if size >= minDirect && c.control.fd >= 0 && !c.zeroCopy && c.config.Threads == 0 {
		s.writeDirect(payload)
		return
	}
	copy(s.at(s.end, size), payload)
	s.end += size
	c.counters.Staged += size
	if size > 0 {
		c.counters.Stagings++
	}
}

// writeDirect sends what the sockets take of a payload straight from where it is, and copies the
// rest to the staging ring.
func (s *Sender) writeDirect(payload []byte) {
	c := s.conn
	s.borrowed, s.borrowedAt = payload, s.end
	s.end += uint64(len(payload))
	before := c.counters.SentBytes
	_ = c.Send(true) // the next Receive finds the error
	// Chunks that were not sent in full, and then everything that is no chunk yet.
	for i := range c.lanes {
		tasks := &c.lanes[i].tasks
		for n := tasks.First(); n < tasks.Last(); n++ {
			t := tasks.At(n)
			s.copyToStaging(t.request.at+uint64(t.offset+t.done),
				t.request.at+uint64(t.offset+t.size))
		}
	}
	unassigned := s.cut
	if s.unchunked() > 0 {
		r := s.requests.At(s.credits.First())
		unassigned = r.at + uint64(r.assigned)
	}
	s.copyToStaging(unassigned, s.end)
	s.borrowed = nil
	c.counters.Direct += c.counters.SentBytes - before
}

// copyToStaging copies the stream from one position to another to the staging ring, as far as it is
// borrowed.
func (s *Sender) copyToStaging(from, to uint64) {
	if from = max(from, s.borrowedAt); from < to {
		copy(s.at(from, to-from), s.borrowed[from-s.borrowedAt:to-s.borrowedAt])
		s.conn.counters.Staged += to - from
		s.conn.counters.Stagings++
	}
}

// MarkFlushed lets the next Send cut a last request that is not full.
func (s *Sender) MarkFlushed() { s.flushed = s.end }

// WaitsForCredit reports whether a request waits for the peer's credit.
func (s *Sender) WaitsForCredit() bool { return s.credits.Last() < s.requests.Last() }

// cutRequests cuts the stream into requests as far as the send window allows.
func (s *Sender) cutRequests() error {
	c, request := s.conn, uint64(s.conn.config.Request)
	s.windowFull = false
	filled := s.end
	if s.filled != nil {
		filled = s.filled()
	}
	for c.Err == nil && (s.end-s.cut >= request || s.cut < s.flushed) {
		if !s.windowOpen() {
			s.windowFull = true
			c.timer.begin(c, 0)
			break
		}
		size := request
		if s.end-s.cut < size {
			size = s.flushed - s.cut
		}
		if s.cut+size > filled {
			break // a GPU still copies a part of the request
		}
		if err := s.PostSend(s.at(s.cut, size), s.cut, s.requests.Last()); err != nil {
			return err
		}
		s.cut += size
	}
	return nil
}

// windowOpen reports whether the send window has room; it frees requests to find some.
func (s *Sender) windowOpen() bool {
	window := s.conn.config.SendWindow
	if s.requests.Len() >= window {
		s.freeAll()
	}
	return s.requests.Len() < window
}

// freeAll frees the requests that are acknowledged, and their part of the staging ring.
func (s *Sender) freeAll() {
	for !s.requests.Empty() && s.FreeOldest() {
	}
}

// CanReply reports whether a reply of size bytes can leave with the next Send. A call may wait for
// the window or for credits, because its caller polls for the response. A reply may not, because
// the thread that sends it may never poll again. If it is larger than a window, CanReply accepts it
// when nothing else is under way, and the sender must poll.
func (s *Sender) CanReply(size int) bool {
	c, config := s.conn, s.conn.config
	if size <= c.messages.maxInline {
		return !c.control.full
	}
	if s.filled != nil && s.filled() < s.end {
		return false // it would be sent after the copies, by a later poll
	}
	if c.driver.unbooked() {
		_, _ = c.driver.send()
	}
	if !c.idleLanes() {
		return false
	}
	need := (int(s.end-s.cut) + size + config.Request - 1) / config.Request
	if s.sendable() < need {
		s.freeAll()
	}
	return s.sendable() >= need || s.cut == s.end && s.requests.Empty() && need > config.SendWindow
}

// sendable returns how many requests can be sent now.
func (s *Sender) sendable() int {
	credited := s.credits.Last() - min(s.credits.Last(), s.requests.Last())
	return min(s.conn.config.SendWindow-s.requests.Len(), int(credited))
}

// canSend reports whether there is something to send and room for it. A PostMessage may have freed
// requests and left the stream waiting.
func (s *Sender) canSend() bool {
	return s.cut < s.flushed && s.requests.Len() < s.conn.config.SendWindow ||
		!s.credits.Empty() && s.unchunked() > 0 && s.chooseLane() >= 0 &&
			s.conn.control.hasRoomForChunk()
}
