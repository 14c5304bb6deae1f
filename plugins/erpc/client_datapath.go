package erpc

import "transportbench/core/transport"

// call takes a call: into a slot, or into the backlog where none is free.
func (w *worker) call(p *session, op *transport.Op, now int64) bool {
	last := len(p.spare) - 1
	if last < 0 {
		return false
	}
	c := p.spare[last]
	p.spare = p.spare[:last]
	p.calls[c] = call{token: op.Token, size: len(op.Payload)}
	copy(p.buffer(p.requests, int(c), len(op.Payload)), op.Payload)
	last = len(p.free) - 1
	if last < 0 {
		p.backlog.push(c)
		w.counts.backlogged++
		return true
	}
	s := &p.slots[p.free[last]]
	p.free = p.free[:last]
	w.begin(p, s, c)
	if p.state == up {
		w.pump(p, now)
	}
	return true
}

// begin gives a slot its next call.
func (w *worker) begin(p *session, s *slot, c int32) {
	s.call = c
	s.request += uint32(len(p.slots))
	size := p.calls[c].size
	s.exchange = exchange{requestSize: size, requestPackets: packetsOf(size, w.unit)}
	s.sent, s.received, s.before, s.timeouts = 0, 0, 0, 0
	w.counts.calls++
	p.wants(s)
}

// wants puts a slot into the line of those that have something to send.
func (p *session) wants(s *slot) {
	if !s.wants {
		s.wants = true
		p.want.push(int32(s.index))
	}
}

// pump sends what the session's slots want to send, a packet of each in turn, while
// there is credit.
func (w *worker) pump(p *session, now int64) {
	for p.credits > 0 && !p.want.empty() {
		s := &p.slots[p.want.pop()]
		s.wants = false
		if s.call < 0 || s.sent >= s.exchange.limit() {
			continue // it was answered meanwhile
		}
		number := s.sent
		p.credits--
		s.sent++
		if s.sent < s.exchange.limit() {
			p.wants(s)
		}
		w.activate(s)
		w.pace(s, number, now)
	}
	if !p.want.empty() {
		w.counts.noCredit++
	}
}

// pace sends a packet when the session's rate allows it. A pull counts as what it asks
// for, since that is what may be too much for the network.
func (w *worker) pace(s *slot, number int, now int64) {
	p := s.session
	// Behind one that waits, a packet would arrive out of order.
	if s.held == 0 && (!w.settings.timely || p.timely.rate == w.settings.congestion.link && p.sendAt <= now) {
		w.counts.bypassed++
		w.transmit(s, number, now)
		return
	}
	x := &s.exchange
	from, to := piece(number, x.requestSize, w.unit)
	if number >= x.requestPackets {
		from, to = piece(number-x.requestPackets+1, x.responseSize, w.unit)
	}
	at := max(p.sendAt, now)
	p.sendAt = at + int64(float64(to-from+headerSize)*1e9/p.timely.rate)
	if (at > now || s.held > 0) && w.hold(p, kindRequest, s.request, number, now, at) {
		s.held++
		w.counts.paced++
		return
	}
	w.transmit(s, number, now)
}

// transmit sends a packet of a client.
func (w *worker) transmit(s *slot, number int, now int64) {
	p, x := s.session, &s.exchange
	k, size := kindRequest, x.requestSize
	var body []byte
	if number < x.requestPackets {
		from, to := piece(number, size, w.unit)
		body = p.buffer(p.requests, int(s.call), size)[from:to]
	} else {
		k, size = kindPull, 0
		w.counts.pulls++
	}
	s.stamps[number%len(s.stamps)] = now
	s.progress = now // what waited until now in the wheel is not late
	if w.send(p, k, s.request, uint32(number), size, body, now) {
		if number < s.before {
			w.counts.retransmitted++
		}
		return
	}
	if w.hold(p, kindRequest, s.request, number, now, now+w.settings.place) {
		s.held++
	}
}

