package erpc

import "transportbench/core/fabric/pow2"

// wheel holds packets until they are due: a timing wheel after Carousel (Saeed et al., SIGCOMM
// 2017). A bucket covers a fixed time; its packets leave in the order in which they came.
type wheel struct {
	width   int64 // of a bucket, in nanoseconds
	mask    int64
	buckets []bucket
	entries []entry
	free    int32 // first of the list of unused entries; -1 ends it
	cursor  int64 // all buckets before this one, counted from time 0, are empty
	count   int
}

// bucket is a list of entries.
type bucket struct{ first, last int32 }

// entry is a held packet: an answer of a server, or a packet of a client. The number tells which
// one, as in answer and transmit.
type entry struct {
	next       int32
	session    uint16
	fromServer bool
	request    uint32
	number     uint32
}

// maxBuckets bounds the memory of a wheel; beyond it the buckets get wider.
const maxBuckets = 1 << 16

// newWheel returns a wheel for at most capacity packets, each held for at most horizon nanoseconds.
func newWheel(width, horizon int64, capacity int) *wheel {
	n := int64(pow2.Ceil(int(min(horizon/width+2, maxBuckets))))
	if horizon/width+2 > n {
		width = horizon/(n-2) + 1
	}
	w := &wheel{width: width, mask: n - 1, buckets: make([]bucket, n),
		entries: make([]entry, capacity), free: -1}
	for i := range w.buckets {
		w.buckets[i] = bucket{-1, -1}
	}
	for i := range w.entries {
		w.entries[i].next = w.free
		w.free = int32(i)
	}
	return w
}

// wheelEntries returns how many packets a worker's wheel holds at most: each has a credit, or
// answers one that has.
func wheelEntries(peers, credits int) int { return 2 * peers * credits }

// next returns when the first packet is due. The wheel must not be empty.
func (w *wheel) next() int64 {
	at := w.cursor
	for w.buckets[at&w.mask].first < 0 {
		at++
	}
	return at * w.width
}

// put adds an entry that is due at a time, or at the horizon if that is earlier. It returns false
// if the wheel is full.
func (w *wheel) put(e entry, now, at int64) bool {
	i := w.free
	if i < 0 {
		return false
	}
	if w.count == 0 {
		w.cursor = now / w.width
	}
	w.free = w.entries[i].next
	number := min(max((at+w.width-1)/w.width, w.cursor), w.cursor+w.mask)
	e.next = -1
	w.entries[i] = e
	b := &w.buckets[number&w.mask]
	if b.last < 0 {
		b.first = i
	} else {
		w.entries[b.last].next = i
	}
	b.last = i
	w.count++
	return true
}

// take removes and returns the next entry that is due at now.
func (w *wheel) take(now int64) (entry, bool) {
	for end := now / w.width; w.cursor <= end; w.cursor++ {
		if w.count == 0 {
			w.cursor = end + 1
			break
		}
		b := &w.buckets[w.cursor&w.mask]
		i := b.first
		if i < 0 {
			continue
		}
		e := w.entries[i]
		if b.first = e.next; e.next < 0 {
			b.last = -1
		}
		w.entries[i].next = w.free
		w.free = i
		w.count--
		return e, true
	}
	return entry{}, false
}

// schedule puts a packet into the wheel: of the client's slot s or, if s is nil, an answer of the
// server. If the wheel is full it returns false, and the packet counts as lost.
func (w *worker) schedule(p *session, s *clientSlot, request uint32, number int,
	now, at int64) bool {
	if !w.wheel.put(entry{session: p.localNumber, fromServer: s == nil, request: request,
		number: uint32(number)}, now, at) {
		return false
	}
	p.inWheel++
	if s != nil {
		s.inWheel++
	}
	return true
}

// sendDue sends the packets of the wheel that are due.
func (w *worker) sendDue(now int64) {
	for {
		e, due := w.wheel.take(now)
		if !due {
			return
		}
		p := w.sessions[e.session]
		p.inWheel--
		if p.state != established {
			continue
		}
		if e.fromServer {
			s := &p.serverSlots[p.slotOf(e.request)]
			if s.request == e.request {
				w.answer(p, s, int(e.number), now)
			}
			continue
		}
		s := &p.slots[p.slotOf(e.request)]
		s.inWheel--
		if s.call >= 0 && s.request == e.request {
			w.transmit(s, int(e.number), now)
		}
	}
}
