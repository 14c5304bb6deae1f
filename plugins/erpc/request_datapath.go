package erpc

import "transportbench/core/transport"

// postCall takes a posted call into a free slot, or into the backlog. It returns false if
// no call buffer is free.
func (w *worker) postCall(p *session, op *transport.Op, now int64) bool {
	last := len(p.freeCalls) - 1
	if last < 0 {
		return false
	}
	c := p.freeCalls[last]
	p.freeCalls = p.freeCalls[:last]
	p.calls[c] = call{token: op.Token, size: len(op.Payload)}
	copy(p.buffer(p.requests, int(c), len(op.Payload)), op.Payload)
	w.counts.countCopy(len(op.Payload))
	last = len(p.freeSlots) - 1
	if last < 0 {
		*p.backlog.Push() = c
		w.counts.backlogged++
		return true
	}
	s := &p.slots[p.freeSlots[last]]
	p.freeSlots = p.freeSlots[:last]
	w.startCall(p, s, c)
	if p.state == established {
		w.pump(p, now)
	}
	return true
}

// startCall gives a slot its next call.
func (w *worker) startCall(p *session, s *clientSlot, c int32) {
	s.call = c
	s.request += uint32(len(p.slots))
	size := p.calls[c].size
	s.rpc = rpc{requestSize: size, requestPackets: packetsOf(size, w.maxData)}
	s.sent, s.received, s.resendBelow, s.timeouts = 0, 0, 0, 0
	s.cursor = nil
	w.counts.calls++
	p.enqueue(s)
}

// sendRequest sends request packet number of a slot's call.
func (w *worker) sendRequest(s *clientSlot, number int) bool {
	p, size := s.session, s.rpc.requestSize
	from, to := fragment(number, size, w.maxData)
	body := p.buffer(p.requests, int(s.call), size)[from:to]
	return w.send(p, kindRequest, s.request, uint32(number), size, body)
}

// receiveRequest handles a request packet and reports whether it completed a request.
func (w *worker) receiveRequest(p *session, h *header, data []byte, e *transport.Event,
	now int64) bool {
	slot := p.slotOf(h.request)
	s := &p.serverSlots[slot]
	x := &s.rpc
	switch {
	case s.request == h.request && s.state != noRequest: // a packet of the request in hand
	case h.request == s.request+uint32(len(p.serverSlots)) &&
		(s.state == requestReplied || s.state == noRequest):
		// The client has all of the last response, or it would not use the slot again.
		if !x.begin(h, len(data), w.maxData, w.settings.payload) {
			if h.number != 0 { // the first packet is still missing
				w.counts.outOfOrder++
			} else {
				w.counts.malformed++
			}
			return false
		}
		s.request, s.state, s.received = h.request, requestArriving, 0
	default:
		w.counts.stale++
		return false
	}
	if v := x.checkRequest(h, len(data), s.received, w.maxData); v != inOrder {
		w.countRejected(v, &w.counts.repeated)
		if v == duplicate {
			w.answer(p, s, int(h.number), now)
		}
		return false
	}
	number := s.received
	s.received++
	if x.requestPackets > 1 {
		whole := p.buffer(p.incomingRequests, slot, x.requestSize)
		from, _ := fragment(number, x.requestSize, w.maxData)
		copy(whole[from:], data)
		w.counts.countCopy(len(data))
		data = whole
	}
	if s.received < x.requestPackets {
		w.answer(p, s, number, now)
		return false
	}
	s.state = requestExecuting
	*e = transport.Event{Kind: transport.EventRequest, Peer: p.id,
		Token:   transport.Token(h.request),
		Payload: data[:x.requestSize:x.requestSize], Size: x.requestSize}
	w.counts.requests++
	return true
}
