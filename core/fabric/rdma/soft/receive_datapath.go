package soft

import (
	"time"

	"transportbench/core/fabric/rdma"
)

// arrived reports whether the next message is there. If the last one had two lines, it loads the
// second line of the slot together with the first, because loading it afterwards would take as long
// again.
func (q *queuePair) arrived() bool {
	at := q.slots.offset(q.received)
	q.wire.touch(at + q.lastLine)
	return uint8(q.wire.load64(at)) == q.slots.generation(q.received)
}

// receive takes messages off the wire. It fills completions from n on and returns up to where.
func (q *queuePair) receive(completions []rdma.Completion, n int) int {
	if !q.claimed {
		if q.claimed = q.wire.load64(wireClaim) == q.peerNonce; !q.claimed {
			return n
		}
	}
	ackWanted := false
	for n < len(completions) && !q.refusing {
		at := q.slots.offset(q.received)
		word := q.wire.load64(at)
		if uint8(word) != q.slots.generation(q.received) {
			break
		}
		// The second line arrives while this decides what to do with the message.
		q.wire.touch(at + 64)
		opcode, flags, _ := unpackSlot(word)
		if opcode != rdma.Write {
			if q.receives.head == q.receives.tail {
				q.notReady()
				break
			}
			c := &completions[n]
			c.Status = q.receiveMessage(at, word, c)
			n++
			if q.refusing {
				break
			}
		} else if status := q.applyWrite(at, word); status != rdma.StatusOK {
			q.refuse(status)
			break
		}
		q.received++
		ackWanted = ackWanted || flags&slotAck != 0
	}
	if ackWanted || q.received-q.reported >= (q.mask+1)/4 {
		q.reportTaken()
	}
	return n
}

// nearWord is what nearMask leaves of the first word of a slot that WriteInline has filled.
const (
	nearWord = (uint64(rdma.WriteWithImmediate) | slotNear) << slotFlagsShift
	nearMask = 0xff << slotFlagsShift
)

// firstLine is how many bytes the first line of a slot has for the payload of WriteInline.
const firstLine = 64 - slotNearPayload

// receiveArrived takes messages that have arrived. It fills completions from n on and returns up to
// where.
func (q *queuePair) receiveArrived(completions []rdma.Completion, n int) int {
	for n < len(completions) {
		at := q.slots.offset(q.received)
		q.wire.touch(at + q.lastLine) // as in arrived
		word := q.wire.load64(at)
		if uint8(word) != q.slots.generation(q.received) {
			break
		}
		if word&nearMask != nearWord || !q.receiveNear(at, word, &completions[n]) {
			return q.receive(completions, n)
		}
		n++
	}
	return n
}

// receiveNear is the fast path of what WriteInline sends. It takes the message that has arrived,
// or returns false for receive to take it.
func (q *queuePair) receiveNear(at uintptr, word uint64, c *rdma.Completion) bool {
	r := q.receives
	if !q.claimed || q.refusing || r.head == r.tail {
		return false
	}
	length, to := uint32(uint16(word>>slotLengthShift)), q.receivedTo.near(word)
	memory, ok := q.device.localMemory(to.key, to.address, length, rdma.RemoteWrite)
	if !ok || length > slotInline {
		return false
	}
	copyShort(wordsOf(memory), q.wire.at(at+slotNearPayload), uint64(length))
	q.copied(int(length))
	q.receivedTo = to
	if q.lastLine = 0; length > firstLine {
		q.lastLine = 64
	}
	q.notReadySince = 0
	// Field by field: the loads that copy a literal from the stack would stall on its stores.
	c.ID = r.queue[r.head&uint64(len(r.queue)-1)].ID
	c.QueuePair = q.config.Cookie
	c.Length = length
	c.Immediate = uint32(int16(word >> slotImmediateShift))
	c.Source, c.Vendor = 0, 0
	c.Opcode = rdma.ReceiveWriteImmediate
	c.Status = rdma.StatusOK
	c.HasImmediate = 1
	r.head++
	if q.received++; q.received-q.reported >= (q.mask+1)/4 {
		q.reportTaken()
	}
	return true
}

// reportTaken tells the sender how many messages were taken.
func (q *queuePair) reportTaken() {
	q.wire.store64(wireHead, q.received) // pairs with the load in readTaken
	q.syscalls += q.peer.notify()
	q.reported = q.received
}

