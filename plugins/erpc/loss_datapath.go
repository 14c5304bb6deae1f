package erpc

// checkTimeout retransmits a slot without progress from its first unanswered packet. Packets in the
// wheel are late because of pacing, not loss.
func (w *worker) checkTimeout(s *clientSlot, now int64) {
	if s.inWheel > 0 || now-s.lastProgress < w.timeout(s) {
		return
	}
	p := s.session
	w.counts.timeouts++
	s.timeouts++
	if w.settings.timely {
		// A network with short queues drops packets before round trips get long, so a loss counts
		// as a long round trip.
		w.measure(p, now, max(w.settings.rto, int64(w.settings.congestion.high)))
	}
	p.credits += s.sent - s.received
	s.resendBelow = max(s.resendBelow, s.sent)
	s.sent = s.received
	s.lastProgress = now
	p.enqueue(s)
	w.stopAwaiting(s)
	w.pump(p, now)
}

// timeout returns how long a slot may be without progress.
func (w *worker) timeout(s *clientSlot) int64 {
	return w.settings.rto << min(s.timeouts, w.settings.backoff)
}

// extendTimeouts extends the timeouts of slots and handshakes by the time since the last poll: the
// answers may have arrived since then. A tenth of the RTO always counts, so that the timeouts of a
// slow loop expire too. lastProgress never passes now.
func (w *worker) extendTimeouts(now int64) {
	idle := now - w.lastPoll - w.settings.rto/scansPerTimeout
	if idle <= 0 {
		return
	}
	for s := w.awaiting; s != nil; s = s.next {
		s.lastProgress = min(s.lastProgress+idle, now)
	}
	if w.connecting == 0 {
		return
	}
	for _, p := range w.sessions {
		if p != nil && p.state == connecting {
			p.connectDeadline += idle
		}
	}
}

// startAwaiting puts a slot into the list of those that wait for answers.
func (w *worker) startAwaiting(s *clientSlot) {
	if s.awaiting {
		return
	}
	s.awaiting = true
	s.prev, s.next = nil, w.awaiting
	if w.awaiting != nil {
		w.awaiting.prev = s
	}
	w.awaiting = s
}

// stopAwaiting takes a slot out of that list.
func (w *worker) stopAwaiting(s *clientSlot) {
	if !s.awaiting {
		return
	}
	s.awaiting = false
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		w.awaiting = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}
