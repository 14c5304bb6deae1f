package datagram

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Send implements [Port].
func (p *UDP) Send(to Remote, head, body []byte) bool {
	r := p.remotes[to]
	size := len(head) + len(body)
	if size > p.mtu || r == nil {
		panic(errMisuse)
	}
	s := &p.send
	if s.datagrams == s.batch || p.closed {
		return false
	}
	if size >= directFrom {
		return p.sendDirect(r, head, body)
	}
	if s.used+size >= len(s.arena) {
		return false
	}
	start := s.used
	copy(s.arena[start:], head)
	copy(s.arena[start+len(head):], body)
	s.used += size
	s.datagrams++
	if s.segments && s.count > s.first && s.runs[s.count-1].append(r, size) {
		return true
	}
	s.runs[s.count] = udpRun{to: r, start: start, size: size, segment: size, datagrams: 1}
	s.count++
	return true
}

// sendDirect sends a long datagram from where it lies: its copying would cost more
// than a call of the kernel.
func (p *UDP) sendDirect(r *udpRemote, head, body []byte) bool {
	s := &p.send
	if s.count > 0 {
		if p.Flush() != nil || s.count > 0 {
			return false
		}
	}
	d := &s.direct
	d.name(r, p.only)
	n := 0
	for _, part := range [...][]byte{head, body} {
		if len(part) > 0 {
			s.parts[n].Base = &part[0]
			s.parts[n].SetLen(len(part))
			n++
		}
	}
	d.header.SetIovlen(n)
	errno := sendMessage(p.fd, d)
	if errno == unix.ECONNREFUSED { // of an earlier datagram
		p.counts.refused++
		errno = sendMessage(p.fd, d)
	}
	s.parts = [2]unix.Iovec{}
	p.countSend(errno)
	switch errno {
	case 0:
		p.counts.sent++
		p.counts.sentBytes += uint64(len(head) + len(body))
	case unix.EAGAIN:
		p.counts.full++
		return false
	default:
		p.counts.sendErrors++
	}
	return true
}

// name says where a message goes, unless the socket is connected to that remote.
func (m *messageHeader) name(to, only *udpRemote) {
	m.header.Name, m.header.Namelen = nil, 0
	if to != only {
		m.header.Name, m.header.Namelen = &to.name[0], to.length
	}
}

// append makes a datagram part of a run where it may be: all datagrams of a run
// have one length, but for the last, which may be shorter.
func (r *udpRun) append(to *udpRemote, size int) bool {
	if r.to != to || size > r.segment || size == 0 || r.size != r.segment*r.datagrams ||
		r.datagrams == maxSegments || r.size+size > UDPMaxMTU {
		return false
	}
	r.size += size
	r.datagrams++
	return true
}

// Flush implements [Port].
func (p *UDP) Flush() error {
	if p.closed {
		return ErrClosed
	}
	s := &p.send
	for s.first < s.count {
		run := &s.runs[s.first]
		var errno unix.Errno
		switch {
		case run.datagrams > 1 && !s.segments:
			errno = p.sendPieces(run)
		case s.first+1 == s.count && run.datagrams == 1:
			if errno = p.sendOne(run, run.size); errno == 0 {
				p.sent(1)
			}
		default:
			var n int
			if n, errno = sendMessages(p.fd, p.prepare()); errno == 0 {
				p.sent(n)
			}
			p.countSend(errno)
		}
		if errno != 0 && !p.overcome(errno) {
			if !s.kept { // and not found to be so again by a Receive
				s.kept = true
				p.counts.full++
			}
			return nil
		}
	}
	s.first, s.count, s.used, s.datagrams, s.kept = 0, 0, 0, 0, false
	return nil
}

// sendOne sends the first datagram of a run.
func (p *UDP) sendOne(run *udpRun, size int) unix.Errno {
	data := p.send.arena[run.start : run.start+size]
	var errno unix.Errno
	if run.to == p.only {
		errno = sendTo(p.fd, data, nil, 0)
	} else {
		errno = sendTo(p.fd, data, &run.to.name, run.to.length)
	}
	p.countSend(errno)
	return errno
}

