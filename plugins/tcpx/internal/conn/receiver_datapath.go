package conn

import (
	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/queue"
	"transportbench/plugins/tcpx/internal/bounce"
)

// Receiver is the stream from the peer. It arrives in requests, each of which is unpacked to the
// next slot of a destination ring. A full request fills its slot.
//
// A receive is room for one request. Posting it gives the peer a credit to send that request.
// Number n has index n%16 on the wire. Receives take these steps in the order of their numbers,
// from the last line of the table up. Each cursor is the number of the first receive that has not
// taken the step, so
// requests.First() <= launched <= reserved <= begun <= requests.Last():
//
//	requests.First()  consumed: it is unpacked, and its pages are given back
//	launched          all bytes have come, and the unpacker has it
//	reserved          it has bounce pages, into which its bytes may come
//	begun             the peer has announced its first chunk
//	requests.Last()   posted: the peer has a credit for it
type Receiver struct {
	requests                  queue.Queue[receiveRequest]
	launched, reserved, begun uint64
	pages                     int // bounce pages that the requests have

	// A position counts the bytes of the stream as if each receive were full. Deliver moves read,
	// and the next Poll moves released there, so
	// released <= read <= requests.First() * Config.Request.
	destination bounce.Buffer // a ring that is mapped twice in a row
	sizes       []int         // of consumed receives, by number modulo the slots; none in a [Side]
	read        uint64        // position of the next message
	released    uint64        // position before which the ring may be overwritten
	ringStart   uint64        // position that is at the start of the ring

	conn     *Conn
	memory   bounce.Allocator
	unpacker *bounce.Slots
	headers  *headerCache // nil unless messages go to device memory
}

// receiveRequest is one receive.
type receiveRequest struct {
	tag       uint64
	to        bounce.Buffer
	total     int // as the sender announced it
	announced int // bytes in announced chunks
	received  int // bytes
	pages     int // of bounce memory
	slot      int // of the unpacker; -1 if none is in use

	fragments []bounce.Fragment

	// arrivedAt is when the last byte arrived; until then, and for an empty request, it is when the
	// first chunk was announced.
	posted, arrivedAt, launchedAt, unpackedAt int64
}

func newReceiver(c *Conn, memory bounce.Allocator, unpacker *bounce.Slots) Receiver {
	r := Receiver{conn: c, memory: memory, unpacker: unpacker,
		requests: queue.New[receiveRequest](Requests), sizes: make([]int, c.config.Slots)}
	for i := range uint64(Requests) {
		r.requests.At(i).fragments = make([]bounce.Fragment, 0, c.config.Fragments)
	}
	if c.config.HostPrefix > 0 {
		r.headers = &headerCache{messageSlots: newMessageSlots(c.config.HostPrefix,
			c.messages.announced.Cap())}
		if f, ok := memory.(bounce.Fetcher); ok {
			r.headers.fetch = f.Fetch
		}
	}
	return r
}

// hasBegun reports whether a receive has begun and is not consumed.
func (r *Receiver) hasBegun() bool { return r.begun != r.requests.First() }

// pending returns how many receives are being unpacked, or are unpacked and not consumed.
func (r *Receiver) pending() uint64 { return r.launched - r.requests.First() }

// waitsForPages reports whether a receive has begun and has no pages.
func (r *Receiver) waitsForPages() bool { return r.reserved < r.begun }

// complete reports whether the next receive to be unpacked has arrived.
func (r *Receiver) complete() bool {
	if r.launched == r.reserved {
		return false
	}
	q := r.requests.At(r.launched)
	return q.received == q.total
}

// Posted returns how many receives were posted.
func (r *Receiver) Posted() uint64 { return r.requests.Last() }

// Consumed returns how many receives were consumed.
func (r *Receiver) Consumed() uint64 { return r.requests.First() }

// PostReceive posts a receive into a buffer under a tag. Its credit leaves with what is sent next.
func (r *Receiver) PostReceive(to bounce.Buffer, tag uint64) error {
	c := r.conn
	switch {
	case c.Err != nil:
		return c.Err
	case r.requests.Full():
		return ErrNoFreeRequest
	case to.Size > c.config.Request:
		return ErrRequestSize
	case c.control.room() < recordSize+roomForLast:
		// Messages and chunks leave room for 16 credits in this side's output buffer. So the peer
		// completes receives and never reads the control socket.
		return c.failWith(ErrProtocol)
	}
	number := r.requests.Last()
	q := r.requests.Push()
	*q = receiveRequest{tag: tag, to: to, slot: -1, posted: clock.Now(), fragments: q.fragments[:0]}
	k := c.counters
	k.Receives++
	k.ReceivePeak = max(k.ReceivePeak, uint64(r.requests.Len()))
	c.control.put(record{kind: recordCredit, index: uint16(number % Requests),
		size: uint32(to.Size), tag: tag})
	return nil
}