// receiveMessage receives a message that consumes a receive, and returns the status of the
// receive.
func (q *queuePair) receiveMessage(at uintptr, word uint64, c *rdma.Completion) rdma.Status {
	opcode, flags, length := unpackSlot(word)
	q.notReadySince = 0
	r := &q.receives.queue[q.receives.head&uint64(len(q.receives.queue)-1)]
	q.receives.head++
	c.ID = r.ID
	c.QueuePair = q.config.Cookie
	c.Source = 0
	c.Vendor = 0
	c.Immediate = *q.wire.plain32(at + slotImmediate)
	if flags&slotNear != 0 {
		c.Immediate = uint32(int16(word >> slotImmediateShift))
	}
	c.HasImmediate = 1
	c.Length = uint32(length)
	if length == slotLong {
		c.Length = *q.wire.plain32(at + slotLength)
	}
	switch opcode {
	case rdma.WriteWithImmediate:
		c.Opcode = rdma.ReceiveWriteImmediate
		if status := q.applyWrite(at, word); status != rdma.StatusOK {
			q.refuse(status)
			return rdma.StatusLocalProtection
		}
		return rdma.StatusOK
	case rdma.Send:
		c.HasImmediate = 0
	case rdma.SendWithImmediate:
	default:
		q.refuse(rdma.StatusRemoteInvalid)
		return rdma.StatusLocalOperation
	}
	c.Opcode = rdma.Receive
	if c.Length > r.Length {
		q.refuse(rdma.StatusRemoteInvalid)
		return rdma.StatusLocalLength
	}
	if c.Length == 0 {
		return rdma.StatusOK
	}
	target, ok := q.device.localMemory(r.LocalKey, r.Local, c.Length, 0)
	if !ok {
		q.refuse(rdma.StatusRemoteOperation)
		return rdma.StatusLocalProtection
	}
	if !q.fetch(target, at, slotPayload, length) {
		q.refuse(rdma.StatusRemoteInvalid)
		return rdma.StatusLocalOperation
	}
	return rdma.StatusOK
}

// applyWrite carries out the WRITE of a message and returns the requester's status.
func (q *queuePair) applyWrite(at uintptr, word uint64) rdma.Status {
	_, flags, length := unpackSlot(word)
	if length == 0 || flags&slotWritten != 0 {
		return rdma.StatusOK
	}
	size := uint32(length)
	if length == slotLong {
		size = *q.wire.plain32(at + slotLength)
	}
	to, payload := q.receivedTo.near(word), uintptr(slotNearPayload)
	if flags&slotNear == 0 {
		to = writeTarget{*q.wire.plain32(at + slotKey), *q.wire.plain64(at + slotAddress)}
		payload = slotPayload
	}
	q.receivedTo = to
	memory, ok := q.device.localMemory(to.key, to.address, size, rdma.RemoteWrite)
	if !ok {
		return rdma.StatusRemoteAccess
	}
	if !q.fetch(memory, at, payload, length) {
		return rdma.StatusRemoteInvalid
	}
	return rdma.StatusOK
}

// fetch copies the payload of a message from that offset of its slot, or from the sender's region.
func (q *queuePair) fetch(target []byte, at, payload uintptr, length uint16) bool {
	if length != slotLong {
		if int(length) > slotInline {
			return false
		}
		copyShort(wordsOf(target), q.wire.at(at+payload), uint64(length))
		q.copied(int(length))
		return true
	}
	from, ok := q.peer.remote.resolve(*q.wire.plain32(at + slotLocalKey),
		*q.wire.plain64(at + slotLocal), uint32(len(target)), 0)
	if ok {
		copy(target, from)
		q.copied(len(target))
	}
	return ok
}

// retriesForever is the receiver-not-ready retry count that means without end.
const retriesForever = 7

// notReadyTimers are the delays between two tries in microseconds, by the code of the timer:
// InfiniBand Architecture Specification, volume 1, table 45.
var notReadyTimers = [32]int64{655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960,
	1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760,
	327680, 491520}

// notReady counts a message that finds no receive, once. It refuses the message when the
// sender's retries are used up.
func (q *queuePair) notReady() {
	if q.notReadySince == 0 {
		q.notReadySince = max(time.Now().UnixNano(), 1)
		q.device.notReady.Add(1)
		return
	}
	timer := notReadyTimers[q.options.ReceiverNotReadyTimer] * int64(time.Microsecond)
	retries := q.wire.load32(wireRetries)
	if retries < retriesForever && time.Now().UnixNano()-q.notReadySince >
		(int64(retries)+1)*timer {
		q.refuse(rdma.StatusReceiverNotReadyOut)
	}
}

// refuse tells the sender that the current message fails, and with which status. No more
// messages are taken. Both queue pairs enter the error state, but only the sender's if a
// receive was missing.
func (q *queuePair) refuse(status rdma.Status) {
	q.reportTaken()
	q.wire.store32(wireNak, uint32(status)) // pairs with the load in lossStatus
	q.syscalls += q.peer.notify()
	q.refusing = true
	q.failed = q.failed || status != rdma.StatusReceiverNotReadyOut
}

// flushReceives completes the receives of a queue pair in the error state.
func (q *queuePair) flushReceives(completions []rdma.Completion) (n int) {
	for n < len(completions) && q.receives.head != q.receives.tail {
		c := &completions[n]
		c.ID = q.receives.queue[q.receives.head&uint64(len(q.receives.queue)-1)].ID
		c.QueuePair = q.config.Cookie
		c.Status = rdma.StatusFlushed
		q.receives.head++
		n++
	}
	return n
}
