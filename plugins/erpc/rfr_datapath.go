package erpc

// sendRFR asks for the response packet with this number.
func (w *worker) sendRFR(s *clientSlot, number int) bool {
	w.counts.rfrs++
	return w.send(s.session, kindRFR, s.request, uint32(number), 0, nil)
}

// receiveRFR handles a request for a response packet.
func (w *worker) receiveRFR(p *session, h *header, data []byte, now int64) {
	s := &p.serverSlots[p.slotOf(h.request)]
	if s.request != h.request || s.state != requestReplied {
		w.counts.stale++
		return
	}
	v := s.rpc.checkRFR(h, len(data), s.received)
	if v == inOrder {
		s.received++
	} else {
		w.countRejected(v, &w.counts.repeated)
	}
	if v == inOrder || v == duplicate {
		w.answer(p, s, int(h.number), now)
	}
}
