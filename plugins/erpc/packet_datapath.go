package erpc

import (
	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// accept takes a packet, and says whether an event came of it. What is not of a session
// of this worker, from where that is, whole and with the session's key, has no effect.
func (w *worker) accept(packet *datagram.Packet, e *transport.Event, now int64) bool {
	if len(packet.Data) < headerSize {
		w.counts.malformed++
		return false
	}
	h := parse(packet.Data)
	if h.session == noSession {
		w.greeted(&h, packet, now)
		return false
	}
	if int(h.session) >= len(w.sessions) {
		w.counts.strangers++
		return false
	}
	p := w.sessions[h.session]
	if p == nil {
		w.counts.strangers++
		return false
	}
	covered := len(packet.Data)
	if !w.settings.checkAll {
		covered = headerSize
	}
	switch {
	case p.source != packet.Source:
		w.counts.forged++
		return false
	case !sound(p.key, packet.Data, covered):
		w.counts.corrupt++
		return false
	case p.state != up:
		// Its hello is still on the way, or it is lost.
		w.counts.early++
		return false
	}
	data := packet.Data[headerSize:]
	switch h.kind {
	case kindRequest:
		return w.takeRequest(p, &h, data, e, now)
	case kindPull:
		w.takePull(p, &h, data, now)
	case kindCredit, kindResponse:
		return w.takeAnswer(p, &h, data, e, now)
	default:
		w.counts.malformed++
	}
	return false
}

// send puts a packet into the port's batch. Where the device takes no more the packet
// waits in the wheel, for the shortest time that there is; held says that it comes from
// there.
func (w *worker) send(p *session, k kind, request, number uint32, size int, body []byte, now int64) bool {
	h := header{request: request, session: p.there, kind: k, number: number, size: uint32(size)}
	h.put(&w.head)
	covered := body
	if !w.settings.checkAll {
		covered = nil
	}
	sealPacket(p.thereKey, &w.head, covered)
	if w.port.Send(p.remote, w.head[:], body) {
		w.pending = true
		return true
	}
	// An error comes back from the next flush.
	_ = w.port.Flush()
	if w.port.Send(p.remote, w.head[:], body) {
		w.pending = true
		return true
	}
	w.pending = true
	w.counts.refused++
	return false
}

// turnWheel sends the packets that are due.
func (w *worker) turnWheel(now int64) {
	for {
		e, due := w.wheel.take(now)
		if !due {
			return
		}
		p := w.sessions[e.session]
		p.inWheel--
		if p.state != up {
			continue
		}
		switch e.kind {
		case kindRequest: // or a pull
			s := &p.slots[int(e.request)&(len(p.slots)-1)]
			s.held--
			if s.call >= 0 && s.request == e.request {
				w.transmit(s, int(e.number), now)
			}
		case kindResponse: // or a credit return
			s := &p.served[int(e.request)&(len(p.served)-1)]
			if s.request == e.request {
				w.answer(p, s, int(e.number), now)
			}
		}
	}
}

// hold puts a packet into the wheel. Without room there it counts as lost on the way.
func (w *worker) hold(p *session, k kind, request uint32, number int, now, at int64) bool {
	if !w.wheel.put(entry{session: p.number, kind: k, request: request, number: uint32(number)}, now, at) {
		return false
	}
	p.inWheel++
	return true
}

// scan looks at what happens by time: slots without progress, sessions that are not up
// yet, and peers that the heart found dead.
func (w *worker) scan(now int64) {
	w.scanAt = now + w.settings.rto/scansPerTimeout
	for s := w.first; s != nil; {
		next := s.next
		w.checkTimeout(s, now)
		s = next
	}
	if w.missing > 0 {
		for _, p := range w.sessions {
			switch {
			case p == nil || p.state != connecting:
			case now >= p.patience:
				w.giveUp(p)
			case now >= p.helloAt:
				w.hello(p, now)
			}
		}
	}
	if w.heart == nil {
		return
	}
	if deaths := w.heart.deaths.Load(); deaths != w.deaths {
		w.deaths = deaths
		for _, p := range w.sessions {
			if p != nil && p.watch != nil && p.watch.dead.Load() {
				w.lose(p)
			}
		}
	}
}

// scansPerTimeout is how often in an RTO slots are looked at.
const scansPerTimeout = 10
