package copyrpc

import (
	"encoding/binary"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// managerTurns is every how many polls datagrams are looked for while no connection
// is missing: a peer may have lost the last one.
const managerTurns = 1 << 10

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.closed {
		return 0, transport.NewOpError(name, "poll", transport.ErrClosed)
	}
	if len(w.owing) > 0 {
		w.settle()
	}
	if len(w.held) > 0 {
		w.letGo()
	}
	if w.polls++; w.manager.missing > 0 || w.polls%managerTurns == 0 {
		w.manager.progress()
	}
	if ticks := w.rank.ticks.Load(); ticks != w.sweeping {
		w.sweeping = ticks
		w.sweep()
	}
	if len(w.stuck) > 0 {
		w.retry()
	}
	if len(w.ready) > 0 {
		n = w.deliver(events)
	}
	if n, err = w.collect(events, n); err != nil {
		return n, err
	}
	if len(w.gone) > 0 {
		n += w.tellLost(events[n:])
	}
	if len(w.broken) > 0 {
		p := w.broken[len(w.broken)-1]
		w.broken = w.broken[:len(w.broken)-1]
		return n, p.errors.corrupt
	}
	return n, nil
}

// collect takes completions, and hands out what they tell of behind the first n events.
func (w *worker) collect(events []transport.Event, n int) (int, error) {
	found, err := w.cq.Poll(w.completions)
	if err != nil {
		return n, transport.NewOpError(name, "poll", err)
	}
	for i := range w.completions[:found] {
		c := &w.completions[i]
		p := w.slots[c.QueuePair]
		switch {
		case c.Status != rdma.StatusOK:
			w.lose(p)
		case c.Opcode == rdma.ReceiveWriteImmediate:
			w.posts--
			p.taken++
			if w.arrive(p, c.Immediate) {
				n += w.hand(p, events[n:])
			}
		case c.ID == positionID:
			p.reading = false
			w.restore(p, p.fetched)
			p.completed()
		case c.ID == keepaliveID:
			p.tried, p.isTrying = 0, false
		default:
			p.completed()
		}
	}
	if w.posts <= w.few {
		return n, w.refill()
	}
	return n, nil
}

// completed is for requests other than keepalives: one of them makes room for a keepalive
// that found none.
func (p *peer) completed() {
	if !p.isTrying {
		p.tried = 0
	}
}

// arrive books what an immediate tells of, and says whether that can be handed out now.
func (w *worker) arrive(p *peer, immediate uint32) bool {
	if p.state == connecting {
		w.bringUp(p) // who writes is connected
	}
	if immediate == farewell {
		w.lose(p)
		return false
	}
	p.arrived += uint64(immediate) * unit
	if p.arrived-p.released > w.settings.ring {
		w.corrupted(p)
		return false
	}
	return !p.isReady && p.state <= up
}

// hand hands out what has just arrived. What the events do not hold makes the peer
// ready.
func (w *worker) hand(p *peer, events []transport.Event) int {
	n, ok := w.parse(p, events)
	if n > 0 {
		w.hold(p)
	}
	if !ok {
		w.corrupted(p)
	}
	if p.parsed != p.arrived {
		p.isReady = true
		w.ready = append(w.ready, p)
	}
	return n
}

// deliver hands out what arrived before and did not fit the events then.
func (w *worker) deliver(events []transport.Event) (n int) {
	for i := 0; i < len(w.ready) && n < len(events); {
		at := w.turn + i
		if at >= len(w.ready) {
			at -= len(w.ready)
		}
		p := w.ready[at]
		got, ok := w.parse(p, events[n:])
		if got > 0 {
			w.hold(p)
		}
		n += got
		if !ok {
			w.corrupted(p)
		}
		if p.parsed != p.arrived {
			i++
			continue
		}
		p.isReady = false
		last := len(w.ready) - 1
		w.ready[at] = w.ready[last]
		w.ready = w.ready[:last]
		if w.turn >= last {
			w.turn = 0
		}
		if p.state == dying {
			w.bury(p)
		}
	}
	// Whom the events' end cut off comes first next time.
	if w.turn++; w.turn >= len(w.ready) {
		w.turn = 0
	}
	return n
}

