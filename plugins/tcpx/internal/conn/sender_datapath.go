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
// A position counts the bytes of the stream since the staging ring was last empty. The cursors are
// acked() <= assigned <= cut <= end:
//
//	end       the stream ends here
//	cut       everything before is in requests
//	assigned  everything before is in chunks, which are assigned to lanes
//	acked()   everything before is freed: the peer has it
//
// Requests are numbered from 0. requests.First() <= chunked() <= requests.Last():
//
//	requests.Last()   posted, so cut from the stream
//	chunked()         all of it is in chunks, and its credit is used
//	requests.First()  freed
//
// The staging ring holds what is from acked to end, except for what was sent straight from the
// caller's memory or a device's.
type Sender struct {
	assigned, cut, end uint64
	flush              bool // what is behind cut is to be sent, although it is no full request

	requests queue.Queue[sendRequest] // posted and not freed
	// credits are those that no request has used yet: a request pops one when all of it is in
	// chunks.
	credits queue.Queue[credit]

	staging []byte // a ring that is mapped twice in a row
	// lent is memory of the caller of Write that holds the last bytes of the stream; nil outside of
	// Write.
	lent []byte

	conn       *Conn
	peerWindow uint64 // receives that the peer posts ahead
	windowFull bool   // the stream has bytes that the send window keeps back
	// filled returns the position up to which the stream is in the staging ring; nil if all of it
	// is.
	filled func() uint64
	device deviceSpans
}

// sendRequest is one request.
type sendRequest struct {
	tag    uint64
	source []byte
	at     uint64 // position of the source in the stream
	marks  [MaxLanes]laneMark

	posted, chunkedAt, writtenAt int64 // the latter two only if they are traced, otherwise 0
}

