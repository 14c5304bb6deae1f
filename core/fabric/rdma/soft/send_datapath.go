package soft

import (
	"encoding/binary"
	"sync/atomic"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
)

// PostReceive implements [SharedReceiveQueue].
func (r *receiveQueue) PostReceive(requests []rdma.ReceiveRequest) (int, error) {
	if r.closed {
		return 0, rdma.ErrClosed
	}
	n := min(uint64(len(requests)), r.capacity-(r.tail-r.head))
	before := copy(r.queue[r.tail&uint64(len(r.queue)-1):], requests[:n]) // the end of the queue
	copy(r.queue, requests[before:n])
	r.tail += n
	if n < uint64(len(requests)) {
		return int(n), rdma.ErrQueueFull
	}
	return len(requests), nil
}

// PostReceive implements [QueuePair].
func (q *queuePair) PostReceive(requests []rdma.ReceiveRequest) (int, error) {
	switch {
	case q.closed:
		return 0, rdma.ErrClosed
	case q.config.Shared != nil:
		return 0, rdma.ErrSharedReceives
	}
	return q.receives.PostReceive(requests)
}

// Errors of the data path, which must not allocate.
var errOverrun = rdma.Invalid("more signaled requests than the completion queue holds")

// PostSend implements [QueuePair].
func (q *queuePair) PostSend(requests []rdma.SendRequest) (int, error) {
	for i := range requests {
		r := &requests[i]
		if r.Opcode == rdma.WriteWithImmediate && r.Flags == rdma.Inline &&
			q.WriteInline(r.ID, r.Local, r.Length, r.Remote, r.RemoteKey, r.Immediate) {
			continue
		}
		if err := q.post(r); err != nil {
			return i, err
		}
	}
	return len(requests), nil
}

// WriteInline implements [rdma.InlineWriter]. It takes a request whose immediate fits 16 signed
// bits and which writes less than 32 KiB away from the last WRITE that the receiver copies, in the
// same region. It sends this distance instead of key and address.
func (q *queuePair) WriteInline(id, local uint64, length uint32, remote uint64,
	remoteKey, immediate uint32) bool {
	distance := int64(remote - q.sentTo.address)
	// length-1 also refuses 0.
	if length-1 >= uint32(q.config.MaxInline) || remoteKey != q.sentTo.key ||
		immediate != uint32(int16(immediate)) || distance != int64(int16(distance)) ||
		q.posted-q.retired >= q.depth || !q.usable() {
		return false
	}
	line := q.peer.wire.at(q.slots.offset(q.sent))
	generation := q.slots.generation(q.sent)
	word := packSlot(generation, rdma.WriteWithImmediate, slotNear, uint16(length))
	if q.shared.owned && length <= firstLine && generation%sharedLaps != 0 {
		line, word = q.shared.words, q.shared.pack(q.sent, length)
		q.shared.pass()
	}
	copyShort(line.at(slotNearPayload), wordsAt(local), uint64(length))
	line.store64(0, word|uint64(uint16(immediate))<<slotImmediateShift|
		uint64(distance)<<slotDistanceShift)
	q.syscalls += q.peer.notify()
	q.copied(int(length))
	q.sentTo.address = remote
	q.sent++
	q.deferred = q.sent
	if length > firstLine {
		// The peer polls the first line of the next slot, but its second line can be fetched for
		// writing now.
		shm.PrefetchWrite(q.peer.wire.plain32(q.slots.offset(q.sent) + 64))
	}
	e := &q.entries[q.posted&q.mask]
	q.posted++
	e.id, e.need, e.length, e.opcode = id, q.sent, length, rdma.WriteWithImmediate
	e.status, e.signaled, e.readPending = rdma.StatusOK, false, false
	return true
}

// post posts any request.
func (q *queuePair) post(r *rdma.SendRequest) error {
	datagrams := q.config.Type == rdma.UnreliableDatagram
	switch {
	case q.closed:
		return rdma.ErrClosed
	case q.peer.remote == nil && !datagrams:
		return rdma.ErrNotConnected
	case q.posted-q.retired >= q.depth:
		return rdma.ErrQueueFull
	case r.Flags&rdma.Inline != 0 && int(r.Length) > q.config.MaxInline:
		return rdma.ErrInlineLength
	case r.Flags&rdma.Signaled != 0 && q.cq.signaled >= q.cq.capacity:
		return errOverrun
	}
	e := &q.entries[q.posted&q.mask]
	e.status, e.readPending = rdma.StatusOK, false
	if datagrams {
		if err := q.datagram(r, e); err != nil {
			return err
		}
	} else {
		if r.Opcode < rdma.Write || r.Opcode > rdma.CompareSwap {
			return rdma.ErrOpcode
		}
		if r.Opcode > rdma.Read && (r.Length != 8 || r.Remote%8 != 0) {
			return rdma.ErrAtomic
		}
		q.request(r, e)
	}
	e.id, e.opcode, e.length = r.ID, r.Opcode, r.Length
	e.need = q.sent
	if e.signaled = r.Flags&rdma.Signaled != 0; e.signaled {
		q.signaled++
		q.cq.signaled++
	}
	q.posted++
	return nil
}

