package daemon

import (
	"math"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/delay"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// storage is what lies behind the store of a daemon: it takes a time for each request and serves
// some of them at once. The daemon adds requests and answers them when they are due, and serves
// others meanwhile. It belongs to the daemon's thread and does not allocate after newStorage.
type storage struct {
	clock  *machine.Clock
	random loop.Random
	kinds  [storageKinds]struct {
		outside, held func(unit, normal float64) time.Duration // nil for none
		lanes         *lanes                                   // nil for no limit
	}
	active []stored // a heap by due

	counts, atEnd storageCounts
}

// The kinds of requests that a storage delays.
const (
	storedRead = iota
	storedWrite
	storedLookup
	storageKinds
)

// lanes bound how many requests are served at once. Requests get them in the order of arrival, so
// it is known on arrival when a request's lane is free.
type lanes struct {
	free []uint64 // ticks from which each is free; a heap
	// starts is a circular list of the starts of requests that may still wait.
	starts        []uint64
	first, queued int
}

// stored is one request.
type stored struct {
	due, arrived, spent uint64 // ticks
	peer                transport.PeerID
	token               transport.Token
	out                 *outbox // for the response
	kind                uint8
	header              [kv.HeaderSize]byte // the request, or the response to a write
}

// storageCounts are of the requests served in a window.
type storageCounts struct {
	served     [storageKinds]uint64
	busy, wait uint64 // ticks
	maxQueued  int
}

// newStorage returns the storage of the daemon with that number. It has room for open requests.
func newStorage(clock *machine.Clock, cfg config.Config, number, open int) *storage {
	s := &storage{clock: clock, random: loop.NewRandom(cfg.Seed, uint64(number), loop.DrawDelays),
		active: make([]stored, 0, open)}
	for kind, d := range []delay.Delay{cfg.ReadDelay, cfg.WriteDelay, cfg.LookupDelay} {
		if d == "" {
			continue
		}
		k := &s.kinds[kind]
		outside, held := d.Parts()
		k.held = held.Sampler()
		if outside != "" {
			k.outside = outside.Sampler()
		}
	}
	s.kinds[storedRead].lanes = newLanes(cfg.StorageLanes, open)
	s.kinds[storedWrite].lanes = s.kinds[storedRead].lanes
	if cfg.WriteLanes > 0 {
		s.kinds[storedWrite].lanes = newLanes(cfg.WriteLanes, open)
	}
	return s
}

// newLanes returns nil if there is no limit.
func newLanes(limit, open int) *lanes {
	if limit == 0 {
		return nil
	}
	return &lanes{free: make([]uint64, min(limit, open)), starts: make([]uint64, open)}
}

// hold reserves a lane for the given ticks for a request that arrives at now. It returns when the
// request gets the lane, and how many requests wait for one.
func (l *lanes) hold(now, ticks uint64) (start uint64, queued int) {
	for l.queued > 0 && l.starts[l.first] <= now {
		if l.first++; l.first == len(l.starts) {
			l.first = 0
		}
		l.queued--
	}
	if start = l.free[0]; start > now {
		at := l.first + l.queued
		if at >= len(l.starts) {
			at -= len(l.starts)
		}
		l.starts[at] = start
		l.queued++
	}
	start = max(start, now)
	l.free[0] = start + ticks
	for i := 0; ; {
		earliest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l.free); child++ {
			if l.free[child] < l.free[earliest] {
				earliest = child
			}
		}
		if earliest == i {
			return start, l.queued
		}
		l.free[i], l.free[earliest] = l.free[earliest], l.free[i]
		i = earliest
	}
}

func (s *storage) begin() { s.counts = storageCounts{} }

func (s *storage) end() { s.atEnd = s.counts }

func (s *storage) open() bool { return len(s.active) > 0 }

// delays reports whether requests of a kind take time.
func (s *storage) delays(kind uint8) bool { return s.kinds[kind].held != nil }

// left returns the time until the next request is due; there must be one.
func (s *storage) left() time.Duration {
	now := s.clock.Now()
	if due := s.active[0].due; due > now {
		return time.Duration(s.clock.Nanos(due - now))
	}
	return 0
}

// draw returns a delay in ticks.
func (s *storage) draw(sample func(unit, normal float64) time.Duration) uint64 {
	// Box and Muller's transformation.
	unit := s.random.Unit()
	normal := math.Sqrt(-2*math.Log(s.random.Unit())) * math.Cos(2*math.Pi*unit)
	return s.clock.Ticks(sample(unit, normal))
}

