package rank

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// callTrace takes one call at a time over the transport apart into its stages. It lies in memory
// that the daemon shares with its clients, each daemon having one, and is zero at first. A client
// arms it some iterations before it issues the call, so that the lines are where they are needed
// when the call is made.
type callTrace struct {
	// owner is 1 + the daemon's number for the client that uses the trace; 0 for none. word is the
	// first word of the request, which has its key and operation. The client stores it to arm the
	// trace, and the daemon clears it once it has stamped the request.
	owner, word *atomic.Uint64
	// Ticks that the daemon stores after it has posted the reply, before it clears word.
	seen, served, posted *atomic.Uint64
}

// newCallTrace returns the trace in a daemon's shared memory. The client's words and the daemon's
// have cache lines of their own.
func newCallTrace(memory []byte) *callTrace {
	const stamps = daemonMemory / 2
	return &callTrace{
		owner: shm.Word64(memory, 0), word: shm.Word64(memory, 8),
		seen: shm.Word64(memory, stamps), served: shm.Word64(memory, stamps+8),
		posted: shm.Word64(memory, stamps+16),
	}
}

// shareTraces connects a thread with the traces of the daemons on its host.
func (r *Rank) shareTraces(t *thread) {
	// The stages have no wait for the storage, and no second daemon.
	if cfg := &r.plan.Config; cfg.Proxied() || cfg.Stored() || cfg.Delegate {
		return
	}
	if t.daemon != nil {
		if memory, missing := r.shared.daemon(t.id); missing == "" {
			t.daemon.spot.trace = newCallTrace(memory)
		}
		return
	}
	stager, w := t.client.stager, r.wiring()
	if machine.Calibrated().Fallback() != "" {
		stager.missing = "the ticks of the processes' clocks are not comparable: " +
			machine.Calibrated().Fallback()
		return
	}
	for rank := range w.cfg.ServingRanks() {
		for i := range w.cfg.Daemons {
			if memory, missing := r.shared.daemon(
				record.Thread{Rank: rank, Daemon: i, Client: -1}); missing == "" {
				stager.share(w.daemonPeer(rank, i), newCallTrace(memory))
			} else {
				stager.missing = missing
			}
		}
	}
}

// spot is a daemon's work on a traced request. It is in memory of its own until the reply is
// posted, so that the stamps do not wait for the trace's lines.
type spot struct {
	trace            *callTrace // nil if the daemon shares none
	seen             uint64     // ticks
	served           uint64     // ticks; 0 but from the reply to its post
	atServed, posted uint64     // ticks; posted is 0 but until publish
	single           bool       // the poll returned one event
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
func (p *spot) find(clock *machine.Clock, events []transport.Event) int {
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
func (p *spot) traced(e *transport.Event) bool {
	return e.Kind == transport.EventRequest && uint64(e.Peer)+1 == p.trace.owner.Load() &&
		firstWord(e.Payload) == p.trace.word.Load()
}

// serve stamps the reply.
func (p *spot) serve(clock *machine.Clock) {
	if p.served = p.seen; !p.single {
		p.served = clock.Now()
	}
}

// post stamps the post of the reply.
func (p *spot) post(clock *machine.Clock) {
	p.posted = clock.Now()
	if p.atServed = p.served; p.single {
		p.atServed = p.posted
	}
	p.served = 0
}

// publish stores the stamps after the reply is posted, if the event was the traced request.
func (p *spot) publish(e *transport.Event) {
	if p.traced(e) {
		p.trace.seen.Store(p.seen)
		p.trace.served.Store(p.atServed)
		p.trace.posted.Store(p.posted)
		p.trace.word.Store(0)
	}
	p.posted = 0
}

// firstWord returns 0 for a payload that is shorter than a word.
func firstWord(payload []byte) uint64 {
	if len(payload) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(payload)
}

// stager takes calls of a client apart, with the daemons' traces.
type stager struct {
	clock    *machine.Clock
	self     uint64                // the daemons' number for this client
	traces   []*callTrace          // by the client's number for the daemon; nil for daemons without
	missing  string                // why there are no traces
	readCost uint64                // ticks of one reading of the clock
	every    int                   // one call in so many
	left     int                   // calls until the next
	random   random                // which call
	stages   [directStages]*timing // in the order of record.DirectStages

	state                 stagerState
	trace                 *callTrace // of the call's daemon
	call                  *call
	started, posted, done uint64 // ticks
	// polled is the end of the last poll that returned responses while the call was in flight, and
	// handled the end of that iteration.
	polled, handled uint64
}

const (
	directStages = 6
	// The first of them end with a stamp that other calls do not take.
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
		random: newRandom(seed, uint64(self), drawStages)}
	for i := range s.stages {
		s.stages[i] = newTiming()
	}
	return s
}

// share gives the stager the trace of a daemon.
func (s *stager) share(daemon transport.PeerID, t *callTrace) {
	for len(s.traces) <= int(daemon) {
		s.traces = append(s.traces, nil)
	}
	s.traces[daemon] = t
}

// begin resets the records before a window.
func (s *stager) begin() {
	s.abandon()
	for _, t := range s.stages {
		t.reset()
	}
	s.next()
}

func (s *stager) next() { s.left = 1 + int(s.random.below(uint64(2*s.every))) }

// abandon gives up a trace in progress.
func (s *stager) abandon() {
	if s.state != stagerIdle {
		s.trace.word.Store(0)
		s.trace.owner.Store(0)
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
func (s *stager) afterStep(c *client, now uint64) {
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
func (s *stager) arm(c *client) {
	ahead := max(rehearsals, 2*c.cfg.InFlight) + int(s.random.below(uint64(c.cfg.InFlight)))
	index, ok := c.order.upcoming(ahead)
	if !ok {
		return
	}
	call, request := &c.calls[index], &c.requests[index]
	if call.flags&callReading != 0 || int(request.Peer) >= len(s.traces) {
		return
	}
	t := s.traces[request.Peer]
	if t == nil || !t.owner.CompareAndSwap(0, s.self+1) {
		return // another client uses it
	}
	s.trace, s.call, s.state = t, call, stagerArmed
	t.word.Store(firstWord(request.Payload))
}

// collect records the stages once the daemon has stored its stamps.
func (s *stager) collect() {
	t := s.trace
	if t.word.Load() != 0 {
		// The daemon stores them shortly after the reply, unless it took another request for this.
		if s.clock.Now()-s.done > s.clock.Ticks(collectLimit) {
			s.abandon()
		}
		return
	}
	at := [6]uint64{s.started, s.posted, t.seen.Load(), t.served.Load(), t.posted.Load(), s.done}
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
		s.stages[i].record(s.clock, spent)
	}
}
