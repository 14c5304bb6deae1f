package soft

import (
	"time"

	"transportbench/core/fabric/rdma"
)

// next returns the slot of the next message, or the shared line, with its first word. It reports
// whether the message is there. If the last one had two lines, it loads the second line of the slot
// together with the first, because loading it afterwards would take as long again.
func (q *queuePair) next() (line words, word uint64, arrived bool) {
	if !q.shared.owned {
		if word, arrived = q.shared.arrived(q.received); arrived {
			return q.shared.words, word, true
		}
	}
	line = q.wire.at(q.slots.offset(q.received))
	line.touch(q.lastLine)
	word = line.load64(0)
	return line, word, uint8(word) == q.slots.generation(q.received)
}

// took records that the message of next is taken.
func (q *queuePair) took(line words) {
	q.received++
	if line == q.shared.words {
		q.shared.pass()
	}
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
		line, word, arrived := q.next()
		if !arrived {
			break
		}
		// The second line arrives while this decides what to do with the message.
		line.touch(64)
		opcode, flags, _ := unpackSlot(word)
		if opcode != rdma.Write {
			if q.receives.head == q.receives.tail {
				q.notReady()
				break
			}
			c := &completions[n]
			c.Status = q.receiveMessage(line, word, c)
			n++
			if q.refusing {
				break
			}
		} else if status := q.applyWrite(line, word); status != rdma.StatusOK {
			q.refuse(status)
			break
		}
		q.took(line)
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
		line, word, arrived := q.next()
		if !arrived {
			break
		}
		if word&nearMask != nearWord || !q.receiveNear(line, word, &completions[n]) {
			return q.receive(completions, n)
		}
		n++
	}
	return n
}

// receiveNear is the fast path of what WriteInline sends. It takes the message that has arrived,
// or returns false for receive to take it.
func (q *queuePair) receiveNear(line words, word uint64, c *rdma.Completion) bool {
	r := q.receives
	if !q.claimed || q.refusing || r.head == r.tail {
		return false
	}
	length, to := uint32(uint16(word>>slotLengthShift)), q.receivedTo.near(word)
	memory, ok := q.device.localMemory(to.key, to.address, length, rdma.RemoteWrite)
	if !ok || length > slotInline {
		return false
	}
	copyShort(wordsOf(memory), line.at(slotNearPayload), uint64(length))
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
	if q.took(line); q.received-q.reported >= (q.mask+1)/4 {
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
func (q *queuePair) receiveMessage(line words, word uint64, c *rdma.Completion) rdma.Status {
	opcode, flags, length := unpackSlot(word)
	q.notReadySince = 0
	r := &q.receives.queue[q.receives.head&uint64(len(q.receives.queue)-1)]
	q.receives.head++
	c.ID = r.ID
	c.QueuePair = q.config.Cookie
	c.Source = 0
	c.Vendor = 0
	c.Immediate = *line.plain32(slotImmediate)
	if flags&slotNear != 0 {
		c.Immediate = uint32(int16(word >> slotImmediateShift))
	}
	c.HasImmediate = 1
	c.Length = uint32(length)
	if length == slotLong {
		c.Length = *line.plain32(slotLength)
	}
	switch opcode {
	case rdma.WriteWithImmediate:
		c.Opcode = rdma.ReceiveWriteImmediate
		if status := q.applyWrite(line, word); status != rdma.StatusOK {
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
	if !q.fetch(target, line, slotPayload, length) {
		q.refuse(rdma.StatusRemoteInvalid)
		return rdma.StatusLocalOperation
	}
	return rdma.StatusOK
}

// applyWrite carries out the WRITE of a message and returns the requester's status.
func (q *queuePair) applyWrite(line words, word uint64) rdma.Status {
	_, flags, length := unpackSlot(word)
	if length == 0 || flags&slotWritten != 0 {
		return rdma.StatusOK
	}
	size := uint32(length)
	if length == slotLong {
		size = *line.plain32(slotLength)
	}
	to, payload := q.receivedTo.near(word), uintptr(slotNearPayload)
	if flags&slotNear == 0 {
		to = writeTarget{*line.plain32(slotKey), *line.plain64(slotAddress)}
		payload = slotPayload
	}
	q.receivedTo = to
	memory, ok := q.device.localMemory(to.key, to.address, size, rdma.RemoteWrite)
	if !ok {
		return rdma.StatusRemoteAccess
	}
	if !q.fetch(memory, line, payload, length) {
		return rdma.StatusRemoteInvalid
	}
	return rdma.StatusOK
}

// fetch copies the payload of a message from that offset of its slot, or from the sender's region.
func (q *queuePair) fetch(target []byte, line words, payload uintptr, length uint16) bool {
	if length != slotLong {
		if int(length) > slotInline {
			return false
		}
		copyShort(wordsOf(target), line.at(payload), uint64(length))
		q.copied(int(length))
		return true
	}
	from, ok := q.peer.remote.resolve(*line.plain32(slotLocalKey), *line.plain64(slotLocal),
		uint32(len(target)), 0)
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
