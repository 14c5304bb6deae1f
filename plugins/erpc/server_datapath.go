package erpc

import (
	"transportbench/core/transport"
)

// takeRequest takes a packet of a request, and says whether it is whole.
func (w *worker) takeRequest(p *session, h *header, data []byte, e *transport.Event, now int64) bool {
	s := &p.served[int(h.request)&(len(p.served)-1)]
	x := &s.exchange
	switch {
	case s.request == h.request && s.stage != stageIdle:
	case h.request == s.request+uint32(len(p.served)) && (s.stage == stageReplied || s.stage == stageIdle):
		// The client has the whole last response, or it would not use the slot again.
		if !x.begin(h, len(data), w.unit, w.settings.payload) {
			w.refuseRequest(h)
			return false
		}
		s.request, s.stage, s.received = h.request, stageArriving, 0
	default:
		w.counts.stale++
		return false
	}
	switch x.requested(h, len(data), s.received, w.unit) {
	case past:
		w.counts.repeated++
		w.answer(p, s, int(h.number), now)
		return false
	case future:
		w.counts.outOfOrder++
		return false
	case bad:
		w.counts.malformed++
		return false
	}
	number := s.received
	s.received++
	if x.requestPackets > 1 {
		from, _ := piece(number, x.requestSize, w.unit)
		copy(p.buffer(p.arriving, int(h.request)&(len(p.served)-1), x.requestSize)[from:], data)
	}
	if s.received < x.requestPackets {
		w.answer(p, s, number, now)
		return false
	}
	s.stage = stageServing
	if x.requestPackets > 1 {
		data = p.buffer(p.arriving, int(h.request)&(len(p.served)-1), x.requestSize)
	}
	*e = transport.Event{Kind: transport.EventRequest, Peer: p.id, Token: transport.Token(h.request),
		Payload: data[:x.requestSize:x.requestSize], Size: x.requestSize}
	w.counts.requests++
	return true
}

// refuseRequest counts a packet that begins no exchange: one whose first packet is
// still missing, or nonsense.
func (w *worker) refuseRequest(h *header) {
	if h.number != 0 {
		w.counts.outOfOrder++
	} else {
		w.counts.malformed++
	}
}

// takePull takes a request for more of a response.
func (w *worker) takePull(p *session, h *header, data []byte, now int64) {
	s := &p.served[int(h.request)&(len(p.served)-1)]
	if s.request != h.request || s.stage != stageReplied {
		w.counts.stale++
		return
	}
	switch s.exchange.pulled(h, len(data), s.received) {
	case inOrder:
		s.received++
	case past:
		w.counts.repeated++
	case future:
		w.counts.outOfOrder++
		return
	case bad:
		w.counts.malformed++
		return
	}
	w.answer(p, s, int(h.number), now)
}

// reply takes the response to a request that was handed out, and sends its first
// packet. It says no where there is no such request.
func (w *worker) reply(p *session, op *transport.Op, now int64) bool {
	request := uint32(op.Token)
	i := int(request) & (len(p.served) - 1)
	s := &p.served[i]
	if s.stage != stageServing || transport.Token(s.request) != op.Token {
		return false
	}
	s.stage = stageReplied
	x := &s.exchange
	x.responseSize = len(op.Payload)
	x.responsePackets = packetsOf(x.responseSize, w.unit)
	copy(p.buffer(p.responses, i, x.responseSize), op.Payload)
	w.answer(p, s, x.requestPackets-1, now)
	return true
}

// answer sends what answers a packet: a credit return, or a piece of the response,
// which may have to wait until there is one.
func (w *worker) answer(p *session, s *serverSlot, number int, now int64) {
	x := &s.exchange
	k, size := kindCredit, 0
	var body []byte
	if i := number - (x.requestPackets - 1); i >= 0 {
		if s.stage != stageReplied {
			return
		}
		k, size = kindResponse, x.responseSize
		from, to := piece(i, size, w.unit)
		body = p.buffer(p.responses, int(s.request)&(len(p.served)-1), size)[from:to]
	}
	if !w.send(p, k, s.request, uint32(number), size, body, now) {
		w.hold(p, kindResponse, s.request, number, now, now+w.settings.place)
	}
}
