package daemon

import (
	"transportbench/core/base/machine"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// tracer is a daemon's work on a traced request. It is in memory of its own until the reply is
// posted, so that the stamps do not wait for the trace's lines.
type tracer struct {
	trace            *loop.CallTrace // nil if the daemon shares none
	seen             uint64          // ticks
	served           uint64          // ticks of the reply; 0 once that is posted
	atServed, posted uint64          // ticks; posted is 0 after publish
	single           bool            // the poll returned one event
}

// find returns the index of the event to stamp. It is called after a poll that returned events,
// while the trace is armed. If none of them is the traced request, it is the first, so that the
// stamps of the traced request do not run cold; publish drops them.
//
// A single event is stamped without a look at its payload, and not between its reply and the post,
// which follow each other. To branch on the payload's word, or to read the clock, before the reply
// is posted keeps the processor from fetching the payload and the lines of the reply at the same
// time: each such reading makes a ping-pong 2 to 6% longer with near cores, and 10 to 35% with far
// ones.
func (p *tracer) find(clock *machine.Clock, events []transport.Event) int {
	p.seen = clock.Now()
	if p.single = len(events) == 1; !p.single {
		for i := range events {
			if p.traced(&events[i]) {
				return i
			}
		}
	}
	return 0
}

// traced reports whether an event is the traced request.
func (p *tracer) traced(e *transport.Event) bool {
	return e.Kind == transport.EventRequest && uint64(e.Peer)+1 == p.trace.Owner.Load() &&
		loop.FirstWord(e.Payload) == p.trace.Word.Load()
}

// serve stamps the reply.
func (p *tracer) serve(clock *machine.Clock) {
	if p.served = p.seen; !p.single {
		p.served = clock.Now()
	}
}

// post stamps the post of the reply.
func (p *tracer) post(clock *machine.Clock) {
	p.posted = clock.Now()
	if p.atServed = p.served; p.single {
		p.atServed = p.posted
	}
	p.served = 0
}

// publish stores the stamps after the reply is posted, if the event was the traced request.
func (p *tracer) publish(e *transport.Event) {
	if p.traced(e) {
		p.trace.Seen.Store(p.seen)
		p.trace.Served.Store(p.atServed)
		p.trace.Posted.Store(p.posted)
		p.trace.Word.Store(0)
	}
	p.posted = 0
}
