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
			p.counts.sendCalls++
			if errno = sendTo(p.fd, s.arena[run.start:run.start+run.size], &run.to.name, run.to.length); errno == 0 {
				p.sent(1)
			}
		default:
			var n int
			p.counts.sendCalls++
			if n, errno = sendMessages(p.fd, s.prepare()); errno == 0 {
				p.sent(n)
			}
		}
		if errno != 0 && !p.overcome(errno) {
			return nil
		}
	}
	s.first, s.count, s.used, s.datagrams = 0, 0, 0, 0
	return nil
}

// prepare fills in the headers of the runs that are to go in one call: up to the
// first that has to go in pieces.
func (s *udpSend) prepare() []messageHeader {
	end := s.first
	for ; end < s.count; end++ {
		run := &s.runs[end]
		if run.datagrams > 1 && !s.segments {
			break
		}
		h := &s.headers[end].header
		h.Name, h.Namelen = &run.to.name[0], run.to.length
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

// overcome says whether to go on after an error of the first run. An error that
// an earlier datagram left at the socket, as that of a port nobody listens on, is
// no other than the loss of this one.
func (p *UDP) overcome(errno unix.Errno) bool {
	run := &p.send.runs[p.send.first]
	switch {
	case errno == unix.EAGAIN:
		p.counts.full++
		return false
	case run.datagrams > 1 && p.send.segments && (errno == unix.EINVAL || errno == unix.EIO || errno == unix.EOPNOTSUPP):
		// The interface cannot do it, or a segment does not fit its MTU.
		p.counts.unsegmented++
		p.send.segments = false
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
		p.counts.sendCalls++
		switch errno := sendTo(p.fd, p.send.arena[run.start:run.start+size], &run.to.name, run.to.length); errno {
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
	var errno unix.Errno
	n := 1
	if limit := min(most, r.streak, len(r.headers)); limit > 1 {
		n, errno = receiveMessages(p.fd, r.headers[:limit])
	} else {
		errno = receiveMessage(p.fd, &r.headers[0])
	}
	if errno != 0 {
		r.streak = 1
		if errno != unix.EAGAIN {
			p.counts.receiveErrors++
		}
		return
	}
	p.counts.receiveCalls++
	r.streak = min(2*r.streak, len(r.headers))
	r.filled = n
	p.look()
}

// look reads what the kernel says about the next message: the length of the
// datagrams that it is made of, and how many were thrown away before it.
func (p *UDP) look() {
	r := &p.receive
	r.segment = int(r.headers[r.next].length)
	control := r.controls[r.next][:]
	for left := int(r.headers[r.next].header.Controllen); left >= unix.SizeofCmsghdr+4; {
		length := int(binary.NativeEndian.Uint64(control))
		level, kind := binary.NativeEndian.Uint32(control[8:]), binary.NativeEndian.Uint32(control[12:])
		value := binary.NativeEndian.Uint32(control[unix.SizeofCmsghdr:])
		switch {
		case level == unix.IPPROTO_UDP && kind == unix.UDP_GRO:
			r.segment = max(int(value), 1)
			p.counts.coalesced++
		case level == unix.SOL_SOCKET && kind == unix.SO_RXQ_OVFL:
			p.dropped(value)
		}
		length = (length + 7) &^ 7
		left -= length
		if length < unix.SizeofCmsghdr || left <= 0 {
			break
		}
		control = control[length:]
	}
}

// dropped takes note of the kernel's counter, which has 32 bits.
func (p *UDP) dropped(counter uint32) {
	p.counts.drops += uint64(counter - uint32(p.counts.drops))
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
		packet.Source = r.names[r.next].source()
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