// countSend counts a call, unless the socket had no room: how often that is found depends
// on how often the port is polled.
func (p *UDP) countSend(errno unix.Errno) {
	if errno != unix.EAGAIN {
		p.counts.sendCalls++
	}
}

// prepare fills in the headers of the runs that are to go in one call: up to the
// first that has to go in pieces.
func (p *UDP) prepare() []messageHeader {
	s := &p.send
	end := s.first
	for ; end < s.count; end++ {
		run := &s.runs[end]
		if run.datagrams > 1 && !s.segments {
			break
		}
		h := &s.headers[end].header
		s.headers[end].name(run.to, p.only)
		s.vectors[end].Base = &s.arena[run.start]
		s.vectors[end].SetLen(run.size)
		h.Control = nil
		h.SetControllen(0)
		if run.datagrams > 1 {
			binary.NativeEndian.PutUint16(s.controls[end][unix.SizeofCmsghdr:], uint16(run.segment))
			h.Control = &s.controls[end][0]
			h.SetControllen(len(s.controls[end]))
		}
	}
	return s.headers[s.first:end]
}

// sent counts runs that are on their way.
func (p *UDP) sent(runs int) {
	for range runs {
		run := &p.send.runs[p.send.first]
		p.counts.sent += uint64(run.datagrams)
		p.counts.sentBytes += uint64(run.size)
		if run.datagrams > 1 {
			p.counts.segmented++
		}
		p.send.first++
	}
}

// overcome says whether to go on after an error of the first run.
func (p *UDP) overcome(errno unix.Errno) bool {
	run := &p.send.runs[p.send.first]
	switch {
	case errno == unix.EAGAIN:
		return false
	case run.datagrams > 1 && p.send.segments && (errno == unix.EINVAL || errno == unix.EIO || errno == unix.EOPNOTSUPP):
		// The interface cannot do it, or a segment does not fit its MTU.
		p.counts.unsegmented++
		p.send.segments = false
		return true
	case errno == unix.ECONNREFUSED && !run.refused:
		// An earlier datagram was refused, and not this one.
		p.counts.refused++
		run.refused = true
		return true
	}
	p.counts.sendErrors += uint64(run.datagrams)
	p.send.first++
	return true
}

// sendPieces sends the datagrams of a run one by one; what remains of it was not
// sent.
func (p *UDP) sendPieces(run *udpRun) unix.Errno {
	for run.datagrams > 0 {
		size := min(run.segment, run.size)
		switch errno := p.sendOne(run, size); errno {
		case 0:
			p.counts.sent++
			p.counts.sentBytes += uint64(size)
		case unix.EAGAIN:
			return errno
		default:
			p.counts.sendErrors++
		}
		run.start += size
		run.size -= size
		run.datagrams--
	}
	p.send.first++
	return 0
}

// Receive implements [Port].
func (p *UDP) Receive(packets []Packet) (n int, err error) {
	if p.closed {
		return 0, ErrClosed
	}
	if p.send.kept {
		_ = p.Flush() // its only error is that of a closed port
	}
	r := &p.receive
	if r.next == r.filled && len(packets) > 0 {
		p.fetch(len(packets))
	}
	for n < len(packets) && r.next < r.filled {
		if p.take(&packets[n]) {
			n++
		}
	}
	return n, nil
}