// request starts a request of an RC queue pair and completes as much of it as possible now.
func (q *queuePair) request(r *rdma.SendRequest, e *sendEntry) {
	payload, ok := q.payload(r, e)
	if !ok {
		return
	}
	if q.peerGone() {
		q.fail(e, rdma.StatusRetryExceeded)
		return
	}
	if r.Opcode >= rdma.Read {
		q.read(r, e, payload)
		return
	}
	flags := uint8(0)
	if r.Flags&rdma.Signaled != 0 {
		flags |= slotAck
	}
	inPlace := r.Flags&rdma.InPlace != 0
	if len(payload) <= slotInline && !inPlace && (len(payload) > 0 || r.Opcode != rdma.Write) {
		q.putMessage(r, flags, payload) // the receiver checks the key
		return
	}
	if writes(r.Opcode) && r.Length > 0 {
		target, ok := q.peer.remote.resolve(r.RemoteKey, r.Remote, r.Length, rdma.RemoteWrite)
		switch {
		case !ok:
			q.fail(e, rdma.StatusRemoteAccess)
			return
		case inPlace:
			flags |= slotWritten
		case q.caughtUp(): // messages that the peer has yet to take must take effect first
			copy(target, payload)
			q.copied(len(payload))
			flags |= slotWritten
		}
	}
	if r.Opcode == rdma.Write && r.Length == 0 {
		// As with a device, its key is not checked. But the region is mapped, so that later ones
		// find it.
		_, _ = q.peer.remote.resolve(r.RemoteKey, r.Remote, 0, rdma.RemoteWrite)
	}
	if r.Opcode == rdma.Write && (r.Length == 0 || flags&slotWritten != 0) {
		if r.Flags&rdma.Signaled != 0 {
			q.requestAck()
		}
		return // the peer need not know
	}
	q.putMessage(r, flags, nil)
}

// MapRemote implements [rdma.RemoteMapper].
func (q *queuePair) MapRemote(remote uint64, remoteKey, length uint32) []byte {
	if !q.usable() {
		return nil
	}
	memory, _ := q.peer.remote.resolve(remoteKey, remote, length, rdma.RemoteWrite)
	return memory
}

// payload returns the local memory of a request. If ok is false, the request has failed.
func (q *queuePair) payload(r *rdma.SendRequest, e *sendEntry) (payload []byte, ok bool) {
	switch {
	case q.failed:
		q.fail(e, rdma.StatusFlushed)
		return nil, false
	case r.Length == 0 || r.Flags&rdma.InPlace != 0:
		return nil, true
	case r.Flags&rdma.Inline != 0:
		return wordsAt(r.Local).slice(0, int(r.Length)), true
	}
	if payload, ok = q.device.localMemory(r.LocalKey, r.Local, r.Length, 0); !ok {
		q.fail(e, rdma.StatusLocalProtection)
	}
	return payload, ok
}

// caughtUp reports whether the peer has taken every message that takes effect then.
func (q *queuePair) caughtUp() bool {
	if q.taken < q.deferred {
		q.readTaken()
	}
	return q.taken >= q.deferred
}

// readTaken reads how many messages the peer has taken. It pairs with the store in
// reportTaken and ignores a value that is out of range.
func (q *queuePair) readTaken() {
	if head := q.peer.wire.load64(wireHead); head-q.taken <= q.sent-q.taken {
		q.taken = head
	}
}

