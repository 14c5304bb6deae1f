package soft

import (
	"fmt"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/internal/objects"
	"transportbench/core/fabric/shm"
)

// softNotifier is a futex in the device's directory. Peers find it through wireNotifier of
// the queue pairs whose completion queues it serves. The owner announces that it sleeps in
// wireState of each wire, not in one common place, because a sender loads that word anyway.
type softNotifier struct {
	device *softDevice
	index  int
	notifierWords
	seen   uint32 // sequence as of the last Wait
	queues []*completionQueue
	closed bool

	syscalls uint64 // see WorkOf
}

// notifierWords are the words of a notifier, for the peers that wake its owner.
type notifierWords struct{ sequence, waiting *atomic.Uint32 }

// noNotifier stands for the notifier of a peer that has none.
var noNotifier = notifierWords{sequence: new(atomic.Uint32), waiting: new(atomic.Uint32)}

// notifierWordsAt returns notifier i of a directory.
func notifierWordsAt(directory *shm.Segment, i int) notifierWords {
	at := directoryNotifiers + i*notifierSize
	return notifierWords{sequence: shm.Word32(directory.Bytes(), at+notifierSequence),
		waiting: shm.Word32(directory.Bytes(), at+notifierWaiting)}
}

// notify ends the current or next Wait. It returns the number of system calls.
func (n *notifierWords) notify() (calls uint64) {
	n.sequence.Add(1)
	// Pairs with the store of waiting in Wait, which comes before its load of sequence.
	if n.waiting.Load() != 0 {
		shm.FutexWake(n.sequence)
		calls = 1
	}
	return calls
}

// NewNotifier implements [Device].
func (d *softDevice) NewNotifier(queues ...rdma.CompletionQueue) (rdma.Notifier, error) {
	n := &softNotifier{device: d}
	for _, queue := range queues {
		c, ok := queue.(*completionQueue)
		switch {
		case !ok || c.device != d:
			return nil, rdma.Invalid("completion queue of another device")
		case c.notifier != nil || len(c.pairs) > 0:
			return nil, rdma.ErrNotifierLate
		}
		n.queues = append(n.queues, c)
	}
	d.Mu.Lock()
	n.index = -1
	for i := range d.notifiers {
		if d.notifiers[i] == nil {
			n.index = i
			d.notifiers[i] = n
			break
		}
	}
	d.Mu.Unlock()
	if n.index < 0 {
		return nil, fmt.Errorf("%w: the soft device has %d notifiers at most", rdma.ErrInvalid,
			maxNotifiers)
	}
	n.notifierWords = notifierWordsAt(d.directory, n.index)
	n.seen = n.sequence.Load()
	for _, c := range n.queues {
		c.notifier = n
	}
	return n, d.Adopt(n, objects.QueuePairs)
}

// Wait implements [Notifier].
func (n *softNotifier) Wait(timeout time.Duration) error {
	if n.closed {
		return rdma.ErrClosed
	}
	if n.sequence.Load() == n.seen {
		n.waiting.Store(1)
		n.setState(stateOpen | stateWaiting)
		shm.Barrier() // pairs with peerLink.notify
		n.syscalls++
		if !n.hasWork() && n.sequence.Load() == n.seen {
			shm.FutexWait(n.sequence, n.seen, timeout)
			n.syscalls++
		}
		n.setState(stateOpen)
		n.waiting.Store(0)
	}
	n.seen = n.sequence.Load()
	return nil
}

// setState stores the state of all wires of the notifier's queue pairs.
func (n *softNotifier) setState(state uint64) {
	for _, c := range n.queues {
		for _, q := range c.pairs {
			q.wire.store64(wireState, state)
		}
	}
}

// Notify implements [Notifier].
func (n *softNotifier) Notify() { n.notify() }

// hasWork reports whether Poll may find something.
func (n *softNotifier) hasWork() bool {
	for _, c := range n.queues {
		for _, q := range c.pairs {
			if q.hasWork() {
				return true
			}
		}
	}
	return false
}

// hasWork reports whether this queue pair may have completions.
func (q *queuePair) hasWork() bool {
	for _, r := range q.rings {
		if !r.Empty() {
			return true
		}
	}
	if q.peer.remote != nil && q.rings == nil {
		if _, _, arrived := q.next(); arrived && !q.refusing {
			return true
		}
		q.readTaken()
	}
	if q.failed && (q.scanned != q.posted || q.config.Shared == nil &&
		q.receives.head != q.receives.tail) {
		return true
	}
	if q.scanned == q.posted {
		return false
	}
	if q.lossStatus() != rdma.StatusOK {
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
func (n *softNotifier) Close() error {
	if n.closed {
		return nil
	}
	n.closed = true
	for _, c := range n.queues {
		c.notifier = nil
	}
	n.device.Mu.Lock()
	n.device.notifiers[n.index] = nil
	n.device.Mu.Unlock()
	n.device.Disown(n)
	return nil
}

// notifyAll wakes all owners because a peer died.
func (d *softDevice) notifyAll() {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, n := range d.notifiers {
		if n != nil && !d.Closed {
			n.notify()
		}
	}
}
