package client

import (
	"time"

	"transportbench/core/runtime/loop"
)

// openLoop is the loop of a client that issues calls at a rate, whatever the transport answers. If
// the limit in flight is reached, a due call is issued late; that delay is part of its response
// time.
type openLoop struct {
	*Client
	callOrder
	// freeSince is when the client had room for a call again after it was full, in ticks.
	freeSince uint64
}

// run is [callLoop.run].
func (l *openLoop) run(s *loop.State, n int) error {
	c := l.Client
	for ; n > 0 && s.Measuring(); n-- {
		began := c.Gaps.BeginIteration()
		if len(c.ops) > 0 {
			if err := c.post(); err != nil {
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
		} else {
			c.idle.Busy()
		}
		events, now := c.events[:found], c.clock.Now()
		c.Gaps.Look(now)
		c.count(now)
		full, waiting := c.inFlight == c.config.InFlight, len(c.ops)
		if err := c.accept(events, now); err != nil {
			return err
		}
		if full {
			l.freeSince = now
		}
		l.issueDue(now)
		if c.stages != nil && c.stages.state != stagerIdle {
			c.stages.beforePost(now)
		}
		if len(c.ops) > 0 {
			c.burner.spend(len(c.ops) - waiting)
			if err := c.post(); err != nil {
				return err
			}
		}
		if found == 0 {
			if err := l.rest(now); err != nil {
				return err
			}
			continue
		}
		c.complete(c, events, now)
		if !c.repeats {
			c.drawAgain(events)
		}
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

// issueDue issues the calls that are due while there is room in flight.
func (l *openLoop) issueDue(now uint64) {
	c := l.Client
	for l.schedule.due <= now && c.inFlight < c.config.InFlight {
		due := l.schedule.due
		l.schedule.next()
		c.open.scheduled++
		index := l.next()
		c.issueCopy(index, now)
		c.open.intended[index] = due
		c.open.late[index] = now - max(due, l.freeSince)
	}
}

// rest waits after an empty iteration. With nothing in flight it sleeps until a call is due; with
// calls in flight it waits as a closed loop does, but not past the time at which the next call is
// due if there is room for it.
func (l *openLoop) rest(now uint64) error {
	if l.inFlight == l.config.InFlight {
		return l.idle.Pause()
	}
	if l.schedule.due <= now {
		return nil
	}
	left := time.Duration(l.clock.Nanos(l.schedule.due - now))
	if l.inFlight > 0 {
		return l.idle.PauseUntil(left)
	}
	return l.idle.Sleep(left)
}

// begin is [callLoop.begin].
func (l *openLoop) begin(now uint64) error {
	l.schedule.begin(now)
	l.freeSince = now
	return nil
}