// fetch asks the kernel for what has arrived, for at most as many messages as the
// caller takes. The first of a burst comes by itself: who answers it at once should
// not wait for the kernel to find that there is no second.
func (p *UDP) fetch(most int) {
	r := &p.receive
	for i := range r.filled {
		h := &r.headers[i].header
		h.Namelen = uint32(len(r.names[i]))
		h.SetControllen(len(r.controls[i]))
	}
	r.next, r.filled, r.offset = 0, 0, 0
	n, errno := p.ask(min(most, r.streak, len(r.headers)))
	switch errno {
	case 0:
		p.counts.receiveCalls++
		r.filled = n
		p.look()
		r.streak = r.nextStreak()
		if r.streak >= coalesceFrom && r.mayCoalesce && !r.coalesces {
			p.coalesce()
		}
		return
	case unix.EAGAIN:
		p.settled = p.only != nil
	case unix.ECONNREFUSED:
		p.counts.refused++
	default:
		p.counts.receiveErrors++
	}
	r.streak = 1
}

// nextStreak is how many messages to ask for next, after some have come: twice as
// many, unless they are so long that their buffers would not stay in the cache.
func (r *udpReceive) nextStreak() int {
	total := 0
	for i := range r.filled {
		total += int(r.headers[i].length)
	}
	if total > receiveMost {
		return max(r.streak/2, 2)
	}
	return min(2*r.streak, len(r.headers))
}

// coalesceFrom is how many messages are asked for at once, having come one behind
// the other, before the kernel is to hand out several as one: what it says along
// with them takes time, which one that comes alone is spared.
const coalesceFrom = 16

func (p *UDP) coalesce() {
	r := &p.receive
	r.coalesces = coalesce(p.fd) == 0
	r.mayCoalesce = r.coalesces
}

// ask makes the cheapest call that will do for at most that many messages.
func (p *UDP) ask(most int) (n int, errno unix.Errno) {
	r := &p.receive
	r.bare = false
	switch {
	case most > 1:
		return receiveMessages(p.fd, r.headers[:most])
	case r.coalesces:
		return 1, receiveMessage(p.fd, &r.headers[0])
	}
	name := &r.names[0]
	if r.bare = p.settled; r.bare {
		name = nil
	}
	length, errno := receiveFrom(p.fd, r.buffer(0), name)
	if errno != 0 {
		return 0, errno
	}
	h := &r.headers[0]
	h.length = uint32(min(length, r.room))
	h.header.Flags = 0
	if length > r.room {
		h.header.Flags = unix.MSG_TRUNC
	}
	h.header.SetControllen(0) // fetch makes room again
	return 1, 0
}

// look reads what the kernel says about the next message: the length of the
// datagrams that it is made of.
func (p *UDP) look() {
	r := &p.receive
	r.segment = int(r.headers[r.next].length)
	control := r.controls[r.next][:]
	for left := int(r.headers[r.next].header.Controllen); left >= unix.SizeofCmsghdr+4; {
		length := int(binary.NativeEndian.Uint64(control))
		level, kind := binary.NativeEndian.Uint32(control[8:]), binary.NativeEndian.Uint32(control[12:])
		value := binary.NativeEndian.Uint32(control[unix.SizeofCmsghdr:])
		if level == unix.IPPROTO_UDP && kind == unix.UDP_GRO {
			r.segment = max(int(value), 1)
			p.counts.coalesced++
		}
		length = (length + 7) &^ 7
		left -= length
		if length < unix.SizeofCmsghdr || left <= 0 {
			break
		}
		control = control[length:]
	}
}

// take hands out the next datagram of what was fetched, if it is sound.
func (p *UDP) take(packet *Packet) bool {
	r := &p.receive
	length := int(r.headers[r.next].length)
	size := min(r.segment, length-r.offset)
	ok := size <= p.mtu && r.headers[r.next].header.Flags&unix.MSG_TRUNC == 0
	if ok {
		end := r.offset + size
		packet.Data = r.buffer(r.next)[r.offset:end:end]
		if r.bare {
			packet.Source = p.only.source
		} else {
			packet.Source = r.names[r.next].source()
		}
		p.counts.received++
		p.counts.receivedBytes += uint64(size)
	} else {
		p.counts.truncated++
	}
	if r.offset += size; r.offset >= length {
		r.offset = 0
		if r.next++; r.next < r.filled {
			p.look()
		}
	}
	return ok
}
