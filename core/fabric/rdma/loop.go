package rdma

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// LoopConfig configures a [Loop].
type LoopConfig struct {
	// Name is what the queue pair does, such as "UD" or "RDMA write"; the floors are named after
	// it.
	Name string
	// Send is what all sends have in common: opcode, memory, and of a WRITE the remote memory. The
	// opcode has an immediate.
	Send SendRequest
	// Receive is receive 0, and Stride the distance in bytes to the buffer of the next. The IDs of
	// receives end with their numbers. Both are zero for WRITEs, which use no receive memory.
	Receive ReceiveRequest
	Stride  int
	// MTU is the size of the largest datagram; a longer message takes several. 0 if there is no
	// limit.
	MTU int
	// Depth is the most sends and Window the most messages of one direction that are under way.
	Depth, Window int
	// MaxMessage is the longest message in bytes.
	MaxMessage int
}

// Loop measures the floors of verbs over a queue pair. The loop that posts and polls is C: it looks
// at nothing but the immediates, which it marks so that [IsProbe] tells them from others. It uses
// the queue pair's own completion queue; completions of anything else stay for the next Poll.
type Loop struct {
	config LoopConfig
	end    loopEnd
	last   uint32 // nonce of the last probe that this side led or answered
}

// IsProbe reports whether an immediate belongs to a probe. One may arrive outside of a probe, from
// a peer that waits for this side or that has given up.
func IsProbe(immediate uint32) bool { return immediate>>30 == 2 }

// loopEnd is the C side of a loop.
type loopEnd interface {
	begin(peer PeerHandle, m loopMessages)
	lead(s loopSlice) (result loopResult, ops int, elapsed time.Duration, err error)
	// follow answers until the leader's farewell. nonce identifies the probe.
	follow(patience time.Duration) (result loopResult, nonce uint32, err error)
	stop() // by any thread
}

type loopResult int

const (
	loopDone loopResult = iota
	loopStopped
	loopLost    // nothing arrived for too long
	loopForeign // the completion queue has something for others
)

// loopMessages describes the messages of a probe: those out are parts datagrams of size bytes but
// the last, those in are expected datagrams.
type loopMessages struct {
	parts, size, last, expected int
	nonce                       uint32
	lastNonce                   uint32
}

// loopSlice is what C measures in one call: until duration is over or most messages are answered.
type loopSlice struct {
	window, group, maximum int
	farewell               bool
	duration, patience     time.Duration
}

// loopMaker is implemented by the queue pairs that have a loop in C.
type loopMaker interface {
	newLoopEnd(c LoopConfig) (loopEnd, error)
}

// NewLoop makes a loop that lives as long as the queue pair. It returns
// transport.ErrUnsupported for the soft device: the runtime probes memory itself.
func NewLoop(q QueuePair, c LoopConfig) (*Loop, error) {
	m, ok := q.(loopMaker)
	if !ok {
		return nil, transport.ErrUnsupported
	}
	end, err := m.newLoopEnd(c)
	if err != nil {
		return nil, err
	}
	return &Loop{config: c, end: end}, nil
}

const (
	loopBatch       = 8 // round trips that are timed together
	loopSliceTime   = 300 * time.Microsecond
	loopPatience    = 2 * time.Millisecond
	loopMaxPatience = 200 * time.Millisecond
	loopFarewells   = 25 // takes some seconds
	loopMaxTrips    = 1 << 30
	loopNonces      = 1<<15 - 1
)

// shape returns how many datagrams a message takes, and the sizes of all but the last and of the
// last.
func (c *LoopConfig) shape(payload int) (parts, size, last int) {
	bytes := payload + transport.ProbeHeader
	if c.MTU == 0 || bytes <= c.MTU {
		return 1, bytes, bytes
	}
	parts = (bytes + c.MTU - 1) / c.MTU
	return parts, c.MTU, bytes - (parts-1)*c.MTU
}

// Probe is one side of a probe with a peer, which is ignored for RC. check runs on the caller's
// thread when the completion queue has something for others or nothing arrives; its error ends the
// probe.
func (l *Loop) Probe(ctx context.Context, peer PeerHandle, p transport.Probe,
	check func() error) (f transport.Floor, err error) {
	c := &l.config
	switch {
	case p.Kind != transport.ProbeMedium && p.Kind != transport.ProbeRate:
		return f, transport.ErrUnsupported
	case p.Forth < 0 || p.Back < 0 || max(p.Forth, p.Back)+transport.ProbeHeader > c.MaxMessage:
		return f,
			fmt.Errorf("%w: payloads of %d and %d bytes; a probe of this queue pair has at most %d",
				transport.ErrUnsupported, p.Forth, p.Back, c.MaxMessage-transport.ProbeHeader)
	}
	out, in := p.Forth, p.Back
	if !p.Initiate {
		out, in = in, out
	}
	m := loopMessages{lastNonce: l.last}
	m.parts, m.size, m.last = c.shape(out)
	m.expected, _, _ = c.shape(in)
	for p.Initiate && (m.nonce == 0 || m.nonce == l.last) {
		m.nonce = 1 + rand.Uint32N(loopNonces)
	}
	l.end.begin(peer, m)
	stopped := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		l.end.stop()
		close(stopped)
	})
	defer func() {
		if !cancel() {
			<-stopped // the queue pair may be closed next, and the flag with it
		}
	}()
	s := loopSide{Loop: l, check: check, done: ctx.Done(), patience: loopPatience}
	switch {
	case !p.Initiate:
		err = s.follow()
	case p.Kind == transport.ProbeMedium:
		f, err = s.medium(p.Duration)
	default:
		f, err = s.rate(p.Duration, min(max(p.InFlight, 1),
			max(c.Window/max(m.parts, m.expected), 1)))
	}
	if err == nil && p.Initiate {
		l.last = m.nonce
		err = s.farewell()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return transport.Floor{}, err
	}
	return f, nil
}

