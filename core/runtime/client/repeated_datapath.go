package client

import (
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// repeatedLoop is the closed loop of a client that draws its requests once and repeats them in the
// same order. It issues a call for each response. The requests of consecutive calls lie side by
// side in memory, so it posts them from there.
type repeatedLoop struct {
	client  *Client
	order   *repeatOrder
	waiting int // calls before the cursor that the worker has not taken yet
}

// run is [callLoop.run].
func (l *repeatedLoop) run(s *loop.State, n int) error {
	c := l.client
	for ; n > 0 && s.Measuring(); n-- {
		began := c.Gaps.BeginIteration()
		if l.waiting > 0 {
			if err := l.post(); err != nil {
				return err
			}
		}
		found, err := c.worker.Poll(c.events)
		if err != nil {
			return err
		}
		c.counts.polls++
		if found == 0 {
			c.counts.empty++
			if err := c.idle.Pause(); err != nil {
				return err
			}
			continue
		}
		c.idle.Busy()
		events, now := c.events[:found], c.clock.Now()
		c.Gaps.Look(now)
		burned, done := l.waiting, 0
		if burned == 0 && !c.eachCall {
			done = l.replace(events, now)
		}
		if done < found || c.inFlight < c.config.InFlight {
			if err := c.accept(events[done:], now); err != nil {
				return err
			}
			if burned, err = l.issue(now, burned); err != nil {
				return err
			}
		}
		if c.stages != nil && c.stages.state != stagerIdle {
			c.stages.beforePost(now)
		}
		if l.waiting > 0 {
			c.burner.spend(l.waiting - burned)
			if err := l.post(); err != nil {
				return err
			}
		}
		c.complete(c, events, now)
		c.live.publish(c.counts.ops, now)
		if c.stages != nil && !c.stages.waits(found) {
			c.stages.afterStep(c, now)
		}
		if began != 0 {
			c.recordBusy(began)
		}
	}
	return nil
}

// replace ends the calls that events answer and issues the next ones in their place. It stops at an
// event that is not the response to a call in flight, if the next call is not free after a whole
// pass, and after the last of the calls. It returns the number of events that it handled. The
// number of calls in flight stays as it is.
func (l *repeatedLoop) replace(events []transport.Event, now uint64) (n int) {
	c, calls, first := l.client, l.client.calls, l.order.cursor
	for n < len(events) {
		e, next := &events[n], first+n
		if e.Kind != transport.EventResponse || e.Token >= transport.Token(len(calls)) ||
			next >= len(calls) {
			break
		}
		ended, issued := &calls[e.Token], &calls[next]
		if ended.state != callInFlight || issued.state != callFree {
			break
		}
		ended.state = callAnswered
		issued.state = callInFlight
		issued.started = now
		if c.service == loop.ServiceStore {
			issued.minVersion = c.newest(issued.key)
		}
		n++
	}
	l.waiting += n
	if l.order.cursor = first + n; l.order.cursor == len(calls) {
		l.order.cursor = 0
	}
	return n
}

// issue issues calls until the limit in flight is reached. If a call is still in flight after a
// whole pass, issue posts the calls before it and skips it; if the worker does not take them all,
// issue stops. burned counts the waiting calls for which the client has spent its burn; issue
// returns the count for the calls that wait when it returns.
func (l *repeatedLoop) issue(now uint64, burned int) (int, error) {
	c := l.client
	for c.inFlight < c.config.InFlight {
		call := &c.calls[l.order.cursor]
		if call.state != callFree {
			if l.waiting > 0 {
				c.burner.spend(l.waiting - burned)
				err := l.post()
				if burned = l.waiting; err != nil || burned > 0 {
					return burned, err
				}
			}
			l.order.cursor = l.order.after(l.order.cursor)
			continue
		}
		call.state = callInFlight
		call.started = now
		call.minVersion = c.newest(call.key)
		if c.eachCall {
			c.recordIssue(l.order.cursor, now)
		}
		l.order.cursor = l.order.after(l.order.cursor)
		l.waiting++
		c.inFlight++
	}
	return burned, nil
}

// post posts the calls that wait. After the last request, the first ones are in memory again.
func (l *repeatedLoop) post() error {
	c, first := l.client, l.order.cursor-l.waiting
	if first < 0 {
		first += len(c.calls)
	}
	ops := c.requests[first : first+l.waiting]
	if c.flushEach {
		n, err := c.postEach(ops)
		l.waiting -= n
		return err
	}
	n, err := c.worker.Post(ops)
	if err != nil {
		return err
	}
	c.counts.posted += uint64(n)
	if l.waiting -= n; l.waiting > 0 {
		c.counts.backPressure++
	}
	return c.worker.Flush()
}

// begin is [callLoop.begin].
func (l *repeatedLoop) begin(now uint64) error {
	if _, err := l.issue(now, 0); err != nil {
		return err
	}
	return l.post()
}

// takeBack is [callLoop.takeBack].
func (l *repeatedLoop) takeBack() {
	for ; l.waiting > 0; l.waiting-- {
		l.order.cursor = l.order.before(l.order.cursor)
		l.client.withdraw(l.order.cursor)
	}
	l.client.takeBack()
}

// repeatOrder is the order of calls that are repeated.
type repeatOrder struct {
	calls  []call
	cursor int // the call that is issued next, unless it is in flight
}

// next returns the call to issue. It skips calls that are still in flight after a whole pass.
func (o *repeatOrder) next() int {
	for o.calls[o.cursor].state != callFree {
		o.cursor = o.after(o.cursor)
	}
	index := o.cursor
	o.cursor = o.after(index)
	return index
}

func (o *repeatOrder) after(index int) int {
	if index++; index == len(o.calls) {
		return 0
	}
	return index
}

func (o *repeatOrder) before(index int) int {
	if index == 0 {
		index = len(o.calls)
	}
	return index - 1
}

func (o *repeatOrder) putBack(index int) { o.cursor = index }

func (o *repeatOrder) upcoming(ahead int) (index int, ok bool) {
	index = (o.cursor + ahead) % len(o.calls)
	return index, o.calls[index].state == callFree
}
