package client

import (
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
)

// Member is one of several clients that one thread runs. It calls AtBegin when measuring begins and
// AtEnd when it ends.
type Member struct {
	Client         *Client
	AtBegin, AtEnd func()
}

// RunTogether is [Client.Run] for all members, one iteration after the other. What one does
// outside of the measured time, it does alone: the others wait, and their responses with them. It
// calls stop, which ends the window, when one of them fails, and returns an error for each.
func RunTogether(s *loop.State, members []Member, stop func()) (errs []error) {
	errs = make([]error, len(members))
	// each calls f for all members until one fails; then the window is over for all.
	each := func(f func(Member) error) {
		for i, m := range members {
			if errs[i] == nil && s.Now() != record.StateStopped {
				if errs[i] = f(m); errs[i] != nil {
					stop()
				}
			}
		}
	}
	idle := &members[0].Client.idle
	each(func(m Member) error { return m.Client.settle(s) })
	for s.Now() == record.StateReady {
		idle.YieldCore()
	}
	each(func(m Member) error { return m.Client.enter(s, m.AtBegin) })
	for s.Measuring() {
		found, silent := false, true
		each(func(m Member) error {
			if m.Client.window.Silent {
				return nil
			}
			silent = false
			did, err := m.Client.turn(s)
			found = found || did
			return err
		})
		if silent {
			stayOut(s)
		}
		idle.YieldTurn(found)
	}
	for _, m := range members {
		m.Client.leave(m.AtEnd)
	}
	each(func(m Member) error { return m.Client.Drain(s) })
	return errs
}

// turn is one measured iteration of a client whose thread serves others besides. It reports whether
// it found work.
func (c *Client) turn(s *loop.State) (found bool, err error) {
	c.Gaps.Restart()
	c.idle.BeginTurn()
	err = c.loop.run(s, 1)
	return c.idle.EndTurn(), err
}