// loopSide is one side of one probe.
type loopSide struct {
	*Loop
	check    func() error
	done     <-chan struct{}
	patience time.Duration
}

// slice measures one slice. If messages were lost or the other side has not joined yet, it tries
// again until the probe is stopped; ops is 0 then.
func (s *loopSide) slice(o loopSlice) (ops int, elapsed time.Duration, err error) {
	for o.patience = s.patience; ; o.patience = min(2*o.patience, loopMaxPatience) {
		result, ops, elapsed, err := s.end.lead(o)
		if err == nil && (result == loopLost || result == loopForeign) {
			err = s.check()
		}
		switch {
		case err != nil || result == loopStopped:
			return 0, 0, err
		case result == loopDone:
			return ops, elapsed, nil
		case result == loopLost:
			o.window = max(o.window/2, 1)
			o.group = min(o.group, o.window)
		}
	}
}

func (s *loopSide) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// join waits for the other side. RC loses nothing after that, and long messages may take long.
func (s *loopSide) join() error {
	_, _, err := s.slice(loopSlice{window: 1, group: 1, maximum: 1, duration: time.Hour})
	if s.config.MTU == 0 {
		s.patience = loopMaxPatience
	}
	return err
}

// medium measures batches of round trips.
func (s *loopSide) medium(d time.Duration) (transport.Floor, error) {
	one := loopSlice{window: 1, group: 1, maximum: loopBatch, duration: time.Hour}
	if err := s.join(); err != nil {
		return transport.Floor{}, err
	}
	var times []float64
	for start := time.Now(); !s.stopped() && floor.Another(len(times), 1, time.Since(start), d); {
		ops, elapsed, err := s.slice(one)
		if err != nil {
			return transport.Floor{}, err
		}
		if ops > 0 {
			times = append(times, float64(elapsed)/float64(ops))
		}
	}
	return transport.Floor{Name: s.config.Name + " ping-pong", RoundTrip: floor.Median(times),
		Samples: len(times) * loopBatch}, nil
}

// rate measures the time per message with inFlight under way. Which batches are the fastest depends
// on what a doorbell costs next to a message: the fastest is the floor.
func (s *loopSide) rate(d time.Duration, inFlight int) (transport.Floor, error) {
	groups := slices.Compact([]int{inFlight, max(inFlight/2, 1), max(inFlight/4, 1), 1})
	times := make([][]float64, len(groups))
	if err := s.join(); err != nil {
		return transport.Floor{}, err
	}
	o := loopSlice{window: inFlight, maximum: loopMaxTrips}
	o.duration = max(d/time.Duration(4*len(groups)), loopSliceTime)
	total := 0
	for start, turn := time.Now(), 0; !s.stopped() &&
		floor.Another(turn, len(groups), time.Since(start), d); turn++ {
		way := turn % len(groups)
		o.group = groups[way]
		ops, elapsed, err := s.slice(o)
		if err != nil {
			return transport.Floor{}, err
		}
		if ops > 0 {
			times[way] = append(times[way], float64(elapsed)/float64(ops))
		}
		total += ops
	}
	return transport.Floor{Name: s.config.Name + " stream", PerOp: floor.MinMedian(times),
		Samples: total}, nil
}

// farewell ends the probe at the other side, which may have left already.
func (s *loopSide) farewell() error {
	o := loopSlice{window: 1, group: 1, maximum: 1, farewell: true, patience: s.patience}
	for range loopFarewells {
		result, _, _, err := s.end.lead(o)
		// after a loss it would drop the answer, which comes once
		if err == nil && result == loopForeign {
			err = s.check()
		}
		if err != nil || result == loopDone || result == loopStopped {
			return err
		}
		o.patience = min(2*o.patience, loopMaxPatience)
	}
	return nil
}

// follow answers until the leader's farewell.
func (s *loopSide) follow() error {
	for {
		result, nonce, err := s.end.follow(loopMaxPatience)
		if err == nil && (result == loopLost || result == loopForeign) {
			err = s.check()
		}
		if err != nil || result == loopStopped {
			return err
		}
		if result == loopDone {
			s.last = nonce
			return nil
		}
	}
}
