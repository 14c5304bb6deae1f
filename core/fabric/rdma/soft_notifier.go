package rdma

import (
	"fmt"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/shm"
)

// softNotifier is a word in the device's directory on which the owner of some completion
// queues sleeps. Peers find it by the wires of the queue pairs that complete there.
type softNotifier struct {
	device *softDevice
	index  int
	notifierWords
	seen   uint32 // of sequence
	queues []*softCompletionQueue
	closed bool
}

// alarm is a notifier as those see it who ring it.
type notifierWords struct{ sequence, waiting *atomic.Uint32 }

// nobody is the alarm of whoever has no notifier.
var noNotifier = notifierWords{sequence: new(atomic.Uint32), waiting: new(atomic.Uint32)}

// notifierWordsAt is notifier i of a directory.
func notifierWordsAt(directory *shm.Segment, i int) notifierWords {
	at := directoryNotifiers + i*notifierSize
	return notifierWords{sequence: shm.Word32(directory.Bytes(), at+notifierSequence), waiting: shm.Word32(directory.Bytes(), at+notifierWaiting)}
}

// notifyIfWaiting wakes a wire's owner that sleeps, after something was stored that it is
// to see. The load may run ahead of that store. Wait makes up for it with a barrier
// between saying that it sleeps and looking again: either it sees what was stored, or
// this sees it waiting.
func (a *notifierWords) notifyIfWaiting(wire words) {
	if wire.load64(wireState)&stateWaiting != 0 {
		a.notify()
	}
}

// ring ends the current or next Wait.
func (a *notifierWords) notify() {
	a.sequence.Add(1)
	// Pairs with the store of waiting before sequence is looked at.
	if a.waiting.Load() != 0 {
		shm.FutexWake(a.sequence)
	}
}

// NewNotifier implements [Device].
func (d *softDevice) NewNotifier(queues ...CompletionQueue) (Notifier, error) {
	b := &softNotifier{device: d}
	for _, queue := range queues {
		c, ok := queue.(*softCompletionQueue)
		switch {
		case !ok || c.device != d:
			return nil, invalid("completion queue of another device")
		case c.notifier != nil || len(c.pairs) > 0:
			return nil, errNotifierLate
		}
		b.queues = append(b.queues, c)
	}
	d.mu.Lock()
	b.index = -1
	for i := range d.notifiers {
		if d.notifiers[i] == nil {
			b.index = i
			d.notifiers[i] = b
			break
		}
	}
	d.mu.Unlock()
	if b.index < 0 {
		return nil, fmt.Errorf("%w: the soft device has %d notifiers at most", ErrInvalid, maxNotifiers)
	}
	b.notifierWords = notifierWordsAt(d.directory, b.index)
	b.seen = b.sequence.Load()
	for _, c := range b.queues {
		c.notifier = b
	}
	return b, d.adopt(b, closeQueuePairs)
}

// Wait implements [Notifier].
func (b *softNotifier) Wait(timeout time.Duration) error {
	if b.closed {
		return ErrClosed
	}
	if b.sequence.Load() == b.seen {
		b.waiting.Store(1)
		b.setState(stateOpen | stateWaiting)
		shm.Barrier() // pairs with notifyIfWaiting
		if !b.hasWork() && b.sequence.Load() == b.seen {
			shm.FutexWait(b.sequence, b.seen, timeout)
		}
		b.setState(stateOpen)
		b.waiting.Store(0)
	}
	b.seen = b.sequence.Load()
	return nil
}

// say tells all that may send here.
func (b *softNotifier) setState(state uint64) {
	for _, c := range b.queues {
		for _, q := range c.pairs {
			q.wire.store64(wireState, state)
		}
	}
}

// Notify implements [Notifier].
func (b *softNotifier) Notify() { b.notify() }

// something says whether there is something to poll.
func (b *softNotifier) hasWork() bool {
	for _, c := range b.queues {
		for _, q := range c.pairs {
			if q.hasWork() {
				return true
			}
		}
	}
	return false
}

// something says whether the completion queue may have something of this queue pair.
func (q *softQueuePair) hasWork() bool {
	for i := range q.lanes {
		if !q.lanes[i].consumer.Empty() {
			return true
		}
	}
	if q.remote != nil && q.lanes == nil {
		if !q.refusing && q.arrived() {
			return true
		}
		q.readTaken()
	}
	if q.failed && (q.scanned != q.posted || q.config.Shared == nil && q.receives.head != q.receives.tail) {
		return true
	}
	if q.scanned == q.posted {
		return false
	}
	if q.lossStatus() != StatusOK {
		return true
	}
	for at := q.scanned; at != q.posted; at++ {
		if e := &q.entries[at&q.mask]; e.signaled || e.readPending {
			return q.taken >= e.need
		}
	}
	return false
}

// Close implements [Notifier].
func (b *softNotifier) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	for _, c := range b.queues {
		c.notifier = nil
	}
	b.device.mu.Lock()
	b.device.notifiers[b.index] = nil
	b.device.mu.Unlock()
	b.device.disown(b)
	return nil
}

// notifyAll has everybody look, since a peer died.
func (d *softDevice) notifyAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.notifiers {
		if b != nil && !d.closed {
			b.notify()
		}
	}
}
