package client

import (
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// stager times the stages of a client's calls with the daemons' traces.
type stager struct {
	clock    *machine.Clock
	self     uint64                     // the daemons' number for this client
	traces   []*loop.CallTrace          // by the client's number for the daemon; nil without one
	missing  string                     // why there are no traces
	readCost uint64                     // ticks of one reading of the clock
	every    int                        // one of this many calls is sampled
	left     int                        // calls until the next
	random   loop.Random                // which call
	stages   [directStages]*loop.Timing // in the order of record.DirectStages

	state                 stagerState
	trace                 *loop.CallTrace // of the call's daemon
	call                  *call
	started, posted, done uint64 // ticks
	// polled is the end of the last poll that returned responses while the call was in flight, and
	// handled the end of that iteration.
	polled, handled uint64
}

const (
	directStages = 6
	// stampedStages of them end with a stamp that other calls do not take.
	stampedStages = 4
	// collectLimit is longer than a daemon takes to store its stamps, unless it stalls.
	collectLimit = 10 * time.Millisecond
)

type stagerState uint8

const (
	stagerIdle     stagerState = iota
	stagerArmed                // the call is not issued yet
	stagerFlying               // it has no response yet
	stagerFinished             // the daemon's stamps are not read yet
)

// stageCost is about what one trace takes from the client and the daemon, in nanoseconds: some
// lines that move between their processors.
const stageCost = 1500

// rehearsals is the number of calls that are stamped before the one whose stages are taken.
const rehearsals = 8

// stageEvery is the sampling of the first window.
const stageEvery = 1024

func newStager(clock *machine.Clock, readCost uint64, self transport.PeerID, seed uint64) *stager {
	s := &stager{clock: clock, self: uint64(self), readCost: readCost, every: stageEvery,
		random: loop.NewRandom(seed, uint64(self), loop.DrawStages)}
	for i := range s.stages {
		s.stages[i] = loop.NewTiming()
	}
	return s
}

// share gives the stager the trace of a daemon.
func (s *stager) share(daemon transport.PeerID, t *loop.CallTrace) {
	for len(s.traces) <= int(daemon) {
		s.traces = append(s.traces, nil)
	}
	s.traces[daemon] = t
}

// begin resets the records before a window.
func (s *stager) begin() {
	s.abandon()
	for _, t := range s.stages {
		t.Reset()
	}
	s.next()
}

func (s *stager) next() { s.left = 1 + int(s.random.Below(uint64(2*s.every))) }

// abandon gives up a trace in progress.
func (s *stager) abandon() {
	if s.state != stagerIdle {
		s.trace.Word.Store(0)
		s.trace.Owner.Store(0)
		s.state = stagerIdle
	}
}

// beforePost is called in each iteration after the next calls are issued and before they are
// posted. now is the end of the iteration's poll.
func (s *stager) beforePost(now uint64) {
	switch s.state {
	case stagerArmed:
		s.polled = now
		s.posted = s.clock.Now()
		if s.call.state == callInFlight {
			s.started = s.call.started
			s.state = stagerFlying
		}
	case stagerFlying:
		if s.call.state != callInFlight {
			s.state = stagerFinished
			s.done = now
		}
	}
}

// waits is called at the end of each iteration that completed n calls. It reports whether there is
// nothing to do until other calls complete. Calls count towards the next trace while there is none.
func (s *stager) waits(n int) bool {
	if s.state != stagerIdle {
		return false
	}
	s.left -= n
	return s.left > 0
}

// afterStep is called at the end of an iteration that completed calls, unless waits returned true.
func (s *stager) afterStep(c *Client, now uint64) {
	switch s.state {
	case stagerIdle:
		s.next()
		if len(s.traces) > 0 {
			s.arm(c)
		}
	case stagerArmed, stagerFlying:
		s.polled, s.handled = now, s.clock.Now()
	case stagerFinished:
		s.collect()
	}
}

// arm chooses one of the next calls and arms the trace of its daemon. Until that call is issued,
// both sides stamp all iterations, so that neither code nor memory of the stamps is cold then. The
// call is any of those that may be in flight together, because the first of a batch waits less than
// others.
func (s *stager) arm(c *Client) {
	ahead := max(rehearsals, 2*c.config.InFlight) + int(s.random.Below(uint64(c.config.InFlight)))
	index, ok := c.order.upcoming(ahead)
	if !ok {
		return
	}
	call, request := &c.calls[index], &c.requests[index]
	if call.flags&callReading != 0 || int(request.Peer) >= len(s.traces) {
		return
	}
	t := s.traces[request.Peer]
	if t == nil || !t.Owner.CompareAndSwap(0, s.self+1) {
		return // another client uses it
	}
	s.trace, s.call, s.state = t, call, stagerArmed
	t.Word.Store(loop.FirstWord(request.Payload))
}

// collect records the stages once the daemon has stored its stamps.
func (s *stager) collect() {
	t := s.trace
	if t.Word.Load() != 0 {
		// The daemon stores them shortly after the reply, unless it took another request for this.
		if s.clock.Now()-s.done > s.clock.Ticks(collectLimit) {
			s.abandon()
		}
		return
	}
	at := [6]uint64{s.started, s.posted, t.Seen.Load(), t.Served.Load(), t.Posted.Load(), s.done}
	s.abandon()
	var stages [directStages]uint64
	for i := range at[1:] {
		if at[i+1] < at[i] {
			return // the stamps are of another request with the same first word
		}
		stages[i] = at[i+1] - at[i]
		if i < stampedStages {
			stages[i] -= min(stages[i], s.readCost)
		}
	}
	if from := max(at[4], s.polled); s.handled > from {
		stages[5] = s.handled - from
		stages[4] -= stages[5]
	}
	for i, spent := range stages {
		s.stages[i].Record(s.clock, spent)
	}
}
