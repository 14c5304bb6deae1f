package copyrpc

import (
	"encoding/binary"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// lookInterval is the number of polls between two looks for credit that came by itself, and for
// datagrams while all connections are up: a peer may have lost the last datagram and still wait for
// it.
const lookInterval = 1 << 10

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.peers.Closed() {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	if len(w.owing) > 0 {
		w.sendOwedCredit()
	}
	if len(w.held) > 0 {
		w.releaseHeld()
	}
	if w.polls++; w.manager.pending > 0 || w.polls%lookInterval == 0 {
		w.manager.progress()
		w.takeCredit()
	}
	if ticks := w.endpoint.ticks.Load(); ticks != w.seenTicks {
		w.seenTicks = ticks
		w.sweep()
	}
	if len(w.blocked) > 0 {
		w.retry()
	}
	if len(w.ready) > 0 {
		n = w.deliverReady(events)
	}
	if n, err = w.collect(events, n); err != nil {
		return n, err
	}
	if w.lost.Len() > 0 {
		n += w.lost.Report(events[n:])
	}
	if len(w.corrupt) > 0 {
		p := w.corrupt[len(w.corrupt)-1]
		w.corrupt = w.corrupt[:len(w.corrupt)-1]
		return n, p.errors.Corrupt
	}
	return n, nil
}

// collect polls completions and delivers the messages that they announce, after the first
// n events.
func (w *worker) collect(events []transport.Event, n int) (int, error) {
	found, err := w.cq.Poll(w.completions)
	if err != nil {
		return n, name.Error("poll", err)
	}
	completions := w.completions[:found]
	for i := range completions {
		c := &completions[i]
		p := w.byCookie[c.QueuePair]
		switch {
		case c.Status != rdma.StatusOK:
			w.losePeer(p)
		case c.Opcode == rdma.ReceiveWriteImmediate:
			w.receivesPosted--
			if units := c.Immediate - loneMessage; units <= maxLoneUnits && p.canDeliverLone() &&
				n < len(events) {
				p.consumed++
				if w.deliverLone(p, uint64(units)*unit, &events[n]) {
					n++
				}
				continue
			}
			if rdma.IsProbe(c.Immediate) {
				continue // the peer waits for this side to join, or has given up
			}
			p.consumed++
			n = w.arrive(p, c.Immediate, events, n)
		case c.ID == positionID:
			p.readPending = false
			w.restoreFrom(p, p.fetched)
			p.requestCompleted()
		case c.ID == keepaliveID:
			p.sweeps, p.keepalivePending = 0, false
		default:
			p.requestCompleted()
		}
	}
	if w.receivesPosted <= w.refillBelow {
		return n, w.refill()
	}
	return n, nil
}

// requestCompleted records that the send queue moves, so a keepalive that found no room
// will find some.
func (p *peer) requestCompleted() {
	if !p.keepalivePending {
		p.sweeps = 0
	}
}

// arrive delivers what an immediate announces from event n on, and returns up to where. Messages
// that do not fit into events make the peer ready.
func (w *worker) arrive(p *peer, immediate uint32, events []transport.Event, n int) int {
	if p.state == connecting {
		w.bringUp(p) // a peer that writes is connected
	}
	switch immediate {
	case farewell:
		w.losePeer(p)
		return n
	case creditNotice:
		w.creditArrived(p)
		return n
	}
	if immediate-loneMessage <= maxLoneUnits {
		immediate -= loneMessage
		p.expandLone()
	}
	p.arrived += uint64(immediate) * unit
	if p.arrived-p.released > w.settings.ring {
		w.cutOff(p)
		return n
	}
	if size := int(immediate) * unit; size > prefetchFrom {
		at := int(p.arrived-uint64(size)) & (len(p.receiveRing) - 1)
		shm.Prefetch(p.receiveRing[at:min(at+min(size, maxPrefetch), len(p.receiveRing))])
	}
	if p.isReady || p.state > up {
		return n
	}
	n = w.parse(p, events, n)
	if p.unfinished() {
		p.isReady = true
		w.ready = append(w.ready, p)
	}
	return n
}

// canDeliverLone reports whether deliverLone may take the next message. Everything before has been
// parsed, or isReady would be set; so the message begins at arrived.
func (p *peer) canDeliverLone() bool { return p.state == up && !p.isReady }

// deliverLone delivers a lone message, which takes size bytes of the ring from arrived on. It is
// parse for the most frequent batch of a connection with one call in flight. It returns false if
// the peer is cut off.
func (w *worker) deliverLone(p *peer, size uint64, e *transport.Event) bool {
	at := p.arrived & uint64(len(p.receiveRing)-1)
	p.arrived += size
	b := p.receiveRing[at:]
	word := binary.LittleEndian.Uint64(b[headerSize:])
	id, length := unpackLone(word)
	units, receives := loneCredit(word, uint32(p.peerReleased/unit), p.returned)
	var ok bool
	if id&responseBit == 0 {
		e.Kind, e.Token = transport.EventRequest, transport.Token(id)
		ok = p.requests.Begin(id)
	} else {
		e.Kind = transport.EventResponse
		e.Token, ok = p.calls.answer(id &^ responseBit)
	}
	if !ok || length+headerSize+messageHeader > min(size, uint64(len(b))) ||
		p.arrived-p.released > uint64(len(p.receiveRing)) || !p.restore(units, receives) {
		w.cutOff(p)
		return false
	}
	e.Peer = p.id
	e.Payload = b[headerSize+messageHeader:][:length:length]
	e.Size = int(length)
	p.parsed = p.arrived
	w.hold(p)
	return true
}

// expandLone gives the lone message that arrives the headers of a batch, for parse.
func (p *peer) expandLone() {
	b := p.receiveRing[p.arrived&uint64(len(p.receiveRing)-1):]
	word := binary.LittleEndian.Uint64(b[headerSize:])
	id, length := unpackLone(word)
	units, receives := loneCredit(word, uint32(p.peerReleased/unit), p.returned)
	putHeader(b, units, receives, 1)
	binary.LittleEndian.PutUint64(b[headerSize:], uint64(id)|length<<32)
}

// The bytes of a batch from which on its lines are requested at once, and how many are. Two lines
// cost less than the request, and a core has no room for more misses than 32.
const (
	prefetchFrom = 128
	maxPrefetch  = 2 << 10
)

// deliverReady delivers what arrived earlier and did not fit into the events then.
func (w *worker) deliverReady(events []transport.Event) (n int) {
	for i := 0; i < len(w.ready) && n < len(events); {
		at := w.nextReady + i
		if at >= len(w.ready) {
			at -= len(w.ready)
		}
		p := w.ready[at]
		n = w.parse(p, events, n)
		if p.unfinished() {
			i++
			continue
		}
		p.isReady = false
		last := len(w.ready) - 1
		w.ready[at] = w.ready[last]
		w.ready = w.ready[:last]
		if w.nextReady >= last {
			w.nextReady = 0
		}
		if p.state == dying {
			w.reportLost(p)
		}
	}
	// The next Poll starts with the peer after this one, so that none starves.
	if w.nextReady++; w.nextReady >= len(w.ready) {
		w.nextReady = 0
	}
	return n
}

// unfinished reports whether parse has something to do. A batch may end before the messages that
// its header counts; parse cuts such a peer off.
func (p *peer) unfinished() bool { return p.messagesLeft > 0 || p.parsed != p.arrived }

// parse fills events from n on with messages of one peer, and returns up to where. It cuts the peer
// off at a malformed message.
func (w *worker) parse(p *peer, events []transport.Event, n int) int {
	for n < len(events) && p.unfinished() {
		if p.messagesLeft == 0 {
			if !w.readHeader(p) {
				w.cutOff(p)
				return n
			}
			if p.messagesLeft == 0 {
				continue // padding
			}
		}
		at := p.parsed & (w.settings.ring - 1)
		rest := p.receiveRing[at:min(at+p.arrived-p.parsed, w.settings.ring)]
		end := p.parsed + uint64(len(rest))
		w.hold(p)
		count := min(int(p.messagesLeft), len(events)-n)
		for range count {
			if len(rest) < messageHeader {
				w.cutOff(p)
				return n
			}
			word := binary.LittleEndian.Uint64(rest)
			id, length := uint32(word), word>>32
			space := messageSpace(int(length))
			e := &events[n]
			// As in deliverLone: a function for both is too large to be inlined, and its call would
			// take 27 instructions a message.
			var ok bool
			if id&responseBit == 0 {
				e.Kind, e.Token = transport.EventRequest, transport.Token(id)
				ok = p.requests.Begin(id)
			} else {
				e.Kind = transport.EventResponse
				e.Token, ok = p.calls.answer(id &^ responseBit)
			}
			if !ok || space > uint64(len(rest)) {
				w.cutOff(p)
				return n
			}
			e.Peer = p.id
			e.Payload = rest[messageHeader : messageHeader+length : messageHeader+length]
			e.Size = int(length)
			rest = rest[space:]
			n++
		}
		p.messagesLeft -= uint32(count)
		p.parsed = end - uint64(len(rest))
		if p.messagesLeft == 0 {
			p.parsed = roundUp(p.parsed)
		}
	}
	return n
}

// readHeader reads the header of the next batch. It returns false if the header is
// malformed.
func (w *worker) readHeader(p *peer) bool {
	size := uint64(len(p.receiveRing))
	at := p.parsed & (size - 1)
	word := binary.LittleEndian.Uint64(p.receiveRing[at:])
	count := uint32(word >> (8 * headerCount))
	// Headers arrive in order, and fewer than 1<<15 receives can return between two.
	receives := p.returned + uint32(int16(uint32(word>>(8*headerReceives))-p.returned))
	if !w.settings.readsCredit && !p.restore(uint32(word), receives) {
		return false
	}
	if count == paddingCount {
		p.parsed += size - at
		w.hold(p)
		return p.parsed <= p.arrived
	}
	p.parsed += headerSize
	p.messagesLeft = count
	return count != 0
}

// hold makes the next Poll release what was parsed.
func (w *worker) hold(p *peer) {
	if !p.isHeld {
		p.isHeld = true
		w.held = append(w.held, p)
	}
}

// losePeer ends a connection. Messages that have arrived are delivered before
// EventPeerLost.
func (w *worker) losePeer(p *peer) {
	if p.state > up {
		return
	}
	if p.state == connecting {
		w.manager.pending--
	}
	if p.state == up && w.dynamic != nil {
		_ = w.manager.send(p, kindBye) // the target goes on taking what the peer sends
	}
	p.state = dying
	w.peers.Shut(p.id)
	if !p.isReady {
		w.reportLost(p)
	}
}

// reportLost makes Poll return EventPeerLost.
func (w *worker) reportLost(p *peer) {
	p.state = lost
	w.lost.Add(p.id)
}

// cutOff ends a connection whose peer broke the protocol. No more of its messages are
// delivered, and Poll returns ErrCorrupt.
func (w *worker) cutOff(p *peer) {
	if p.state == lost {
		return
	}
	w.losePeer(p)
	p.parsed, p.messagesLeft = p.arrived, 0
	w.corrupt = append(w.corrupt, p)
}