// putMessage puts a message on the peer's wire. The wire has a slot for each request of the
// send queue, so there is always room.
func (q *queuePair) putMessage(r *rdma.SendRequest, flags uint8, inline []byte) {
	at := q.slots.offset(q.sent)
	length := uint16(len(inline))
	if r.Length > 0 && flags&slotWritten == 0 && writes(r.Opcode) {
		q.sentTo = writeTarget{r.RemoteKey, r.Remote}
	}
	*q.peer.wire.plain32(at + slotImmediate) = r.Immediate
	*q.peer.wire.plain32(at + slotKey) = r.RemoteKey
	*q.peer.wire.plain64(at + slotAddress) = r.Remote
	if inline == nil && r.Length > 0 {
		length = slotLong
		*q.peer.wire.plain32(at + slotLength) = r.Length
		*q.peer.wire.plain32(at + slotLocalKey) = r.LocalKey
		*q.peer.wire.plain64(at + slotLocal) = r.Local
	} else {
		copyShort(q.peer.wire.at(at+slotPayload), wordsOf(inline), uint64(length))
		q.copied(len(inline))
	}
	q.peer.wire.store64(at, packSlot(q.slots.generation(q.sent), r.Opcode, flags, length))
	q.syscalls += q.peer.notify()
	q.sent++
	if flags&slotWritten == 0 {
		q.deferred = q.sent
	}
}

// requestAck asks the peer to report that it has taken all messages on its wire, on behalf
// of a request that puts none there. The message is a WRITE of no bytes.
func (q *queuePair) requestAck() {
	if q.taken == q.sent {
		return
	}
	at := q.slots.offset(q.sent)
	q.peer.wire.store64(at, packSlot(q.slots.generation(q.sent), rdma.Write, slotAck, 0))
	q.syscalls += q.peer.notify()
	q.sent++
}

// read carries out a READ or an atomic operation, or defers it until the peer has taken all earlier
// messages.
func (q *queuePair) read(r *rdma.SendRequest, e *sendEntry, target []byte) {
	if q.caughtUp() {
		q.readNow(r, e, target)
		if r.Flags&rdma.Signaled != 0 {
			q.requestAck()
		}
		return
	}
	e.readPending = true
	q.waiting++
	q.reads[q.posted&q.mask] = *r
	q.requestAck()
}

func (q *queuePair) readNow(r *rdma.SendRequest, e *sendEntry, target []byte) {
	if len(target) == 0 {
		return
	}
	right := rdma.RemoteRead
	if r.Opcode != rdma.Read {
		right = rdma.RemoteAtomic
	}
	from, ok := q.peer.remote.resolve(r.RemoteKey, r.Remote, r.Length, right)
	if !ok {
		q.fail(e, rdma.StatusRemoteAccess)
		return
	}
	if r.Opcode == rdma.Read {
		copy(target, from)
		q.copied(len(target))
		return
	}
	if addressOf(from)%8 != 0 { // the peer's directory says where its regions begin
		q.fail(e, rdma.StatusRemoteInvalid)
		return
	}
	var old uint64
	if word := shm.Word64(from, 0); r.Opcode == rdma.FetchAdd {
		old = word.Add(r.Operand) - r.Operand
	} else {
		old = compareSwap(word, r.Operand, r.Swap)
	}
	binary.NativeEndian.PutUint64(target, old)
}

// compareSwap stores swap in word if it holds compare, and returns what it held.
func compareSwap(word *atomic.Uint64, compare, swap uint64) uint64 {
	for {
		if word.CompareAndSwap(compare, swap) {
			return compare
		}
		if old := word.Load(); old != compare {
			return old
		}
	}
}

// fail makes a request fail and puts the queue pair into the error state.
func (q *queuePair) fail(e *sendEntry, status rdma.Status) {
	e.status = status
	q.failed = true
}

// lossCheckInterval is the number of polls between two checks for a lost peer while only
// unsignaled requests are outstanding.
const lossCheckInterval = 32

// Poll implements [CompletionQueue].
func (c *completionQueue) Poll(completions []rdma.Completion) (n int, err error) {
	if c.closed {
		return 0, rdma.ErrClosed
	}
	c.polls++
	check := c.polls%lossCheckInterval == 0
	if len(c.pairs) == 1 { // the common case, without the loop
		return c.pairs[0].poll(completions, 0, check), nil
	}
	for i := range c.pairs {
		at := c.nextPair + i
		if at >= len(c.pairs) {
			at -= len(c.pairs)
		}
		n = c.pairs[at].poll(completions, n, check)
	}
	// The next Poll starts with the next pair, so that a short completions slice starves none.
	if c.nextPair++; c.nextPair >= len(c.pairs) {
		c.nextPair = 0
	}
	return n, nil
}