// expect handles the record of a chunk that is coming.
func (r *Receiver) expect(k *record) error {
	c := r.conn
	number := r.begun
	// The chunk belongs to the last receive that has begun, until all of it is announced.
	if r.hasBegun() {
		if last := r.requests.At(number - 1); last.announced < last.total {
			number--
		}
	}
	q := r.requests.At(number)
	offset, size, total := int(k.offset), int(k.size), int(k.total)
	switch {
	case number == r.requests.Last() || uint64(k.index) != number%Requests ||
		int(k.lane) >= len(c.lanes),
		offset != q.announced, offset+size > total, size == 0 && total > 0,
		offset > 0 && total != q.total,
		// A chunk begins a page, and pages are reserved by the bytes of a request.
		size%pageSize != 0 && offset+size < total:
		return ErrProtocol
	case k.tag != q.tag:
		return c.refuse(refusalTag, ErrTagMismatch)
	case total > q.to.Size:
		return c.refuse(refusalTruncated, ErrTruncated)
	}
	if offset == 0 {
		q.total, q.arrivedAt = total, clock.Now()
		c.timer.begin(c, q.arrivedAt)
		r.begun++
	}
	q.announced += size
	if size > 0 {
		l := &c.lanes[k.lane]
		if l.expected.Full() {
			return ErrProtocol
		}
		*l.expected.Push() = receiveTask{number: number, end: q.announced, left: size, last: -1}
	}
	return nil
}

// receiveChunks reserves pages for the receives that wait for them, receives what has come, and has
// complete receives unpacked.
func (r *Receiver) receiveChunks() error {
	for r.waitsForPages() {
		q := r.requests.At(r.reserved)
		pages := (q.total + pageSize - 1) / pageSize
		if !r.memory.Reserve(pages, r.pages > 0) {
			break
		}
		q.pages = pages
		r.pages += pages
		r.reserved++
	}
	if err := r.conn.driver.receive(); err != nil || !r.hasBegun() {
		return err
	}
	if err := r.launch(); err != nil {
		return err
	}
	return r.collect()
}

// bookReceived books bytes of a lane's oldest chunk, at most what is left of it.
func (r *Receiver) bookReceived(l *lane, n int) {
	t := l.expected.Head()
	q := r.requests.At(t.number)
	r.conn.counters.ReceivedBytes += uint64(n)
	l.received += uint64(n)
	q.received += n
	if q.received == q.total {
		q.arrivedAt = clock.Now()
	}
	if t.left -= n; t.left == 0 {
		l.expected.Pop()
	}
}

// launch begins to unpack complete receives, in order, while the unpacker has slots.
func (r *Receiver) launch() error {
	k := r.conn.counters
	for r.complete() {
		q := r.requests.At(r.launched)
		if q.total > 0 && r.conn.config.Unpack {
			slot, free := r.unpacker.Take()
			if !free {
				return nil
			}
			begin := clock.Now()
			if len(r.sizes) > 0 {
				q.to = r.place(q.total)
			}
			if err := r.unpack(q, slot); err != nil {
				r.unpacker.Return(slot)
				return err
			}
			k.UnpackCallNS += uint64(clock.Now() - begin)
			q.slot, q.launchedAt = slot, begin
		} else {
			q.unpackedAt = clock.Now()
			q.launchedAt = q.unpackedAt
		}
		r.launched++
		k.PendingPeak = max(k.PendingPeak, r.pending())
	}
	return nil
}

// unpack launches one receive in a slot of the unpacker.
func (r *Receiver) unpack(q *receiveRequest, slot int) error {
	if r.headers != nil {
		if err := r.headers.take(&r.conn.messages.announced, r.memory.Memory(), q); err != nil {
			return err
		}
	}
	if err := r.unpacker.Launch(slot, q.fragments, q.to); err != nil {
		return err
	}
	k := r.conn.counters
	k.Launches++
	k.Descriptors += uint64(len(q.fragments))
	k.UnpackedBytes += uint64(q.total)
	return nil
}

// collect takes back the slots of receives that are unpacked.
func (r *Receiver) collect() error {
	for n := r.requests.First(); n < r.launched; n++ {
		q := r.requests.At(n)
		if q.slot < 0 {
			continue
		}
		done, err := r.unpacker.Done(q.slot)
		if !done || err != nil {
			return err
		}
		r.unpacker.Return(q.slot)
		q.slot, q.unpackedAt = -1, clock.Now()
	}
	return nil
}

