package conn

import (
	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/queue"
	"transportbench/core/fabric/sock"
)

// Sender is the stream to the peer. Its bytes are cut into requests of up to [Config].Request. A
// full one is cut as soon as there is enough, a shorter one ends with a message and is cut when the
// stream is flushed. Once the peer has sent a credit for a request, it is cut into chunks, each of
// which becomes a task of a lane. It is freed when the peer has it all.
//
// Positions count the bytes of the stream from its beginning. The staging ring holds what is from
// acked to end, except for what was sent straight from the caller's memory or a device's.
type Sender struct {
	requests queue.Queue[sendRequest] // posted and not freed
	// credits are those that no request has used yet: a request pops one when all of it is in
	// chunks.
	credits queue.Queue[credit]

	staging []byte // a ring that is mapped twice in a row
	end     uint64 // position of the end of the stream
	flushed uint64 // position up to which the stream is to be sent
	cut     uint64 // position up to which it is cut into requests
	acked   uint64 // position up to which the peer has it
	first   uint64 // position that is at the start of the staging ring

	// borrowed is memory of the caller of Write that holds the stream from position borrowedAt on;
	// nil outside of Write. The staging ring holds what is before.
	borrowed   []byte
	borrowedAt uint64

	conn       *Conn
	peerWindow uint64 // receives that the peer posts ahead
	sentNow    int    // bytes sent in this call of sendChunks
	windowFull bool   // the stream has bytes that the send window keeps back
	// filled returns the position up to which the stream is in the staging ring; nil if all of it
	// is.
	filled func() uint64
	device deviceSpans
}

// sendRequest is one request.
type sendRequest struct {
	tag      uint64
	source   []byte
	size     int
	at       uint64 // position of the source in the stream
	assigned int    // bytes that are assigned to lanes
	written  int    // bytes that sockets have taken
	lanes    uint16 // set of lanes that have a part of it
	marks    [MaxLanes]laneMark

	posted, chunkedAt, writtenAt int64 // the latter two only if they are traced, otherwise 0
}

// laneMark is how far a lane must be acknowledged for a request to be.
type laneMark struct {
	position uint64
	notices  uint32
}

// credit is a receive that the peer has posted.
type credit struct {
	tag  uint64
	size int
}

func newSender(c *Conn) Sender {
	return Sender{conn: c, requests: queue.New[sendRequest](Requests),
		credits: queue.New[credit](Requests), peerWindow: Requests}
}

// PostSend posts a request with the stream's bytes from position at. They are in source, except for
// borrowed ones: Write copies those that the sockets did not take to source before it returns. The
// memory must not change until the request is freed.
func (s *Sender) PostSend(source []byte, at, tag uint64) error {
	c, size := s.conn, len(source)
	switch {
	case c.Err != nil:
		return c.Err
	case s.requests.Full():
		return ErrNoFreeRequest
	case size > c.config.Request:
		return ErrRequestSize
	}
	r := s.requests.Push()
	r.tag, r.source, r.size, r.at = tag, source, size, at
	r.assigned, r.written, r.lanes = 0, 0, 0
	r.posted, r.chunkedAt, r.writtenAt = clock.Now(), 0, 0
	c.timer.begin(c, r.posted)
	c.counters.Sends++
	c.counters.SendPeak = max(c.counters.SendPeak, uint64(s.requests.Len()))
	return nil
}

// UnderWay returns how many requests are posted and not freed.
func (s *Sender) UnderWay() int { return s.requests.Len() }

// Posted returns how many requests were posted.
func (s *Sender) Posted() uint64 { return s.requests.Last() }

// unchunked returns how many requests are not all in chunks yet.
func (s *Sender) unchunked() int { return int(s.requests.Last() - s.credits.First()) }

// addCredit takes a credit of the peer. The peer uses an index of its ring again only after it has
// consumed what came for it before.
func (s *Sender) addCredit(r *record) error {
	if s.credits.Full() || uint64(r.index) != s.credits.Last()%Requests {
		return ErrProtocol
	}
	*s.credits.Push() = credit{tag: r.tag, size: int(r.size)}
	return nil
}

// sendChunks makes chunks of requests that have credit and sends them, up to sock.MaxCall bytes, so
// that the rest of the thread's work gets its turn.
func (s *Sender) sendChunks() error {
	if s.requests.Empty() {
		return nil
	}
	for s.sentNow = 0; s.sentNow < sock.MaxCall; {
		assigned, err := s.assignChunks()
		if err != nil {
			return err
		}
		if assigned {
			s.conn.control.flush() // the peer can receive the bytes only after the record
		}
		sent, err := s.conn.driver.send()
		if err != nil {
			return err
		}
		if !sent && !assigned {
			return nil
		}
	}
	return nil
}

// assignChunks cuts requests that have credit into chunks and assigns these to lanes that have a
// free task. It reports whether it assigned any.
func (s *Sender) assignChunks() (assigned bool, err error) {
	c := s.conn
	for !s.credits.Empty() && s.unchunked() > 0 {
		number := s.credits.First()
		r, credit := s.requests.At(number), s.credits.Head()
		switch {
		case r.tag != credit.tag:
			return assigned, c.refuse(refusalTag, ErrTagMismatch)
		case r.size > credit.size:
			return assigned, c.refuse(refusalTruncated, ErrTruncated)
		}
		for {
			to := s.chooseLane()
			if to < 0 && r.size > 0 || !c.control.hasRoomForChunk() {
				return assigned, nil
			}
			size := min(c.config.Chunk, r.size-r.assigned)
			c.control.put(record{kind: recordChunk, lane: uint8(max(to, 0)),
				index: uint16(number % Requests), size: uint32(size), offset: uint32(r.assigned),
				total: uint32(r.size), tag: r.tag})
			assigned = true
			if size > 0 {
				s.assign(to, r, size)
			}
			if r.assigned == r.size {
				break
			}
		}
		if c.counters.tracing() {
			r.chunkedAt = clock.Now()
		}
		s.credits.Pop()
	}
	return assigned, nil
}