// poll fills completions from n on with those of this queue pair, and returns up to where. check is
// set to look for a lost peer although only unsignaled requests are outstanding.
func (q *queuePair) poll(completions []rdma.Completion, n int, check bool) int {
	if q.rings != nil {
		n += q.receiveDatagrams(completions[n:])
	} else if q.peer.remote != nil {
		n = q.receiveArrived(completions, n)
	}
	if q.scanned != q.posted && (check || q.signaled > 0 || q.waiting > 0 || q.failed) {
		n += q.complete(completions[n:])
	}
	if q.failed && q.config.Shared == nil {
		n += q.flushReceives(completions[n:])
	}
	return n
}

// complete completes requests in order and returns the number of completions.
func (q *queuePair) complete(completions []rdma.Completion) (n int) {
	lost := q.lossStatus()
	healthy := q.waiting == 0 && !q.failed && lost == rdma.StatusOK
	if q.signaled == 0 && healthy {
		return 0
	}
	for n < len(completions) && q.scanned != q.posted {
		e := &q.entries[q.scanned&q.mask]
		// These end without a completion. The loop stops at the signaled request behind them.
		for healthy && q.signaled > 0 && !e.signaled && q.taken >= e.need {
			q.scanned++
			e = &q.entries[q.scanned&q.mask]
		}
		if q.taken < e.need {
			q.readTaken()
		}
		if e.readPending && (q.failed || q.taken >= e.need) {
			q.finishRead(e)
		}
		if e.readPending || q.taken < e.need {
			if lost == rdma.StatusOK {
				break
			}
			// The first request that the peer has not taken gets the reason; those after it are
			// flushed.
			if e.readPending {
				e.readPending = false
				q.waiting--
			}
			e.status = lost
			q.failed = true
			lost = rdma.StatusFlushed
			q.taken = q.sent
		} else if q.failed && e.status == rdma.StatusOK && lost == rdma.StatusFlushed {
			e.status = rdma.StatusFlushed
		}
		if e.signaled {
			q.signaled--
			q.cq.signaled--
		}
		q.scanned++
		if !e.signaled && e.status == rdma.StatusOK {
			continue
		}
		q.retired = q.scanned
		c := &completions[n]
		c.ID = e.id
		c.QueuePair = q.config.Cookie
		c.Length = e.length
		c.Opcode = completionOpcode[e.opcode]
		c.Status = e.status
		c.HasImmediate = 0
		c.Vendor = 0
		n++
	}
	return n
}

// finishRead carries out the deferred READ at scanned.
func (q *queuePair) finishRead(e *sendEntry) {
	e.readPending = false
	q.waiting--
	if q.failed {
		e.status = rdma.StatusFlushed
		return
	}
	r := &q.reads[q.scanned&q.mask]
	if target, ok := q.device.localMemory(r.LocalKey, r.Local, r.Length, 0); ok {
		q.readNow(r, e, target)
	} else {
		q.fail(e, rdma.StatusLocalProtection)
	}
}

// completionOpcode maps the opcode of a request to that of its completion.
var completionOpcode = [...]rdma.Opcode{rdma.Write: rdma.Write, rdma.WriteWithImmediate: rdma.Write,
	rdma.Send:              rdma.Send,
	rdma.SendWithImmediate: rdma.Send, rdma.Read: rdma.Read,
	rdma.FetchAdd: rdma.FetchAdd, rdma.CompareSwap: rdma.CompareSwap}

// lossStatus returns the status of requests that the peer will never take, and StatusOK if
// it may still take them.
func (q *queuePair) lossStatus() rdma.Status {
	if q.peer.remote == nil || q.taken == q.sent && q.waiting == 0 {
		return rdma.StatusOK
	}
	if nak := q.peer.wire.load32(wireNak); nak != 0 { // pairs with the store in refuse
		return rdma.Status(nak)
	}
	if q.peerGone() {
		return rdma.StatusRetryExceeded
	}
	return rdma.StatusOK
}

// writes reports whether a message of this opcode is carried out by applyWrite.
func writes(o rdma.Opcode) bool { return o == rdma.Write || o == rdma.WriteWithImmediate }

// usable reports whether the queue pair is connected, open and not in the error state.
func (q *queuePair) usable() bool { return q.peer.remote != nil && !q.closed && !q.failed }

// peerGone reports whether the peer has closed or died.
func (q *queuePair) peerGone() bool {
	return q.peer.remote.dead.Load() || uint32(q.peer.wire.load64(wireState)) != stateOpen
}