// parse makes events of one peer's messages; it says no where they make no sense.
func (w *worker) parse(p *peer, events []transport.Event) (n int, ok bool) {
	mask := uint64(len(p.inbox)) - 1
	for n < len(events) {
		if p.left == 0 {
			if p.parsed == p.arrived {
				break
			}
			if !w.open(p) {
				return n, false
			}
			continue
		}
		at := p.parsed & mask
		left := p.end - p.parsed
		if left < messageHeader {
			return n, false
		}
		word := binary.LittleEndian.Uint64(p.inbox[at:])
		id, length := uint32(word), word>>32
		space := messageSpace(int(length))
		e := &events[n]
		if space > left || !p.book(id, e) {
			return n, false
		}
		at += messageHeader
		e.Peer = p.id
		e.Payload = p.inbox[at : at+length : at+length]
		e.Size = int(length)
		n++
		p.parsed += space
		if p.left--; p.left == 0 {
			p.parsed = roundUp(p.end)
		}
	}
	return n, true
}

// open begins a batch.
func (w *worker) open(p *peer) bool {
	size := uint64(len(p.inbox))
	at := p.parsed & (size - 1)
	b := p.inbox[at:]
	credit := binary.LittleEndian.Uint64(b)
	word := binary.LittleEndian.Uint64(b[headerCount:])
	count, length := uint32(word), word>>32
	if !w.settings.fetches && !p.restore(uint32(credit), uint32(credit>>32)) {
		return false
	}
	if count == fillerCount {
		p.parsed += size - at
		w.hold(p)
		return p.parsed <= p.arrived
	}
	p.end = p.parsed + length
	if count == 0 || length < headerSize || length > size-at || roundUp(p.end) > p.arrived {
		return false
	}
	p.parsed += headerSize
	p.left = count
	return true
}

// hold has the next Poll let go what was parsed.
func (w *worker) hold(p *peer) {
	if !p.isHeld {
		p.isHeld = true
		w.held = append(w.held, p)
	}
}

// book books a message and says what kind of event it is.
func (p *peer) book(id uint32, e *transport.Event) bool {
	if id&responseBit == 0 {
		if int(id) >= len(p.owed) || p.owed[id] {
			return false
		}
		p.owed[id] = true
		e.Kind = transport.EventRequest
		e.Token = transport.Token(id)
		return true
	}
	id &^= responseBit
	t := &p.calls
	if int(id) >= len(t.waiting) || !t.waiting[id] {
		return false
	}
	t.waiting[id] = false
	t.inFlight--
	t.answered = append(t.answered, id)
	e.Kind = transport.EventResponse
	e.Token = t.tokens[id]
	return true
}

// lose takes a peer for lost. What has arrived from it comes first.
func (w *worker) lose(p *peer) {
	if p.state > up {
		return
	}
	if p.state == connecting {
		w.manager.missing--
	}
	p.state = dying
	if !p.isReady {
		w.bury(p)
	}
}

// bury has Poll tell of a lost peer.
func (w *worker) bury(p *peer) {
	p.state = lost
	w.gone = append(w.gone, p)
}

// corrupted cuts a peer off that broke the protocol: nothing more of it is handed
// out.
func (w *worker) corrupted(p *peer) {
	if p.state == lost {
		return
	}
	w.lose(p)
	p.parsed = p.arrived
	w.broken = append(w.broken, p)
}

// tellLost tells of lost peers.
func (w *worker) tellLost(events []transport.Event) (n int) {
	for n < len(events) && len(w.gone) > 0 {
		last := len(w.gone) - 1
		events[n] = transport.Event{Kind: transport.EventPeerLost, Peer: w.gone[last].id}
		w.gone = w.gone[:last]
		n++
	}
	return n
}

// sweep tries the connections with empty writes, one at a time, which fail where the peer
// is dead. One that never completes costs the peer as well, and so does a send queue that
// has no room for one and of which nothing completes: see patience.
func (w *worker) sweep() {
	for _, p := range w.slots {
		if p.state != up {
			continue
		}
		if p.tried > 0 {
			if p.tried++; p.tried > w.patience {
				w.abandon(p)
				continue
			}
		}
		if p.isTrying {
			continue
		}
		r := &w.requests[0]
		*r = rdma.SendRequest{ID: keepaliveID, Opcode: rdma.Write, Flags: rdma.Signaled, Remote: p.there, RemoteKey: p.key}
		switch n, _ := p.qp.PostSend(w.requests[:1]); {
		case n == 1:
			p.tried, p.isTrying = 1, true
			w.counts.keepalives++
		case p.tried == 0:
			p.tried = 1
		}
	}
}
