package grpc

import (
	"context"
	"errors"

	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// With unary calls each side dials the other. Each call in flight has a goroutine of its own on
// both sides: one that waits for the response, and grpc-go's handler.

// callers make a worker's unary calls to one peer. Each has a goroutine, which is started with its
// first call.
type callers struct {
	list  []caller
	free  []uint32 // callers without a call, the one used last at the end
	dirty []uint32 // posted since the last Flush
}

type caller struct {
	slot  *slot
	start chan *slot // to its goroutine
	token uint64
}

func newCallers(count int) *callers {
	c := &callers{list: make([]caller, count), free: make([]uint32, count),
		dirty: make([]uint32, 0, count)}
	for i := range c.free {
		c.free[i] = uint32(count - 1 - i)
	}
	return c
}

// post fills the slot of a caller, and returns false if none is free.
func (c *callers) post(token uint64, payload []byte) bool {
	if len(c.free) == 0 {
		return false
	}
	number := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	caller := &c.list[number]
	caller.token = token
	caller.slot = unlent(caller.slot)
	caller.slot.fill(0, 0, payload)
	c.dirty = append(c.dirty, number)
	return true
}

// unlent returns s, or a new slot if grpc-go still holds s. It can hold s after the peer has the
// message: on a busy machine a goroutine of grpc-go may be preempted at that moment.
func unlent(s *slot) *slot {
	if s == nil || s.posted.Load() {
		return new(slot)
	}
	return s
}

// flushCalls starts the calls posted since the last Flush, and returns their number.
func (p *peer) flushCalls() int {
	c := p.callers
	for _, number := range c.dirty {
		caller := &c.list[number]
		if caller.start == nil {
			start := make(chan *slot, 1)
			caller.start = start
			p.worker.group.Go(func() { p.makeCalls(start, number) })
		}
		caller.start <- caller.slot // it has room: there is one call at a time
	}
	n := len(c.dirty)
	c.dirty = c.dirty[:0]
	return n
}

// makeCalls makes the calls of one caller.
func (p *peer) makeCalls(start <-chan *slot, number uint32) {
	for {
		var s *slot
		select {
		case s = <-start:
		case <-p.ctx.Done():
			return
		}
		m := newMessage(p, kindReply)
		if err := p.client.Invoke(p.ctx, callMethod, s, m, gogrpc.WaitForReady(true)); err != nil {
			m.release()
			p.fail(err)
			return
		}
		if len(m.bytes) > p.worker.settings.payload {
			m.release()
			p.fail(errFrame)
			return
		}
		m.token = uint64(number)
		p.worker.inbox.push(m)
	}
}

// watch reports the loss of a peer whose connection ends.
func (p *peer) watch() {
	p.client.Connect()
	for ready := false; ; {
		state := p.client.GetState()
		if state == connectivity.Ready {
			p.up.Store(true)
			ready = true
		} else if ready {
			p.fail(errors.New("the connection has ended"))
			return
		}
		if !p.client.WaitForStateChange(p.ctx, state) {
			return
		}
	}
}

// serveCall is the handler of a peer's call.
func (w *worker) serveCall(ctx context.Context, decode func(any) error) (any, error) {
	p, err := w.admit(ctx)
	if err != nil {
		return nil, err
	}
	m := newMessage(p, kindCall)
	if err = decode(m); err == nil && len(m.bytes) > w.settings.payload {
		err = errFrame
	}
	if err == nil {
		err = p.count(kindCall)
	}
	if err != nil {
		m.release()
		p.fail(err)
		return nil, err
	}
	answer := make(chan *slot, 1)
	m.answer = answer
	w.inbox.push(m)
	select {
	case s := <-answer:
		return s, nil
	case <-p.ctx.Done():
		return nil, context.Cause(p.ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// requests holds the unary calls of one peer that the worker has polled and not answered. A handle
// is the index of a request and its use count, so that a second reply to the same call is refused.
type requests struct {
	list  []request
	free  []uint32
	dirty []uint32 // answered since the last Flush
}

type request struct {
	slot   *slot
	answer chan *slot // nil if there is no request
	uses   uint32
}

func newRequests(count int) *requests {
	r := &requests{list: make([]request, count), free: make([]uint32, count),
		dirty: make([]uint32, 0, count)}
	for i := range r.free {
		r.free[i] = uint32(count - 1 - i)
	}
	return r
}

// open returns the handle of a request, and false if there are more than a peer may have.
func (r *requests) open(answer chan *slot) (handle uint64, ok bool) {
	if len(r.free) == 0 {
		return 0, false
	}
	number := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	q := &r.list[number]
	q.uses++
	q.answer = answer
	return uint64(q.uses)<<32 | uint64(number), true
}

// reply answers the request with this handle; it returns false if the handle is invalid.
func (r *requests) reply(handle uint64, payload []byte) bool {
	number := uint32(handle)
	if int(number) >= len(r.list) {
		return false
	}
	q := &r.list[number]
	if q.answer == nil || q.uses != uint32(handle>>32) {
		return false
	}
	q.slot = unlent(q.slot)
	q.slot.fill(0, 0, payload)
	q.uses++ // invalidates the handle
	r.dirty = append(r.dirty, number)
	return true
}

// flush sends the replies since the last Flush to their handlers, and returns their number.
func (r *requests) flush() int {
	for _, number := range r.dirty {
		q := &r.list[number]
		q.answer <- q.slot // it has room
		q.answer = nil
		r.free = append(r.free, number)
	}
	n := len(r.dirty)
	r.dirty = r.dirty[:0]
	return n
}