// Consume ends the oldest receive if it is unpacked, and gives its pages back. It returns the
// size of the receive.
func (r *Receiver) Consume() (size int, ok bool, err error) {
	if r.pending() == 0 {
		return 0, false, nil
	}
	c, q := r.conn, r.requests.Head()
	if q.slot >= 0 {
		if err := r.collect(); err != nil || q.slot >= 0 {
			return 0, false, c.failWith(err)
		}
	}
	now := clock.Now()
	c.counters.bookConsumed(q, now)
	c.counters.traceRequest(traced{c.peer, &receiveTrace, r.requests.First() % Requests, q.total,
		[...]int64{q.posted, q.arrivedAt, q.launchedAt, q.unpackedAt, now}})
	size = q.total
	r.recycle(q)
	r.requests.Pop()
	return size, true, nil
}

// recycle gives the pages of a receive back.
func (r *Receiver) recycle(q *receiveRequest) {
	r.memory.Give(q.fragments, q.pages)
	r.pages -= q.pages
	q.pages, q.fragments, q.to = 0, q.fragments[:0], bounce.Buffer{}
}

// The stream. Each receive is unpacked to the next slot of the destination ring. A full request
// fills its slot, so a message that takes several requests is contiguous.

// Allocate makes the destination ring and posts the first receives.
func (r *Receiver) Allocate() (err error) {
	r.destination, err = r.unpacker.Allocate(len(r.sizes) * r.conn.config.Request)
	if err == nil {
		r.postReceives()
	}
	return err
}

// Free releases the destination ring. Nothing may be under way.
func (r *Receiver) Free() error { return r.unpacker.Free(r.destination) }

// at returns size bytes of the destination ring from a position on.
func (r *Receiver) at(position uint64, size int) bounce.Buffer {
	request := uint64(r.conn.config.Request)
	ring := request * uint64(len(r.sizes))
	return r.destination.Slice(int((position-r.ringStart)%ring), size)
}

// place returns the memory for the next receive to be unpacked. If the ring is the host's and holds
// nothing else, that is the first slot, which is still in the caches; the ring is larger than they
// are. Device memory keeps old messages as long as it can.
func (r *Receiver) place(size int) bounce.Buffer {
	position := r.launched * uint64(r.conn.config.Request)
	if r.destination.Host != nil && r.released == position {
		r.ringStart = position
	}
	return r.at(position, size)
}

// Kept returns size bytes of the stream in device memory from a position on. ok is false if a
// receive that was posted since may have overwritten them.
func (r *Receiver) Kept(position uint64, size int) (b bounce.Buffer, ok bool) {
	if r.requests.Last()-position/uint64(r.conn.config.Request) > uint64(len(r.sizes)) {
		return bounce.Buffer{}, false
	}
	return r.at(position, size), true
}

// ReleaseDelivered lets new receives overwrite the messages that were delivered.
func (r *Receiver) ReleaseDelivered() { r.released = r.read }

// Refill consumes what is unpacked and posts new receives in its place. Their credits leave with
// what is sent next: with a reply, if there is one, so that they cost no packet.
func (r *Receiver) Refill() error {
	for {
		number := r.requests.First()
		size, ok, err := r.Consume()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		r.sizes[number%uint64(len(r.sizes))] = size
	}
	r.postReceives()
	return nil
}

// postReceives posts as many receives as the window and the destination ring allow.
func (r *Receiver) postReceives() {
	config, request := r.conn.config, uint64(r.conn.config.Request)
	for r.requests.Len() < config.ReceiveWindow &&
		(r.requests.Last()+1)*request-r.released <= uint64(len(r.sizes))*request {
		if r.PostReceive(bounce.Buffer{Size: config.Request}, r.requests.Last()) != nil {
			return // the next Receive finds the error
		}
	}
}

// size returns the bytes of a receive that was consumed.
func (r *Receiver) size(number uint64) int { return r.sizes[number%uint64(len(r.sizes))] }

// arrived reports whether the next size bytes of the stream are in receives that were consumed.
func (r *Receiver) arrived(size int) (bool, error) {
	if size == 0 {
		return true, nil
	}
	request, end := uint64(r.conn.config.Request), r.read+uint64(size)
	if r.requests.First()*request < end {
		return false, nil
	}
	for n := r.read / request; n*request < end; n++ {
		// A message continues only behind a full request.
		if uint64(r.size(n)) < min(end-n*request, request) {
			return false, ErrProtocol
		}
	}
	return true, nil
}

// skip moves behind a message of size bytes that has arrived.
func (r *Receiver) skip(size int) {
	r.read += uint64(size)
	request := uint64(r.conn.config.Request)
	n := r.read / request
	for n < r.requests.First() && r.read >= n*request+uint64(r.size(n)) {
		n++
		r.read = n * request
	}
}