// laneMark is how far a lane must be acknowledged for a request to be.
type laneMark struct {
	upTo    uint64 // bytes; 0 if the lane has no part of the request
	notices uint32
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

// PostSend appends a request to a stream that has nothing else. It is sent from source, which must
// not change until the request is freed.
func (s *Sender) PostSend(source []byte, tag uint64) error {
	err := s.post(source, tag)
	s.end = s.cut
	return err
}

// post posts a request with the next bytes of the stream that are not cut. They are in source,
// except for lent ones: Write copies those that the sockets did not take to source before it
// returns.
func (s *Sender) post(source []byte, tag uint64) error {
	c := s.conn
	switch {
	case c.Err != nil:
		return c.Err
	case s.requests.Full():
		return ErrNoFreeRequest
	case len(source) > c.config.Request:
		return ErrRequestSize
	}
	r := s.requests.Push()
	r.tag, r.source, r.at = tag, source, s.cut
	s.cut += uint64(len(source))
	clear(r.marks[:len(c.lanes)])
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

// chunked returns the number of the first request that is not all in chunks: each request pops its
// credit when it is.
func (s *Sender) chunked() uint64 { return s.credits.First() }

// unchunked returns how many requests are not all in chunks yet.
func (s *Sender) unchunked() int { return int(s.requests.Last() - s.chunked()) }

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
	for sent := 0; sent < sock.MaxCall; {
		assigned, err := s.assignChunks()
		if err != nil {
			return err
		}
		if assigned {
			s.conn.control.flush() // the peer can receive the bytes only after the record
		}
		n, err := s.conn.driver.send()
		if err != nil {
			return err
		}
		if n == 0 && !assigned {
			return nil
		}
		sent += n
	}
	return nil
}

// assignChunks cuts requests that have credit into chunks and assigns these to lanes that have a
// free task. It reports whether it assigned any.
func (s *Sender) assignChunks() (assigned bool, err error) {
	c := s.conn
	for !s.credits.Empty() && s.unchunked() > 0 {
		number := s.chunked()
		r, credit := s.requests.At(number), s.credits.Head()
		switch {
		case r.tag != credit.tag:
			return assigned, c.refuse(refusalTag, ErrTagMismatch)
		case len(r.source) > credit.size:
			return assigned, c.refuse(refusalTruncated, ErrTruncated)
		}
		for {
			to := s.chooseLane()
			offset := int(s.assigned - r.at)
			left := len(r.source) - offset
			if to < 0 && left > 0 || !c.control.hasRoomForChunk() {
				return assigned, nil
			}
			size := min(c.config.Chunk, left)
			c.control.put(record{kind: recordChunk, lane: uint8(max(to, 0)),
				index: uint16(number % Requests), size: uint32(size), offset: uint32(offset),
				total: uint32(len(r.source)), tag: r.tag})
			assigned = true
			if size > 0 {
				s.assign(to, r, size)
			}
			if size == left {
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
		bytes := l.given
		if s.conn.config.LeastLoaded {
			bytes -= l.sent
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
	l.given += uint64(size)
	r.marks[to].upTo = l.given
	s.assigned += uint64(size)
	*l.tasks.Push() = sendTask{request: r, end: s.assigned, left: size}
	s.conn.counters.Chunks++
}

// sourceOf returns the bytes of a request from one position to another, in two parts if the end is
// lent.
func (s *Sender) sourceOf(r *sendRequest, from, to uint64) (first, second []byte) {
	at := s.lentAt()
	middle := min(max(from, at), to)
	if middle < to {
		second = s.lent[middle-at : to-at]
	}
	return r.source[from-r.at : middle-r.at], second
}

// bookSent books bytes that a lane's socket has taken, for its oldest tasks.
func (s *Sender) bookSent(l *lane, bytes int) {
	k := s.conn.counters
	k.SentBytes += uint64(bytes)
	l.sent += uint64(bytes)
	for bytes > 0 {
		t := l.tasks.Head()
		n := min(bytes, t.left)
		bytes -= n
		if t.left -= n; t.left > 0 {
			return
		}
		t.request.marks[l.index].notices = l.Sends
		if k.tracing() {
			t.request.writtenAt = clock.Now()
		}
		l.tasks.Pop()
	}
}

// FreeAll frees the requests that are acknowledged, and their part of the staging ring.
func (s *Sender) FreeAll() {
	for s.freeOldest() {
	}
}

// freeOldest frees the oldest request if it was acknowledged, and reports whether it has. It
// returns false if there is none.
func (s *Sender) freeOldest() bool {
	number := s.requests.First()
	if number == s.chunked() { // not all of it is in chunks, or there is none
		return false
	}
	r := s.requests.Head()
	if !s.acknowledged(r, number) {
		return false
	}
	now := clock.Now()
	s.conn.counters.SendNS += uint64(now - r.posted)
	s.conn.counters.traceRequest(traced{s.conn.peer, &sendTrace, number % Requests, len(r.source),
		[...]int64{r.posted, r.chunkedAt, r.writtenAt, now, now}})
	r.source = nil
	s.requests.Pop()
	s.device.free(s.acked())
	return true
}

// acknowledged reports whether the peer has all of a request. A credit for a request that is a
// window of receives later proves it at no cost, because the peer has consumed this one. Without
// one it asks TCP, which may know late because acknowledgements are delayed.
func (s *Sender) acknowledged(r *sendRequest, number uint64) bool {
	c := s.conn
	consumed := s.credits.Last() > number+s.peerWindow
	for i := range c.lanes {
		l, mark := &c.lanes[i], &r.marks[i]
		if l.sent < mark.upTo {
			return false
		}
		if c.zeroCopy && mark.upTo > 0 && int32(mark.notices-l.Notices) > 0 {
			if c.driver.readNotices(l); int32(mark.notices-l.Notices) > 0 {
				return false
			}
		}
		if consumed || mark.upTo == 0 {
			continue
		}
		c.counters.Calls[sock.Others]++
		// Signed: a helper may have sent bytes that are not booked yet, so more can be
		// unacknowledged than was ever booked as sent.
		if int64(l.sent)-int64(sock.Unacknowledged(l.FD)) < int64(mark.upTo) {
			return false
		}
	}
	return true
}

// idle reports whether nothing is left to be sent.
func (s *Sender) idle() bool {
	return !s.flush && s.unchunked() == 0 && s.conn.idleLanes()
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