// add accepts a request at now. It is served at once if a lane is free, and otherwise waits for
// one. A free lane takes the next request at once, even if the daemon notices it later.
func (s *storage) add(r stored, now uint64) {
	k := &s.kinds[r.kind]
	r.arrived, r.spent, r.due = now, s.draw(k.held), now
	if k.lanes != nil {
		var queued int
		r.due, queued = k.lanes.hold(now, r.spent)
		s.counts.maxQueued = max(s.counts.maxQueued, queued)
	}
	if k.outside != nil {
		r.spent += s.draw(k.outside)
	}
	r.due += r.spent
	s.active = append(s.active, r)
	for i := len(s.active) - 1; i > 0; {
		parent := (i - 1) / 2
		if s.active[parent].due <= s.active[i].due {
			break
		}
		s.active[parent], s.active[i] = s.active[i], s.active[parent]
		i = parent
	}
}

// next returns a request that is due at now.
func (s *storage) next(now uint64) (r stored, ok bool) {
	if len(s.active) == 0 || s.active[0].due > now {
		return r, false
	}
	r = s.active[0]
	s.removeFirst()
	s.counts.served[r.kind]++
	s.counts.busy += r.spent
	s.counts.wait += r.due - r.spent - r.arrived
	return r, true
}

func (s *storage) removeFirst() {
	last := len(s.active) - 1
	s.active[0] = s.active[last]
	s.active = s.active[:last]
	for i := 0; ; {
		earliest := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s.active[child].due < s.active[earliest].due {
				earliest = child
			}
		}
		if earliest == i {
			return
		}
		s.active[i], s.active[earliest] = s.active[earliest], s.active[i]
		i = earliest
	}
}

func (s *storage) report(cfg *config.Config) *record.StorageReport {
	c := &s.atEnd
	return &record.StorageReport{
		Lanes: cfg.StorageLanes, WriteLanes: cfg.WriteLanes, Reads: c.served[storedRead],
		Writes: c.served[storedWrite], Lookups: c.served[storedLookup],
		BusyNS: s.clock.Nanos(c.busy), WaitNS: s.clock.Nanos(c.wait), MaxQueued: c.maxQueued,
	}
}

// delay passes a request on to the storage if the storage delays it, and reports whether it did so
// or answered it. The response goes to out. A write is stored at once, because its payload is
// gone after the next poll, and its response waits; others are served when they are due.
func (d *Daemon) delay(e *transport.Event, out *outbox) bool {
	if len(e.Payload) < kv.HeaderSize {
		return false
	}
	r := stored{peer: e.Peer, token: e.Token, out: out}
	switch {
	case kv.IsGet(e.Payload) && d.storage.delays(storedRead):
		copy(r.header[:], e.Payload)
	case kv.IsLookup(e.Payload) && d.storage.delays(storedLookup):
		r.kind = storedLookup
		copy(r.header[:], e.Payload)
	case kv.IsPut(e.Payload) && d.storage.delays(storedWrite):
		response, outcome := d.execute(e)
		d.counts.requests++
		d.counts.outcomes[outcome]++
		if outcome != kv.OutcomePut {
			r.reply(response)
			return true
		}
		r.kind = storedWrite
		copy(r.header[:], response)
	default:
		return false
	}
	d.storage.add(r, d.clock.Now())
	return true
}

// complete answers the requests that the storage has served, and returns their number.
func (d *Daemon) complete() (n int, err error) {
	now := d.clock.Now()
	for {
		r, ok := d.storage.next(now)
		if !ok {
			return n, nil
		}
		n++
		response := d.headers[d.next][:]
		if r.kind == storedWrite {
			copy(response, r.header[:])
			if d.next++; d.next == len(d.headers) {
				d.next = 0
			}
		} else {
			var outcome kv.Outcome
			response, outcome = d.execute(&transport.Event{Payload: r.header[:],
				Size: kv.HeaderSize})
			d.counts.requests++
			d.counts.outcomes[outcome]++
		}
		r.reply(response)
		if err := d.flushIfImmediate(); err != nil {
			return n, err
		}
	}
}

// reply adds the response to the ops to post.
func (r *stored) reply(response []byte) {
	op := r.out.add()
	op.Kind = transport.OpReply
	op.Peer = r.peer
	op.Token = r.token
	op.Payload = response
}
