package conn

// minLent is the size from which Write sends a payload without copying it to the staging ring
// first: the copy then costs about what a system call costs.
const minLent = 32 << 10

// SetStaging gives the stream its staging ring: memory that is mapped twice in a row. If others
// than Write fill the ring, filled returns the position up to which they have; otherwise it is nil.
func (s *Sender) SetStaging(ring []byte, filled func() uint64) {
	s.staging, s.filled = ring, filled
}

func (s *Sender) size() uint64 { return uint64(len(s.staging) / 2) }

// Offset returns where in the staging ring a position of the stream is.
func (s *Sender) Offset(position uint64) uint64 { return position % s.size() }

// at returns size bytes of the staging ring from a position on.
func (s *Sender) at(position, size uint64) []byte { return s.staging[s.Offset(position):][:size] }

// End returns the position of the end of the stream.
func (s *Sender) End() uint64 { return s.end }

// acked returns the position before which the peer has everything.
func (s *Sender) acked() uint64 {
	if s.requests.Empty() {
		return s.cut
	}
	return s.requests.Head().at
}

// makeRoom makes room for size bytes in the staging ring and reports whether there is enough. It
// frees the requests that credits prove consumed, and asks TCP about the others only when the ring
// is half full. If all requests are freed, it sets the cursors to 0: the beginning of the ring is
// still in the caches, which are smaller than the ring.
func (s *Sender) makeRoom(size uint64) bool {
	for s.credits.Last() > s.requests.First()+s.peerWindow && s.freeOldest() {
	}
	if s.acked() == s.end {
		s.assigned, s.cut, s.end = 0, 0, 0
	}
	if s.end+size-s.acked() > s.size()/2 {
		s.FreeAll()
	}
	return s.end+size-s.acked() <= s.size()
}

// Skip appends size bytes that the caller itself writes to the staging ring. There must be room.
func (s *Sender) Skip(size int) { s.end += uint64(size) }

// Write appends a payload, for which there must be room. Of a large one it copies to the staging
// ring only what the sockets do not take at once.
func (s *Sender) Write(payload []byte) {
	if len(payload) < minLent || !s.conn.driver.lends() {
		s.Copy(payload)
		return
	}
	c := s.conn
	s.lent = payload
	s.end += uint64(len(payload))
	before := c.counters.SentBytes
	_ = c.Send(true) // the next Receive finds the error
	for i := range c.lanes {
		tasks := &c.lanes[i].tasks
		for n := tasks.First(); n < tasks.Last(); n++ {
			t := tasks.At(n)
			s.copyLent(t.end-uint64(t.left), t.end)
		}
	}
	s.copyLent(s.assigned, s.end)
	s.lent = nil
	c.counters.Direct += c.counters.SentBytes - before
}

// Copy appends a payload as Write does, but copies it to the staging ring and sends nothing. It is
// for the beginning of a message, which must not leave alone.
func (s *Sender) Copy(payload []byte) {
	s.lent = payload
	s.end += uint64(len(payload))
	s.copyLent(s.lentAt(), s.end)
	s.lent = nil
}

// lentAt returns the position of the lent bytes, which are the last of the stream.
func (s *Sender) lentAt() uint64 { return s.end - uint64(len(s.lent)) }

// copyLent copies the lent bytes from one position to another to the staging ring.
func (s *Sender) copyLent(from, to uint64) {
	at := s.lentAt()
	if from = max(from, at); from < to {
		copy(s.at(from, to-from), s.lent[from-at:to-at])
		s.conn.counters.Staged += to - from
		s.conn.counters.Stagings++
	}
}

// MarkFlushed lets the next Send cut a last request that is not full.
func (s *Sender) MarkFlushed() { s.flush = s.cut < s.end }

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
	for c.Err == nil && (s.end-s.cut >= request || s.flush) {
		if s.requests.Len() >= c.config.SendWindow {
			s.FreeAll()
		}
		if s.windowFull = s.requests.Len() >= c.config.SendWindow; s.windowFull {
			c.timer.begin(c, 0)
			break
		}
		size := min(request, s.end-s.cut)
		if s.cut+size > filled {
			break // a GPU still copies a part of the request
		}
		if err := s.post(s.at(s.cut, size), s.requests.Last()); err != nil {
			return err
		}
		s.flush = s.flush && s.cut < s.end
	}
	return nil
}

// CanReply reports whether a reply of size bytes can leave with the next Send. A call may wait for
// the window or for credits, because its caller polls for the response. A reply may not, because
// the thread that sends it may never poll again. If it is larger than a window, CanReply accepts it
// when nothing else is under way, and the sender must poll. CanReply itself may send bytes of the
// lanes and free requests, to make room.
func (s *Sender) CanReply(size int) bool {
	c, config := s.conn, s.conn.config
	if size <= c.messages.maxInline {
		return !c.control.full
	}
	if s.filled != nil && s.filled() < s.end {
		return false // it would be sent after the copies, by a later poll
	}
	if c.driver.hasWork() {
		_, _ = c.driver.send()
	}
	if !c.idleLanes() {
		return false
	}
	need := (int(s.end-s.cut) + size + config.Request - 1) / config.Request
	if s.sendable() < need {
		s.FreeAll()
	}
	return s.sendable() >= need || s.cut == s.end && s.requests.Empty() && need > config.SendWindow
}

// sendable returns how many requests can be sent now.
func (s *Sender) sendable() int {
	return min(s.conn.config.SendWindow-s.requests.Len(),
		max(0, int(s.credits.Last()-s.requests.Last())))
}

// canSend reports whether there is something to send and room for it. A PostMessage may have freed
// requests and left the stream waiting.
func (s *Sender) canSend() bool {
	return s.flush && s.requests.Len() < s.conn.config.SendWindow ||
		!s.credits.Empty() && s.unchunked() > 0 && s.chooseLane() >= 0 &&
			s.conn.control.hasRoomForChunk()
}
