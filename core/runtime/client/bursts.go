package client

import "transportbench/core/transport"

// burstLoop is a drawnLoop for hand-offs. An iteration here is one of the load (iterations.go), not
// a pass of run. It begins only when the last response of the one before has arrived, so that each
// is timed with nothing else in flight.
type burstLoop struct {
	*drawnLoop
	held int // calls in flight since Client.counted
}

// begin is [callLoop.begin]. An iteration that the last window left incomplete is dropped.
func (l *burstLoop) begin(now uint64) error {
	l.iterations.restart()
	l.maxIssued = l.config.InFlight
	err := l.drawnLoop.begin(now)
	l.held = l.inFlight
	return err
}

// complete is Client.complete. It also issues the calls of the next iteration of the load, which
// the next pass of run posts.
func (l *burstLoop) complete(c *Client, events []transport.Event, now uint64) {
	completeEach(c, events, now)
	c.counts.inFlight += uint64(l.held) * (now - c.counted)
	c.counted = now
	if c.inFlight == 0 && c.maxIssued == 0 {
		c.maxIssued = c.config.InFlight
		l.fill(c.clock.Now())
	}
	l.held = c.inFlight
}
