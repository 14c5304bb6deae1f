package rank

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/fabric/floor"
	spinning "transportbench/core/fabric/spin"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

const (
	// bareBatch is how many round trips are timed together at most, and bareSlice for how long
	// calls are made for one reading, unless one call takes longer.
	bareBatch = 16
	bareSlice = 200 * time.Microsecond
	// bareName is the name of the readings.
	bareName = "calls without the harness"
)

// bare calls over a worker, or answers its calls, without the harness: no store, no requests to
// prepare, no latencies, no checks but that of a message's size.
type bare struct {
	ctx     context.Context
	worker  transport.Worker
	idle    *loop.Idler
	wait    spinning.Wait
	stopped *atomic.Bool
	peer    transport.PeerID
	size    int // of the messages from the other side
	message []byte
	ops     []transport.Op
	events  []transport.Event
	pending int // calls that are not answered, posted or in ops
}

// probeBare measures the transport itself: round trips of one call, or with
// [record.ProbeTransportRate] the time of an operation with several in flight. The side that does
// not initiate answers until state is stopped, because only the other side knows that the last
// reply has arrived. Calls that a failed probe left without an answer get it in the next.
func (t *thread) probeBare(ctx context.Context, state *loop.State, peer transport.PeerID,
	probe record.Probe) (transport.Floor, error) {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	forth, back := max(probe.Forth, 1), max(probe.Back, 1)
	b := &bare{ctx: ctx, worker: t.worker, idle: t.idler(), stopped: &stopped, peer: peer,
		size: back}
	if !probe.Initiate {
		b.size, forth = forth, back
	}
	b.message = make([]byte, forth)
	calls := 1
	if probe.Kind == record.ProbeTransportRate {
		calls = max(probe.InFlight, 1)
	}
	b.ops = make([]transport.Op, 0, calls)
	b.events = make([]transport.Event, min(max(calls, loop.MinBatch), loop.MaxBatch))
	if !probe.Initiate {
		return transport.Floor{}, b.follow(state)
	}
	b.pending = t.unanswered
	reading, err := b.lead(probe.Duration, calls)
	t.unanswered = b.pending - len(b.ops)
	return reading, err
}

// checkUnanswered returns an error if a failed probe left calls without an answer: a window would
// take the answers for its own.
func (t *thread) checkUnanswered() error {
	if t.unanswered == 0 {
		return nil
	}
	return fmt.Errorf("%v has unanswered calls of a probe (%d)", t.id, t.unanswered)
}

// idler returns what the thread's loop does when it finds nothing.
func (t *thread) idler() *loop.Idler {
	if t.daemon != nil {
		return t.daemon.Idler()
	}
	return t.client.Idler()
}

// lead measures for about d, once the other side has answered the first call and the calls that a
// failed probe left.
func (b *bare) lead(d time.Duration, calls int) (reading transport.Floor, err error) {
	reading.Name = bareName
	if err = b.trips(1, 1); err != nil {
		return reading, err
	}
	slice, began := min(bareSlice, d/4), time.Now()
	if err = b.trips(1, 1); err != nil {
		return reading, err
	}
	batch := int(min(max(slice/max(time.Since(began), 1), 1), bareBatch))
	var times []float64
	for start := time.Now(); time.Since(start) < d && err == nil; {
		began, n := time.Now(), 0
		for {
			if err = b.trips(batch*calls, calls); err != nil {
				return reading, err
			}
			n += batch * calls
			if calls == 1 || time.Since(began) >= slice {
				break
			}
		}
		times = append(times, float64(time.Since(began))/float64(n))
		reading.Samples += n
	}
	if calls == 1 {
		reading.RoundTrip = floor.Median(times)
	} else {
		reading.PerOp = floor.Median(times)
	}
	return reading, err
}

// trips makes n calls with at most inFlight of them under way, and returns when none is.
func (b *bare) trips(n, inFlight int) error {
	for posted := 0; posted < n || b.pending > 0; {
		for range min(n-posted, inFlight-b.pending) {
			b.ops = append(b.ops, transport.Op{Kind: transport.OpCall, Peer: b.peer,
				Token: transport.Token(posted), Payload: b.message})
			posted++
			b.pending++
		}
		if err := b.post(); err != nil {
			return err
		}
		events, err := b.poll()
		if err != nil {
			return err
		}
		for i := range events {
			if err := b.check(&events[i], transport.EventResponse); err != nil {
				return err
			}
		}
		b.pending -= min(len(events), b.pending) // a window reports a call that is answered twice
	}
	return nil
}

// follow answers until state is stopped.
func (b *bare) follow(state *loop.State) error {
	for state.Now() != record.StateStopped {
		events, err := b.poll()
		if err != nil {
			return err
		}
		for i := range events {
			e := &events[i]
			if err := b.check(e, transport.EventRequest); err != nil {
				return err
			}
			b.ops = append(b.ops, transport.Op{Kind: transport.OpReply, Peer: b.peer,
				Token: e.Token, Payload: b.message})
		}
		if err := b.post(); err != nil {
			return err
		}
	}
	return nil
}

// post posts all ops that the worker takes now.
func (b *bare) post() error {
	if len(b.ops) == 0 {
		return nil
	}
	n, err := b.worker.Post(b.ops)
	if err != nil {
		return err
	}
	b.ops = b.ops[:copy(b.ops, b.ops[n:])]
	return b.worker.Flush()
}

// poll returns what has arrived, and idles if nothing has.
func (b *bare) poll() ([]transport.Event, error) {
	n, err := b.worker.Poll(b.events)
	if n == 0 && err == nil {
		if b.stopped.Load() {
			return nil, context.Cause(b.ctx)
		}
		b.wait.Idle()
		err = b.idle.Pause()
	} else {
		b.wait.Found()
	}
	return b.events[:n], err
}

func (b *bare) check(e *transport.Event, want transport.EventKind) error {
	switch {
	case e.Kind == transport.EventPeerLost:
		return fmt.Errorf("probe: %w", transport.ErrPeerDown)
	case e.Kind != want || e.Peer != b.peer || e.Size != b.size:
		return fmt.Errorf("probe: %w: event of kind %d from peer %d with %d bytes, instead of "+
			"kind %d from peer %d with %d",
			transport.ErrCorrupt, e.Kind, e.Peer, e.Size, want, b.peer, b.size)
	}
	return nil
}
