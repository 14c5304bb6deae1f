package erpc

import "transportbench/core/transport"

// postReply takes the response to a request that is executing and sends its first packet. It
// returns false if there is no such request.
func (w *worker) postReply(p *session, op *transport.Op, now int64) bool {
	slot := p.slotOf(uint32(op.Token))
	s := &p.serverSlots[slot]
	if s.state != requestExecuting || transport.Token(s.request) != op.Token {
		return false
	}
	s.state = requestReplied
	x := &s.exchange
	x.responseSize = len(op.Payload)
	x.responsePackets = packetsOf(x.responseSize, w.maxData)
	copy(p.buffer(p.responses, slot, x.responseSize), op.Payload)
	w.counts.countCopy(x.responseSize)
	w.answer(p, s, x.requestPackets-1, now)
	return true
}

// sendResponse sends the response packet with this number.
func (w *worker) sendResponse(p *session, s *serverSlot, number int) bool {
	x := &s.exchange
	from, to := fragment(number-(x.requestPackets-1), x.responseSize, w.maxData)
	body := p.buffer(p.responses, p.slotOf(s.request), x.responseSize)[from:to]
	return w.send(p, kindResponse, s.request, uint32(number), x.responseSize, body)
}

// receiveResponse handles a response packet and reports whether it completed a call.
func (w *worker) receiveResponse(p *session, h *header, data []byte, e *transport.Event,
	now int64) bool {
	s := p.awaitedBy(h)
	if s == nil {
		w.counts.duplicates++
		return false
	}
	x := &s.exchange
	number := s.received
	if v := x.checkResponse(h, len(data), number, s.sent, w.maxData, w.settings.payload); v !=
		inOrder {
		w.countRejected(v, &w.counts.duplicates)
		return false
	}
	w.acceptAnswer(s, now)
	if x.responsePackets > 1 {
		whole := p.buffer(p.incoming, s.index, x.responseSize)
		from, _ := fragment(number-(x.requestPackets-1), x.responseSize, w.maxData)
		if &whole[from] != &data[0] {
			copy(whole[from:], data)
			w.counts.countCopy(len(data))
		}
		data = whole
	}
	complete := s.received == x.packets()
	if complete {
		w.complete(p, s, data, e)
	} else {
		w.proceed(s)
	}
	w.pump(p, now)
	return complete
}

// place asks the port to receive the next packets of a long response where they belong. Of several
// responses the packets come in turn, so only one is placed.
func (w *worker) place() {
	s := w.awaiting
	if s == nil || s.next != nil || s.exchange.responsePackets < 2 || w.placer == nil {
		return
	}
	w.placer.Place(w.missing(s), headerSize)
}

// missing returns the memory for what is still to come of a response whose first packet has come.
func (w *worker) missing(s *clientSlot) []byte {
	x := &s.exchange
	from, _ := fragment(s.received-(x.requestPackets-1), x.responseSize, w.maxData)
	return s.session.buffer(s.session.incoming, s.index, x.responseSize)[from:]
}

// isPlaced reports whether a body is where its packet belongs. Another packet may have taken its
// place, and it that of another; then it has to leave before that comes.
func (w *worker) isPlaced(h *header, body []byte) bool {
	number := h.session - w.firstNumber
	if h.kind != kindResponse || int(number) >= len(w.sessions) || w.sessions[number] == nil {
		return false
	}
	s := w.sessions[number].awaitedBy(h)
	if s == nil || s.exchange.responsePackets < 2 || int(h.number) != s.received {
		return false
	}
	rest := w.missing(s)
	return len(rest) > 0 && &rest[0] == &body[0]
}

// complete makes the event of an answered call and gives its slot to the next call.
func (w *worker) complete(p *session, s *clientSlot, data []byte, e *transport.Event) {
	size := s.exchange.responseSize
	*e = transport.Event{Kind: transport.EventResponse, Peer: p.id, Token: p.calls[s.call].token,
		Payload: data[:size:size], Size: size}
	p.freeCalls = append(p.freeCalls, s.call)
	s.call = -1
	w.stopAwaiting(s)
	if p.backlog.empty() {
		p.freeSlots = append(p.freeSlots, int32(s.index))
		return
	}
	w.startCall(p, s, p.backlog.pop())
}
