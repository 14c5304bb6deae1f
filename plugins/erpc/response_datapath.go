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
	x := &s.rpc
	x.responseSize = len(op.Payload)
	x.responsePackets = packetsOf(x.responseSize, w.maxData)
	copy(p.buffer(p.responses, slot, x.responseSize), op.Payload)
	w.counts.countCopy(x.responseSize)
	w.answer(p, s, x.requestPackets-1, now)
	return true
}

// sendResponse sends the response packet with this number.
func (w *worker) sendResponse(p *session, s *serverSlot, number int) bool {
	x := &s.rpc
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
	x := &s.rpc
	number := s.received
	if v := x.checkResponse(h, len(data), number, s.sent, w.maxData,
		w.settings.payload); v != inOrder {
		w.countRejected(v, &w.counts.duplicates)
		return false
	}
	w.acceptAnswer(s, now)
	if x.responsePackets > 1 {
		data = p.reassemble(w, s, data)
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

// reassemble puts the next packet's data at the slot's cursor, unless the port has received it
// there, and returns the whole response.
func (p *session) reassemble(w *worker, s *clientSlot, data []byte) (whole []byte) {
	whole = p.buffer(p.incomingResponses, s.index, s.rpc.responseSize)
	if s.cursor == nil {
		s.cursor = whole
	}
	if &s.cursor[0] != &data[0] {
		copy(s.cursor, data)
		w.counts.countCopy(len(data))
	}
	s.cursor = s.cursor[len(data):]
	return whole
}

// responseTarget returns the memory in which the port receives the next packets: the rest of the
// long response that is awaited. It is nil before the first packet, and if several calls are
// awaited, because their packets come interleaved.
func (w *worker) responseTarget() []byte {
	s := w.awaiting
	if s == nil || s.next != nil {
		return nil
	}
	return s.cursor
}

// complete makes the event of an answered call and gives its slot to the next call.
func (w *worker) complete(p *session, s *clientSlot, data []byte, e *transport.Event) {
	size := s.rpc.responseSize
	*e = transport.Event{Kind: transport.EventResponse, Peer: p.id, Token: p.calls[s.call].token,
		Payload: data[:size:size], Size: size}
	p.freeCalls = append(p.freeCalls, s.call)
	s.call = -1
	w.stopAwaiting(s)
	if p.backlog.Empty() {
		p.freeSlots = append(p.freeSlots, int32(s.index))
		return
	}
	next := *p.backlog.Head()
	p.backlog.Pop()
	w.startCall(p, s, next)
}
