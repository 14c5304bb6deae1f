package daemon

import (
	"math"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// storage is what lies behind the store of a daemon: it takes a time for each value and serves some
// of them at once. The daemon adds requests and answers them when they are due, and serves others
// meanwhile. It belongs to the daemon's thread and does not allocate after newStorage.
type storage struct {
	clock  *machine.Clock
	random loop.Random
	delays [2]func(unit, normal float64) time.Duration // of reads and writes; nil for none
	limit  int                                         // lanes; 0 is no limit
	// active is a heap by due, and queue a circular list of the values that wait for a lane.
	active []stored
	queue  []stored
	first  int // in queue
	queued int

	counts, AtEnd storageCounts
}

// stored is one request for a value.
type stored struct {
	due, arrived, spent uint64 // ticks
	peer                transport.PeerID
	token               transport.Token
	out                 *outbox // for the response
	write               bool
	header              [kv.HeaderSize]byte // the request of a read, or the response to a write
}

// storageCounts are of the values served in a window.
type storageCounts struct {
	Served     [2]uint64 // reads and writes
	busy, wait uint64    // ticks
	maxQueued  int
}

// newStorage returns the storage of the daemon with that number. It has room for open requests.
func newStorage(clock *machine.Clock, cfg config.Config, number, open int) *storage {
	s := &storage{clock: clock, random: loop.NewRandom(cfg.Seed, uint64(number), loop.DrawDelays),
		limit: cfg.StorageLanes}
	for i, d := range []config.Delay{cfg.ReadDelay, cfg.WriteDelay} {
		if d != "" {
			s.delays[i] = d.Sampler()
		}
	}
	lanes := open
	if s.limit > 0 {
		lanes = min(s.limit, open)
	}
	s.active, s.queue = make([]stored, 0, lanes), make([]stored, open)
	return s
}

func (s *storage) begin() { s.counts = storageCounts{} }

func (s *storage) End() { s.AtEnd = s.counts }

func (s *storage) Open() bool { return len(s.active) > 0 }

// delayed reports whether the storage takes time for reads, or for writes.
func (s *storage) delayed(write bool) bool { return s.delays[kind(write)] != nil }

func kind(write bool) int {
	if write {
		return 1
	}
	return 0
}

// left returns the time until the next request is due; there must be one.
func (s *storage) left() time.Duration {
	now := s.clock.Now()
	if due := s.active[0].due; due > now {
		return time.Duration(s.clock.Nanos(due - now))
	}
	return 0
}

// add accepts a request at now: it is served at once if a lane is free, and else waits.
func (s *storage) add(r stored, now uint64) {
	r.arrived = now
	if len(s.active) < cap(s.active) {
		s.start(r, now)
		return
	}
	at := s.first + s.queued
	if at >= len(s.queue) {
		at -= len(s.queue)
	}
	s.queue[at] = r
	s.queued++
	s.counts.maxQueued = max(s.counts.maxQueued, s.queued)
}

// start gives a request a lane from a time on.
func (s *storage) start(r stored, from uint64) {
	// Box and Muller's transformation.
	unit := s.random.Unit()
	normal := math.Sqrt(-2*math.Log(s.random.Unit())) * math.Cos(2*math.Pi*unit)
	r.spent = s.clock.Ticks(s.delays[kind(r.write)](unit, normal))
	r.due = from + r.spent
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

// next returns a request that is due at now. Its lane goes to the next one that waits, from when it
// was due if that came earlier: the daemon may look late, and a storage does not wait for that.
func (s *storage) next(now uint64) (r stored, ok bool) {
	if len(s.active) == 0 || s.active[0].due > now {
		return r, false
	}
	r = s.active[0]
	s.removeFirst()
	if s.queued > 0 {
		waiting := &s.queue[s.first]
		s.start(*waiting, max(r.due, waiting.arrived))
		if s.first++; s.first == len(s.queue) {
			s.first = 0
		}
		s.queued--
	}
	s.counts.Served[kind(r.write)]++
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

func (c *storageCounts) report(clock *machine.Clock, lanes int) *record.StorageReport {
	return &record.StorageReport{
		Lanes: lanes, Reads: c.Served[0], Writes: c.Served[1],
		BusyNS: clock.Nanos(c.busy), WaitNS: clock.Nanos(c.wait), MostQueued: c.maxQueued,
	}
}

// delay passes a request on to the storage, if that takes time for it, and reports whether it did
// so or answered it. The response goes to out. A write is stored at once, because its payload is
// gone after the next poll, and its response waits; a read is served when it is due.
func (d *Daemon) delay(e *transport.Event, out *outbox) bool {
	if len(e.Payload) < kv.HeaderSize {
		return false
	}
	r := stored{peer: e.Peer, token: e.Token, out: out}
	switch {
	case kv.IsGet(e.Payload) && d.Storage.delayed(false):
		copy(r.header[:], e.Payload)
	case kv.IsPut(e.Payload) && d.Storage.delayed(true):
		response, outcome := d.serveOne(e)
		d.Counts.Requests++
		d.Counts.Outcomes[outcome]++
		if outcome != kv.OutcomePut {
			r.reply(response)
			return true
		}
		r.write = true
		copy(r.header[:], response)
	default:
		return false
	}
	d.Storage.add(r, d.clock.Now())
	return true
}

// complete answers the requests that the storage has served, and returns their number.
func (d *Daemon) complete() (n int, err error) {
	now := d.clock.Now()
	for {
		r, ok := d.Storage.next(now)
		if !ok {
			return n, nil
		}
		n++
		response := d.headers[d.next][:]
		if r.write {
			copy(response, r.header[:])
			if d.next++; d.next == len(d.headers) {
				d.next = 0
			}
		} else {
			var outcome kv.Outcome
			response, outcome = d.serveOne(&transport.Event{Payload: r.header[:],
				Size: kv.HeaderSize})
			d.Counts.Requests++
			d.Counts.Outcomes[outcome]++
		}
		r.reply(response)
		if err := d.flushIfImmediate(); err != nil {
			return n, err
		}
	}
}

// reply adds the response to the ops to post.
func (r *stored) reply(response []byte) {
	op := r.out.Add()
	op.Kind = transport.OpReply
	op.Peer = r.peer
	op.Token = r.token
	op.Payload = response
}
