package grpc

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"transportbench/core/fabric/clock"
)

// message is what a goroutine of a connection passes to the worker.
type message struct {
	next   atomic.Pointer[message] // in the inbox
	peer   *peer
	kind   kind
	token  uint64
	bytes  []byte     // as received: a frame, or the payload of a unary call
	buffer mem.Buffer // of grpc-go's pool, holds bytes; nil if bytes are on the Go heap
	copies uint64     // that the codec made of bytes
	answer chan *slot // of a unary call: its handler waits here for the reply
}

var messages = sync.Pool{New: func() any { return new(message) }}

func newMessage(p *peer, k kind) *message {
	m := messages.Get().(*message)
	m.peer, m.kind = p, k
	return m
}

// release gives back a message and its memory.
func (m *message) release() {
	if m.buffer != nil {
		m.buffer.Free()
	}
	*m = message{}
	messages.Put(m)
}

// inbox is a lock-free queue from any goroutine to the worker, after Dmitry Vyukov's intrusive
// queue for many producers and one consumer. A message is linked into a list. The consumer sleeps
// in wait until a producer notifies it.
type inbox struct {
	head     atomic.Pointer[message] // the newest
	sleeping atomic.Bool
	notice   chan struct{}

	tail *message // the oldest; the consumer's
	stub message
	alarm
}

func (q *inbox) init() {
	q.head.Store(&q.stub)
	q.tail = &q.stub
	q.notice = make(chan struct{}, 1)
	q.timer = time.AfterFunc(time.Hour, q.ring)
	q.timer.Stop()
}

// push adds a message and wakes the consumer if it sleeps.
func (q *inbox) push(m *message) {
	q.link(m)
	if q.sleeping.Load() && q.sleeping.CompareAndSwap(true, false) {
		q.notify()
	}
}

func (q *inbox) link(m *message) {
	m.next.Store(nil)
	q.head.Swap(m).next.Store(m)
}

// notify ends the current or the next wait.
func (q *inbox) notify() {
	select {
	case q.notice <- struct{}{}:
	default: // one is pending
	}
}

// pop returns the oldest message, or nil if there is none or the oldest is not linked yet.
func (q *inbox) pop() *message {
	oldest := q.tail
	next := oldest.next.Load()
	if oldest == &q.stub {
		if next == nil {
			return nil
		}
		q.tail = next
		oldest, next = next, next.next.Load()
	}
	if next == nil {
		if q.head.Load() != oldest {
			return nil
		}
		q.link(&q.stub) // so that the last message can be taken
		if next = oldest.next.Load(); next == nil {
			return nil
		}
	}
	q.tail = next
	return oldest
}

// empty reports whether there is no message.
func (q *inbox) empty() bool { return q.tail == &q.stub && q.head.Load() == &q.stub }

// wait blocks until there may be a message, notify is called, or timeout has passed. It blocks in
// the Go scheduler, so that the goroutines of the connections get the processor.
func (q *inbox) wait(timeout time.Duration) {
	deadline := clock.Now() + int64(timeout)
	q.deadline.Store(deadline)
	q.sleeping.Store(true)
	if q.empty() {
		if q.armed.CompareAndSwap(false, true) || deadline < q.at.Load() {
			q.set(deadline)
		}
		<-q.notice
	}
	q.sleeping.Store(false)
}

// alarm ends waits at their deadline. One timer serves consecutive waits and checks the deadline
// only when it fires, because starting a timer wakes the thread that waits for the network: with a
// timer for each wait, a round trip took 1.6 times as long.
type alarm struct {
	timer    *time.Timer
	deadline atomic.Int64 // of the last wait, on package clock's clock
	armed    atomic.Bool  // the timer is running
	at       atomic.Int64 // when it fires
}

func (a *alarm) set(at int64) {
	a.at.Store(at)
	// A wait that began in the meantime may have seen the earlier value of at and not set the
	// timer.
	if deadline := a.deadline.Load(); deadline < at {
		at = deadline
		a.at.Store(at)
	}
	for {
		a.timer.Reset(time.Duration(max(at-clock.Now(), 0)))
		latest := a.at.Load()
		if latest == at {
			return
		}
		at = latest // another call of set may have called Reset before this one
	}
}

// ring is called by the timer.
func (q *inbox) ring() {
	q.armed.Store(false)
	if !q.sleeping.Load() {
		return // the next wait starts the timer again
	}
	if deadline := q.deadline.Load(); deadline > clock.Now() {
		if q.armed.CompareAndSwap(false, true) {
			q.set(deadline)
		}
		return
	}
	q.notify()
}