// takeAnswer takes a credit return or a response, and says whether the call is done.
func (w *worker) takeAnswer(p *session, h *header, data []byte, e *transport.Event, now int64) bool {
	s := &p.slots[int(h.request)&(len(p.slots)-1)]
	if s.call < 0 || s.request != h.request {
		w.counts.duplicates++
		return false
	}
	x := &s.exchange
	switch x.answer(h, len(data), s.received, s.sent, w.unit, w.settings.payload) {
	case past:
		w.counts.duplicates++
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
	s.progress, s.timeouts = now, 0
	p.credits++
	if w.settings.timely && number >= s.before {
		w.measure(p, now, now-s.stamps[number%len(s.stamps)])
	}
	if h.kind == kindResponse && x.responsePackets > 1 {
		i := number - (x.requestPackets - 1)
		from, _ := piece(i, x.responseSize, w.unit)
		copy(p.buffer(p.answers, s.index, x.responseSize)[from:], data)
	}
	if s.received == x.limit() && x.responsePackets > 0 {
		w.finish(p, s, data, e)
		w.pump(p, now)
		return true
	}
	if s.sent < x.limit() {
		p.wants(s)
	}
	if s.sent == s.received {
		w.deactivate(s)
	}
	w.pump(p, now)
	return false
}

// finish makes the event of a call that is done, and gives its slot to the next.
func (w *worker) finish(p *session, s *slot, data []byte, e *transport.Event) {
	size := s.exchange.responseSize
	if s.exchange.responsePackets > 1 {
		data = p.buffer(p.answers, s.index, size)
	}
	*e = transport.Event{Kind: transport.EventResponse, Peer: p.id, Token: p.calls[s.call].token, Payload: data[:size:size], Size: size}
	p.spare = append(p.spare, s.call)
	s.call = -1
	w.deactivate(s)
	if p.backlog.empty() {
		p.free = append(p.free, int32(s.index))
		return
	}
	w.begin(p, s, p.backlog.pop())
}

// measure tells the congestion control of a round trip.
func (w *worker) measure(p *session, now, rtt int64) {
	c := &w.settings.congestion
	if p.timely.uncongested(c, float64(rtt)) {
		w.counts.rateBypassed++
		return
	}
	if p.timely.sample(c, now, float64(rtt)) {
		w.counts.rateFell++
	}
	w.counts.rateSamples++
	w.counts.rateSum += uint64(p.timely.rate)
	if p.timely.rate == c.least {
		w.counts.rateLeast++
	}
}

// checkTimeout has a slot without progress send again from where it is known to have
// arrived. While packets of it are in the wheel they are late by themselves.
func (w *worker) checkTimeout(s *slot, now int64) {
	if s.held > 0 || now-s.progress < w.timeout(s) {
		return
	}
	p := s.session
	w.counts.timeouts++
	s.timeouts++
	if w.settings.timely {
		// A packet that did not come back is a sign of congestion as a long one is.
		w.measure(p, now, max(w.settings.rto, int64(w.settings.congestion.high)))
	}
	p.credits += s.sent - s.received
	s.before = max(s.before, s.sent)
	s.sent = s.received
	s.progress = now
	p.wants(s)
	w.deactivate(s)
	w.pump(p, now)
}

// timeout is how long a slot may be without progress.
func (w *worker) timeout(s *slot) int64 {
	return w.settings.rto << min(s.timeouts, w.settings.backoff)
}

// forgive takes the time in which this thread did not look for answers off what the
// slots have waited. A part of an RTO always counts, so that a loop which is slow all the
// time comes to its timeouts after some turns. What was sent since then has waited for
// less, and owes nothing to the time before it. A handshake waits for as much longer.
func (w *worker) forgive(away, now int64) {
	for s := w.first; s != nil; s = s.next {
		s.progress = min(s.progress+away, now)
	}
	if w.missing == 0 {
		return
	}
	for _, p := range w.sessions {
		if p != nil && p.state == connecting {
			p.patience += away
		}
	}
}

// activate puts a slot into the list of those that wait for answers.
func (w *worker) activate(s *slot) {
	if s.active {
		return
	}
	s.active = true
	s.prev, s.next = nil, w.first
	if w.first != nil {
		w.first.prev = s
	}
	w.first = s
}

// deactivate takes it out again.
func (w *worker) deactivate(s *slot) {
	if !s.active {
		return
	}
	s.active = false
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		w.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}
