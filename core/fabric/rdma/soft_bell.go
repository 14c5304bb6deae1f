package rdma

import (
	"fmt"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/shm"
)

// softBell is a word in the device's directory on which the owner of some completion
// queues sleeps. Peers find it by the wires of the queue pairs that complete there.
type softBell struct {
	device *softDevice
	index  int
	alarm
	heard  uint32 // of sequence
	queues []*softCompletionQueue
	closed bool
}

// alarm is a bell as those see it who ring it.
type alarm struct{ sequence, waiting *atomic.Uint32 }

// nobody is the alarm of whoever has no bell.
var nobody = alarm{sequence: new(atomic.Uint32), waiting: new(atomic.Uint32)}

// alarmAt is bell i of a directory.
func alarmAt(directory *shm.Segment, i int) alarm {
	at := directoryBells + i*bellSize
	return alarm{sequence: shm.Word32(directory.Bytes(), at+bellSequence), waiting: shm.Word32(directory.Bytes(), at+bellWaiting)}
}

// ringIfWaiting wakes a wire's owner that sleeps, after something was stored that it is
// to see. The load may run ahead of that store. Wait makes up for it with a barrier
// between saying that it sleeps and looking again: either it sees what was stored, or
// this sees it waiting.
func (a *alarm) ringIfWaiting(wire words) {
	if wire.load64(wireState)&stateWaiting != 0 {
		a.ring()
	}
}

// ring ends the current or next Wait.
func (a *alarm) ring() {
	a.sequence.Add(1)
	// Pairs with the store of waiting before sequence is looked at.
	if a.waiting.Load() != 0 {
		shm.FutexWake(a.sequence)
	}
}

// NewBell implements [Device].
func (d *softDevice) NewBell(queues ...CompletionQueue) (Bell, error) {
	b := &softBell{device: d}
	for _, queue := range queues {
		c, ok := queue.(*softCompletionQueue)
		switch {
		case !ok || c.device != d:
			return nil, invalid("completion queue of another device")
		case c.bell != nil || len(c.pairs) > 0:
			return nil, errBellLate
		}
		b.queues = append(b.queues, c)
	}
	d.mu.Lock()
	b.index = -1
	for i := range d.bells {
		if d.bells[i] == nil {
			b.index = i
			d.bells[i] = b
			break
		}
	}
	d.mu.Unlock()
	if b.index < 0 {
		return nil, fmt.Errorf("%w: the soft device has %d bells at most", ErrInvalid, maxBells)
	}
	b.alarm = alarmAt(d.directory, b.index)
	b.heard = b.sequence.Load()
	for _, c := range b.queues {
		c.bell = b
	}
	return b, d.adopt(b)
}

// Wait implements [Bell].
func (b *softBell) Wait(timeout time.Duration) error {
	if b.closed {
		return ErrClosed
	}
	if b.sequence.Load() == b.heard {
		b.waiting.Store(1)
		b.say(stateOpen | stateWaiting)
		shm.Barrier() // pairs with ringIfWaiting
		if !b.something() && b.sequence.Load() == b.heard {
			shm.FutexWait(b.sequence, b.heard, timeout)
		}
		b.say(stateOpen)
		b.waiting.Store(0)
	}
	b.heard = b.sequence.Load()
	return nil
}

// say tells all that may send here.
func (b *softBell) say(state uint64) {
	for _, c := range b.queues {
		for _, q := range c.pairs {
			q.wire.store64(wireState, state)
		}
	}
}

// Ring implements [Bell].
func (b *softBell) Ring() { b.ring() }

// something says whether there is something to poll.
func (b *softBell) something() bool {
	for _, c := range b.queues {
		for _, q := range c.pairs {
			if q.something() {
				return true
			}
		}
	}
	return false
}

// something says whether the completion queue may have something of this queue pair.
func (q *softQueuePair) something() bool {
	for i := range q.lanes {
		if !q.lanes[i].consumer.Empty() {
			return true
		}
	}
	if q.remote != nil && q.lanes == nil {
		if !q.deaf && q.arrived() {
			return true
		}
		q.learn()
	}
	if q.failed && (q.scanned != q.posted || q.config.Shared == nil && q.receives.head != q.receives.tail) {
		return true
	}
	if q.scanned == q.posted {
		return false
	}
	if q.lost() != StatusOK {
		return true
	}
	for at := q.scanned; at != q.posted; at++ {
		if e := &q.entries[at&q.mask]; e.signed || e.waits {
			return q.taken >= e.need
		}
	}
	return false
}

// Close implements [Bell].
func (b *softBell) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	for _, c := range b.queues {
		c.bell = nil
	}
	b.device.mu.Lock()
	b.device.bells[b.index] = nil
	b.device.mu.Unlock()
	b.device.disown(b)
	return nil
}

// ringAll has everybody look, since a peer died.
func (d *softDevice) ringAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.bells {
		if b != nil && !d.closed {
			b.ring()
		}
	}
}
