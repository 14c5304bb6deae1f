package client

import (
	"transportbench/core/fabric/pow2"
	"transportbench/core/runtime/loop"
)

// drawnLoop is the closed loop of a client that draws its requests as it goes, because they depend
// on earlier ones or are too many to keep. It issues a call for each response, and draws the next
// request once that call is posted, so that it draws while the transport works.
type drawnLoop struct {
	*Client
	*drawnOrder
}

// run is [callLoop.run].
func (l *drawnLoop) run(s *loop.State, n int) error {
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
			if err := c.idle.Pause(); err != nil {
				return err
			}
			continue
		}
		c.idle.Busy()
		events, now := c.events[:found], c.clock.Now()
		c.Gaps.Look(now)
		waiting := len(c.ops)
		if err := c.accept(events, now); err != nil {
			return err
		}
		for c.inFlight < c.maxIssued {
			c.issueCopy(l.next(), now)
		}
		if c.stages != nil && c.stages.state != stagerIdle {
			c.stages.beforePost(now)
		}
		if len(c.ops) > 0 { // none for a response without a call
			c.burner.spend(len(c.ops) - waiting)
			if err := c.post(); err != nil {
				return err
			}
		}
		c.complete(c, events, now)
		c.drawAgain(events)
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

// begin is [callLoop.begin].
func (l *drawnLoop) begin(now uint64) error {
	l.fill(now)
	return l.post()
}

// fill issues calls until as many as may be are in flight.
func (l *drawnLoop) fill(now uint64) {
	for l.inFlight < l.maxIssued {
		l.issueCopy(l.next(), now)
	}
}

// drawnOrder is the order in which calls were drawn: a ring of the indices of those that are ready
// to be issued.
type drawnOrder struct {
	ring       []uint32
	mask       uint32
	head, tail uint32 // free running
}

func newDrawnOrder(calls int) *drawnOrder {
	size := pow2.Ceil(calls)
	return &drawnOrder{ring: make([]uint32, size), mask: uint32(size - 1)}
}

func (o *drawnOrder) len() int { return int(o.tail - o.head) }

func (o *drawnOrder) push(index int) {
	o.ring[o.tail&o.mask] = uint32(index)
	o.tail++
}

// next removes the first call; there must be one.
func (o *drawnOrder) next() int {
	index := o.ring[o.head&o.mask]
	o.head++
	return int(index)
}

func (o *drawnOrder) putBack(index int) {
	o.head--
	o.ring[o.head&o.mask] = uint32(index)
}

func (o *drawnOrder) upcoming(ahead int) (index int, ok bool) {
	n := o.len()
	if n == 0 {
		return 0, false
	}
	return int(o.ring[(o.head+uint32(min(ahead, n-1)))&o.mask]), true
}
