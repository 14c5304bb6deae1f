package erpc

import (
	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if len(ops) == 0 {
		return 0, nil
	}
	now := w.clock()
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil {
			return i, w.peers.Refusal(name, op)
		}
		switch op.Kind {
		case transport.OpCall:
			if !w.postCall(p, op, now) {
				w.counts.callsFull++
				return i, nil
			}
		case transport.OpReply:
			if !w.postReply(p, op, now) {
				return i, p.errors.NoCall
			}
		default:
			return i, p.errors.Unsupported
		}
	}
	return len(ops), nil
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.peers.Closed() {
		return name.Error("flush", transport.ErrClosed)
	}
	return w.flush("flush")
}

// flush sends the port's batch.
func (w *worker) flush(op string) error {
	if w.unflushed == 0 {
		return nil
	}
	w.padTo = 0
	if w.unflushed > 1 {
		w.padTo = w.longest
	}
	w.unflushed, w.longest = 0, 0
	if err := w.port.Flush(); err != nil {
		return name.Error(op, err)
	}
	return nil
}

// Poll implements [transport.Worker]. The packets of one Receive may last for several polls. The
// port is not asked for more until all of them are used, so that payloads stay valid until the next
// Poll.
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.peers.Closed() {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	now := w.clock()
	w.extendTimeouts(now)
	w.lastPoll = now
	if len(w.reported) > 0 {
		w.reclaim()
	}
	if w.nextPacket == w.packetCount {
		w.nextPacket = 0
		target := datagram.Target{Memory: w.responseTarget(), Head: headerSize}
		if w.packetCount, err = w.port.Receive(w.packets, target); err != nil {
			err = name.Error("poll", err)
		}
	}
	for w.nextPacket < w.packetCount && n < len(events) {
		packet := &w.packets[w.nextPacket]
		w.nextPacket++
		if w.receive(packet, &events[n], now) {
			n++
		}
	}
	if w.wheel.count > 0 {
		w.sendDue(now)
	}
	if now >= w.scanAt {
		w.scan(now)
	}
	if err := w.flush("poll"); err != nil {
		return n, err
	}
	if w.lostPeers.Len() > 0 {
		reported := w.lostPeers.Report(events[n:])
		for _, e := range events[n : n+reported] {
			w.reported = append(w.reported, w.peers.ByID[e.Peer])
		}
		n += reported
	}
	if last := len(w.corrupt) - 1; last >= 0 {
		p := w.corrupt[last]
		w.corrupt = w.corrupt[:last]
		return n, p.errors.Corrupt
	}
	return n, err
}

// receive handles a packet and reports whether it made an event. A packet has an effect only if it
// belongs to a session of this worker, comes from the session's peer and has a valid checksum.
func (w *worker) receive(packet *datagram.Packet, e *transport.Event, now int64) bool {
	if len(packet.Data) < headerSize {
		w.counts.malformed++
		return false
	}
	h := parse(packet.Data)
	if packet.Body != nil && h.kind != kindResponse { // the next packet may overwrite Body
		packet.Join()
	}
	if h.session == noSession {
		w.receiveHandshake(&h, packet, now)
		return false
	}
	number := h.session - w.firstNumber
	if int(number) >= len(w.sessions) || w.sessions[number] == nil {
		w.counts.strangers++
		return false
	}
	p := w.sessions[number]
	data := packet.Body
	if data == nil {
		data = packet.Data[headerSize:]
	}
	data = data[:min(len(data), int(h.size))] // the rest is padding
	covered := data
	if !w.settings.checkAll {
		covered = nil
	}
	w.counts.checksummed += headerSize + uint64(len(covered))
	switch {
	case p.source != packet.Source:
		w.counts.forged++
		return false
	case !validChecksum(p.localKey, packet.Data[:headerSize], covered):
		w.counts.corrupt++
		return false
	case p.state != established: // its hello is still in flight, or the peer is lost
		w.counts.early++
		return false
	}
	switch h.kind {
	case kindRequest:
		return w.receiveRequest(p, &h, data, e, now)
	case kindRFR:
		w.receiveRFR(p, &h, data, now)
	case kindCredit:
		w.receiveCredit(p, &h, data, now)
	case kindResponse:
		return w.receiveResponse(p, &h, data, e, now)
	default:
		w.counts.malformed++
	}
	return false
}

// countRejected counts a packet that a check rejected: in repeats if it is a duplicate.
func (w *worker) countRejected(v verdict, repeats *uint64) {
	switch v {
	case duplicate:
		*repeats++
	case outOfOrder:
		w.counts.outOfOrder++
	case malformed:
		w.counts.malformed++
	}
}

// send adds a packet of an established session to the port's batch. It returns false if the device
// has no room.
func (w *worker) send(p *session, k kind, request, number uint32, size int, body []byte) bool {
	h := header{request: request, session: p.remoteNumber, kind: k, number: number,
		size: uint32(size)}
	covered := body
	if !w.settings.checkAll {
		covered = nil
	}
	if w.settings.pads && len(body) == size && size <= maxPadded {
		body = w.pad(body)
	}
	if !w.sendPacket(p.remote, p.remoteKey, &h, covered, body) {
		w.counts.refused++
		return false
	}
	return true
}

// maxPadded is the length in bytes up to which messages are padded. One more datagram for the
// kernel costs more than to copy that.
const maxPadded = 128

// pad lengthens a short message to the longest one of the last batch, with the bytes behind it in
// its buffer. The kernel takes datagrams of one length as one (UDP_SEGMENT): padded, those of reads
// and writes leave and arrive together. The receiver knows the length from the header. The
// bytes behind the message are leftovers of others; the checksum does not cover them.
func (w *worker) pad(body []byte) []byte {
	w.longest = max(w.longest, len(body))
	return body[:max(len(body), min(w.padTo, cap(body)))]
}

// sendPacket adds a packet to the port's batch, and flushes the batch if it is full. The checksum
// covers the header and covered.
func (w *worker) sendPacket(to datagram.Remote, key uint32, h *header, covered, body []byte) bool {
	h.put(&w.head)
	putChecksum(key, &w.head, covered)
	w.counts.checksummed += headerSize + uint64(len(covered))
	w.unflushed++
	if w.port.Send(to, w.head[:], body) {
		return true
	}
	_ = w.port.Flush() // the next Flush returns the same error
	return w.port.Send(to, w.head[:], body)
}

// scansPerTimeout is how often scan runs in one RTO.
const scansPerTimeout = 10

// scan handles what depends on time: slots without progress, handshakes without an answer, and
// peers that the heartbeat declared dead.
func (w *worker) scan(now int64) {
	w.scanAt = now + w.settings.rto/scansPerTimeout
	for s := w.awaiting; s != nil; {
		next := s.next
		w.checkTimeout(s, now)
		s = next
	}
	if w.connecting > 0 {
		for _, p := range w.sessions {
			switch {
			case p == nil || p.state != connecting:
			case now >= p.connectDeadline:
				w.abandon(p)
			case now >= p.helloAt:
				w.hello(p, now)
			}
		}
	}
	if w.heartbeat == nil {
		return
	}
	// Pairs with the stores in heartbeat.beat: dead is set before deaths changes.
	if deaths := w.heartbeat.deaths.Load(); deaths != w.deaths {
		w.deaths = deaths
		for _, p := range w.sessions {
			if p != nil && p.watch != nil && p.watch.dead.Load() {
				w.lose(p, p.watch.reason)
			}
		}
	}
}