// chooseLane returns the lane for the next chunk, or -1 if none has a free task. Round robin counts
// the bytes that a lane was ever given instead of its turns: a message of a chunk and a header is a
// full chunk and a short one, and by turns every other lane would have the short ones only.
func (s *Sender) chooseLane() int {
	best, fewest := -1, uint64(0)
	for i := range s.conn.lanes {
		l := &s.conn.lanes[i]
		bytes := uint64(l.queued)
		if !s.conn.config.LeastLoaded {
			bytes += l.position
		}
		if l.tasks.Len() < laneTasks && (best < 0 || bytes < fewest) {
			best, fewest = i, bytes
		}
	}
	return best
}

// assign makes the next size bytes of a request a task of a lane.
func (s *Sender) assign(to int, r *sendRequest, size int) {
	l := &s.conn.lanes[to]
	*l.tasks.Push() = sendTask{request: r, offset: r.assigned, size: size}
	l.queued += size
	s.conn.driver.handOver(l, r.source[r.assigned:r.assigned+size])
	r.assigned += size
	r.lanes |= 1 << to
	s.conn.counters.Chunks++
}

// sourceOf returns the memory of a request from one offset to another, in two parts if the end is
// borrowed.
func (s *Sender) sourceOf(r *sendRequest, from, to int) (first, second []byte) {
	if end := r.at + uint64(to); s.borrowed != nil && end > s.borrowedAt {
		middle := min(max(from, int(int64(s.borrowedAt-r.at))), to)
		begin := r.at + uint64(middle) - s.borrowedAt
		return r.source[from:middle], s.borrowed[begin : end-s.borrowedAt]
	}
	return r.source[from:to], nil
}

// bookSent books bytes that a lane's socket has taken, for its oldest tasks.
func (s *Sender) bookSent(l *lane, bytes int) {
	k := s.conn.counters
	k.SentBytes += uint64(bytes)
	s.sentNow += bytes
	l.position += uint64(bytes)
	l.queued -= bytes
	for bytes > 0 {
		t := l.tasks.Head()
		r := t.request
		n := min(bytes, t.size-t.done)
		bytes -= n
		t.done += n
		if r.written += n; r.written == r.size && k.tracing() {
			r.writtenAt = clock.Now()
		}
		r.marks[l.index] = laneMark{position: l.position - uint64(bytes), notices: l.Sends}
		if t.done == t.size {
			l.tasks.Pop()
		}
	}
}

// FreeOldest frees the oldest request if it was acknowledged, and reports whether it has. It
// returns false if there is none.
func (s *Sender) FreeOldest() bool {
	number := s.requests.First()
	if number == s.credits.First() { // not all of it is in chunks, or there is none
		return false
	}
	r := s.requests.Head()
	if r.written < r.size || !s.acknowledged(r, number) {
		return false
	}
	r.source = nil
	now := clock.Now()
	s.conn.counters.SendNS += uint64(now - r.posted)
	s.conn.counters.traceRequest(traced{s.conn.peer, &sendTrace, number % Requests, r.size,
		[...]int64{r.posted, r.chunkedAt, r.writtenAt, now, now}})
	s.acked += uint64(r.size)
	s.device.free(s.acked)
	s.requests.Pop()
	return true
}

// acknowledged reports whether the peer has all of a request. A credit for a request that is a
// window of receives later proves it at no cost, because the peer has consumed this one. Without
// one it asks TCP, which may know late because acknowledgements are delayed.
func (s *Sender) acknowledged(r *sendRequest, number uint64) bool {
	c := s.conn
	consumed := s.credits.Last() > number+s.peerWindow
	if consumed && !c.zeroCopy {
		return true
	}
	for i := range c.lanes {
		if r.lanes&(1<<i) == 0 {
			continue
		}
		l := &c.lanes[i]
		if c.zeroCopy && int32(r.marks[i].notices-l.Notices) > 0 {
			if c.driver.readNotices(l); int32(r.marks[i].notices-l.Notices) > 0 {
				return false
			}
		}
		if consumed {
			continue
		}
		c.counters.Calls[sock.Others]++
		// Signed: a helper may have sent bytes that are not booked yet, so more can be
		// unacknowledged than was ever booked as sent.
		if int64(l.position)-int64(sock.Unacknowledged(l.FD)) < int64(r.marks[i].position) {
			return false
		}
	}
	return true
}

// idle reports whether nothing is left to be sent.
func (s *Sender) idle() bool {
	return s.cut == s.flushed && s.unchunked() == 0 && s.conn.idleLanes()
}

// idleLanes reports whether no lane has anything to send.
func (c *Conn) idleLanes() bool {
	for i := range c.lanes {
		if !c.lanes[i].tasks.Empty() {
			return false
		}
	}
	return true
}
