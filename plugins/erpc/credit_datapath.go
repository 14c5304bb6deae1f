package erpc

// Every packet of a client costs a credit, and the server's answer to it returns the credit. So
// this file has both sides' common part: pump and transmit for all packets of a client, answer for
// all packets of a server, acceptAnswer for the answers at the client.

// enqueue puts a slot into the queue of those that have packets to send.
func (p *session) enqueue(s *clientSlot) {
	if !s.queued {
		s.queued = true
		*p.sendQueue.Push() = s
	}
}

// pump sends the packets of the session's slots, one of each slot in turn, while there are credits.
func (w *worker) pump(p *session, now int64) {
	for p.credits > 0 && !p.sendQueue.Empty() {
		s := *p.sendQueue.Head()
		p.sendQueue.Pop()
		s.queued = false
		if s.call < 0 || s.sent >= s.rpc.packets() {
			continue // it was answered while it was queued
		}
		number := s.sent
		p.credits--
		s.sent++
		if s.sent < s.rpc.packets() {
			p.enqueue(s)
		}
		w.startAwaiting(s)
		w.pace(s, number, now)
	}
	if !p.sendQueue.Empty() {
		w.counts.noCredit++
	}
}

// transmit sends a client's packet: a packet of the request, or an RFR for one of the response. If
// the device has no room the packet waits in the wheel for one bucket. If the wheel is full, too,
// it is lost, and the timeout sends it again.
func (w *worker) transmit(s *clientSlot, number int, now int64) {
	s.sentAt[number%len(s.sentAt)] = now
	s.lastProgress = now // a packet that waited in the wheel is not late
	var sent bool
	if number < s.rpc.requestPackets {
		sent = w.sendRequest(s, number)
	} else {
		sent = w.sendRFR(s, number)
	}
	if sent {
		if number < s.resendBelow {
			w.counts.retransmitted++
		}
	} else {
		w.schedule(s.session, s, s.request, number, now, now+w.settings.bucket)
	}
}

// answer answers the client's packet number: with a credit return, or with a packet of the
// response. While the request executes there is no response; postReply sends the answer then.
func (w *worker) answer(p *session, s *serverSlot, number int, now int64) {
	var sent bool
	switch {
	case number < s.rpc.requestPackets-1:
		sent = w.send(p, kindCredit, s.request, uint32(number), 0, nil)
	case s.state == requestReplied:
		sent = w.sendResponse(p, s, number)
	default:
		return
	}
	if !sent {
		// If the wheel is full the answer is lost, and the client asks for it again at its timeout.
		w.schedule(p, nil, s.request, number, now, now+w.settings.bucket)
	}
}

// awaitedBy returns the slot whose call a packet answers, or nil.
func (p *session) awaitedBy(h *header) *clientSlot {
	s := &p.slots[p.slotOf(h.request)]
	if s.call < 0 || s.request != h.request {
		return nil
	}
	return s
}

// acceptAnswer takes back the credit of the next answer and measures its round trip, unless the
// packet was sent more than once.
func (w *worker) acceptAnswer(s *clientSlot, now int64) {
	number := s.received
	s.received++
	s.lastProgress, s.timeouts = now, 0
	s.session.credits++
	if w.settings.timely && number >= s.resendBelow {
		w.measure(s.session, now, now-s.sentAt[number%len(s.sentAt)])
	}
}

// proceed enqueues a slot whose call is not complete if it has more to send.
func (w *worker) proceed(s *clientSlot) {
	if s.sent < s.rpc.packets() {
		s.session.enqueue(s)
	}
	if s.sent == s.received {
		w.stopAwaiting(s)
	}
}

// receiveCredit handles a credit return.
func (w *worker) receiveCredit(p *session, h *header, data []byte, now int64) {
	s := p.awaitedBy(h)
	if s == nil {
		w.counts.duplicates++
		return
	}
	if v := s.rpc.checkCredit(h, len(data), s.received, s.sent); v != inOrder {
		w.countRejected(v, &w.counts.duplicates)
		return
	}
	w.acceptAnswer(s, now)
	w.proceed(s)
	w.pump(p, now)
}
