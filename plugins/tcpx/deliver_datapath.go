package tcpx

import "transportbench/core/transport"

// deliver hands out messages that are complete.
func (p *peer) deliver(events []transport.Event, n int) (int, error) {
	inbox := &p.comm.inbox
	for n < len(events) && !inbox.empty() {
		m := inbox.head()
		number, size := m.offset, int(m.size)
		call := m.kind == recordCall
		if size > p.w.settings.payload || int(number) >= len(p.owed) || call && p.owed[number] || !call && !p.calls.waiting[number] {
			return n, errProtocol
		}
		there, err := p.gather(size)
		if !there {
			return n, err
		}
		var payload []byte
		if p.destination.host != nil {
			at := int(p.read%uint64(len(p.totals)))*p.w.settings.request + p.offset
			payload = p.destination.host[at : at+size : at+size]
		} else {
			if p.comm.heads != nil {
				payload = p.comm.heads.of(inbox.first, size)
			}
			events[n].DeviceOffset = p.read*uint64(p.w.settings.request) + uint64(p.offset)
		}
		p.step(size)
		inbox.pop()
		if call {
			p.owed[number] = true
			setEvent(&events[n], transport.EventRequest, p.id, transport.Token(number), payload, size)
		} else {
			t := &p.calls
			t.waiting[number] = false
			t.free = append(t.free, number)
			setEvent(&events[n], transport.EventResponse, p.id, t.tokens[number], payload, size)
		}
		n++
	}
	return n, nil
}

// gather says whether the stream's next size bytes are there.
func (p *peer) gather(size int) (bool, error) {
	for p.gathered < size {
		// What goes on in the next request goes on right behind a full one.
		if p.gathered > 0 && p.total(p.gatheredTo-1) < p.w.settings.request {
			return false, errProtocol
		}
		if p.gatheredTo == p.comm.receiveConsumed {
			return false, nil
		}
		p.gathered += p.total(p.gatheredTo)
		p.gatheredTo++
	}
	return true, nil
}

// total is the bytes of a receive that was consumed.
func (p *peer) total(number uint64) int { return p.totals[number%uint64(len(p.totals))] }

// step goes behind a message that is there.
func (p *peer) step(size int) {
	p.gathered -= size
	p.offset += size
	for p.read < p.gatheredTo && p.offset >= p.total(p.read) {
		p.offset -= p.total(p.read)
		p.read++
	}
}

// setEvent fills an event field by field: a literal is built on the stack with narrow
// stores and copied with wide loads, which stall on them.
func setEvent(e *transport.Event, kind transport.EventKind, peer transport.PeerID, token transport.Token, payload []byte, size int) {
	e.Kind = kind
	e.Peer = peer
	e.Token = token
	e.Payload = payload
	e.Size = size
}
