package datagram

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A round trip over the loopback is four system calls, so each path below makes the cheapest call
// that will do. Measured in ns for a round trip of 64 bytes on an AMD EPYC: connected send and recv
// 5410, connected recvmsg with control messages 5840, sendto and recvfrom 6420, sendto and recvmsg
// with control messages 6710; recvmmsg adds about 300 to recvmsg for a single datagram. With
// segmentation offload 64 datagrams of 32 bytes in flight are about 16 times as fast as with
// sendmmsg and recvmmsg alone. io_uring has nothing to overlap for a thread that spins, and is
// often forbidden; AF_XDP does not serve the loopback.

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
	if size >= directMin {
		return p.sendDirect(r, head, body)
	}
	if s.used+size >= len(s.arena) {
		return false
	}
	start := s.used
	copy(s.arena[start:], head)
	if len(body) > 0 {
		copy(s.arena[start+len(head):], body)
		p.counts.copies++
		p.counts.copiedBytes += uint64(len(body))
	}
	s.used += size
	s.datagrams++
	mayOvertake := len(body) > 0 && size < p.mtu
	run := s.runFor(r, size, mayOvertake)
	if run == nil {
		s.runs[s.count] = udpRun{to: r, segment: size, piece: s.pieceCount, last: s.pieceCount}
		run = &s.runs[s.count]
		s.count++
		s.pieces[s.pieceCount] = udpPiece{start: start}
		s.pieceCount++
	}
	s.append(run, start, size)
	if !mayOvertake {
		s.fence = s.count
	}
	return true
}

// runFor returns a run that takes a datagram, or nil if none does. A datagram that may overtake
// joins the run of its size, even if others were sent since.
func (s *udpSend) runFor(to *udpRemote, size int, mayOvertake bool) *udpRun {
	if !s.segments || s.count == s.first {
		return nil
	}
	last := &s.runs[s.count-1]
	// A shorter datagram ends the last run. One that may overtake can do better, in another run of
	// its size or in a new one, unless the last run is closed to reordering.
	if last.takes(to, size) && (last.segment == size || !mayOvertake || s.fence == s.count) {
		return last
	}
	for i := s.count - 2; mayOvertake && i >= max(s.fence, s.first, s.count-maxOpen); i-- {
		if run := &s.runs[i]; run.segment == size && run.takes(to, size) {
			return run
		}
	}
	return nil
}

// append adds a datagram to a run.
func (s *udpSend) append(run *udpRun, start, size int) {
	run.size += size
	run.datagrams++
	piece := &s.pieces[run.last]
	if piece.start+piece.size != start {
		piece.next, run.last = s.pieceCount, s.pieceCount
		piece = &s.pieces[s.pieceCount]
		*piece = udpPiece{start: start}
		s.pieceCount++
	}
	piece.size += size
}

// joinLast joins the last two runs: if the last run is one datagram that is no longer than those of
// the run before it, it becomes that run's last.
func (s *udpSend) joinLast() {
	if !s.segments || s.count-s.first < 2 {
		return
	}
	run, last := &s.runs[s.count-2], &s.runs[s.count-1]
	if last.datagrams == 1 && run.takes(last.to, last.size) {
		s.append(run, s.pieces[last.piece].start, last.size)
		s.count--
		s.fence = min(s.fence, s.count)
	}
}

// sendDirect sends a long datagram without a copy, after the batch.
func (p *UDP) sendDirect(r *udpRemote, head, body []byte) bool {
	s := &p.send
	if s.count > 0 {
		if p.Flush() != nil || s.count > 0 {
			return false
		}
	}
	m := &s.direct
	m.setName(r, p.connected)
	n := 0
	for _, part := range [...][]byte{head, body} {
		if len(part) > 0 {
			s.parts[n].Base = &part[0]
			s.parts[n].SetLen(len(part))
			n++
		}
	}
	m.header.SetIovlen(n)
	errno := sendMessage(p.fd, m)
	if errno == unix.ECONNREFUSED { // of an earlier datagram
		p.counts.refused++
		p.counts.syscalls++
		errno = sendMessage(p.fd, m)
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

// setName sets the destination of a message, which a connected socket does not need.
func (m *messageHeader) setName(to, connected *udpRemote) {
	m.header.Name, m.header.Namelen = nil, 0
	if to != connected {
		m.header.Name, m.header.Namelen = &to.name[0], to.length
	}
}

// takes reports whether a datagram fits into the run.
func (r *udpRun) takes(to *udpRemote, size int) bool {
	return r.to == to && size <= r.segment && size > 0 && r.size == r.segment*r.datagrams &&
		r.datagrams < maxSegments && r.size+size <= UDPMaxMTU
}

// Flush implements [Port].
func (p *UDP) Flush() error {
	if p.closed {
		return ErrClosed
	}
	s := &p.send
	s.joinLast()
	for s.first < s.count {
		run := &s.runs[s.first]
		var errno unix.Errno
		switch {
		case run.datagrams > 1 && !s.segments:
			errno = p.sendSegments(run)
		case s.first+1 == s.count && run.datagrams == 1:
			if errno = p.sendFirst(run, run.size); errno == 0 {
				p.countSent(1)
			}
		default:
			var n int
			if n, errno = sendMessages(p.fd, p.prepare()); errno == 0 {
				p.countSent(n)
			}
			p.countSend(errno)
		}
		if errno != 0 && !p.handleError(errno) {
			if !s.unsent { // count once, although every Receive tries again
				s.unsent = true
				p.counts.full++
			}
			return nil
		}
	}
	s.first, s.count, s.fence, s.used, s.datagrams, s.pieceCount = 0, 0, 0, 0, 0, 0
	s.unsent = false
	return nil
}

// sendFirst sends the first datagram of a run.
func (p *UDP) sendFirst(run *udpRun, size int) unix.Errno {
	data := p.send.arena[p.send.pieces[run.piece].start:][:size]
	var errno unix.Errno
	if run.to == p.connected {
		errno = sendTo(p.fd, data, nil, 0)
	} else {
		errno = sendTo(p.fd, data, &run.to.name, run.to.length)
	}
	p.countSend(errno)
	return errno
}

// countSend counts a system call. sendCalls leaves it out if the socket was full: how often that
// happens depends on how often the port is polled.
func (p *UDP) countSend(errno unix.Errno) {
	p.counts.syscalls++
	if errno != unix.EAGAIN {
		p.counts.sendCalls++
	}
}

// prepare fills in the headers of the runs that can go in one call and returns them. They end
// before a run that needs a call for each datagram.
func (p *UDP) prepare() []messageHeader {
	s := &p.send
	end, filled := s.first, 0
	for ; end < s.count; end++ {
		run := &s.runs[end]
		if run.datagrams > 1 && !s.segments {
			break
		}
		h := &s.headers[end].header
		s.headers[end].setName(run.to, p.connected)
		h.Iov = &s.vectors[filled]
		n := s.fill(s.vectors[filled:], run)
		h.SetIovlen(n)
		filled += n
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

// fill has vectors point at the pieces of a run, and returns their number.
func (s *udpSend) fill(vectors []unix.Iovec, run *udpRun) (n int) {
	for at := run.piece; ; at = s.pieces[at].next {
		vectors[n].Base = &s.arena[s.pieces[at].start]
		vectors[n].SetLen(s.pieces[at].size)
		if n++; at == run.last {
			return n
		}
	}
}

// countSent counts runs that were sent and moves past them.
func (p *UDP) countSent(runs int) {
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

// handleError handles an error of the first run and reports whether Flush can go on.
func (p *UDP) handleError(errno unix.Errno) bool {
	run := &p.send.runs[p.send.first]
	switch {
	case errno == unix.EAGAIN:
		return false
	case run.datagrams > 1 && p.send.segments &&
		(errno == unix.EINVAL || errno == unix.EIO || errno == unix.EOPNOTSUPP):
		// The interface cannot segment, or a segment exceeds its MTU.
		p.counts.unsegmented++
		p.send.segments = false
		return true
	case errno == unix.ECONNREFUSED && !run.refused:
		// An earlier datagram was refused, not this one.
		p.counts.refused++
		run.refused = true
		return true
	}
	p.counts.sendErrors += uint64(run.datagrams)
	p.send.first++
	return true
}

// sendSegments sends the datagrams of a run one by one. The run keeps those that were not sent.
func (p *UDP) sendSegments(run *udpRun) unix.Errno {
	for run.datagrams > 0 {
		size := min(run.segment, run.size)
		switch errno := p.sendFirst(run, size); errno {
		case 0:
			p.counts.sent++
			p.counts.sentBytes += uint64(size)
		case unix.EAGAIN:
			return errno
		default:
			p.counts.sendErrors++
		}
		run.size -= size
		run.datagrams--
		piece := &p.send.pieces[run.piece]
		piece.start += size
		if piece.size -= size; piece.size == 0 {
			run.piece = piece.next
		}
	}
	p.send.first++
	return 0
}

// Receive implements [Port].
func (p *UDP) Receive(packets []Packet, target Target) (n int, err error) {
	if p.closed {
		return 0, ErrClosed
	}
	if p.send.unsent {
		_ = p.Flush() // the only error is ErrClosed
	}
	r := &p.receive
	if r.next == r.filled && len(packets) > 0 {
		p.fetch(len(packets), target)
	}
	for n < len(packets) && r.next < r.filled {
		if p.take(&packets[n]) {
			n++
		}
	}
	return n, nil
}

// fetch receives at most the given number of messages from the kernel. It asks for one at first, so
// that a single datagram is answered before the kernel has looked for a second, and for twice as
// many each time that something was there.
func (p *UDP) fetch(maximum int, target Target) {
	r := &p.receive
	for i := range r.filled {
		h := &r.headers[i].header
		h.Namelen = uint32(len(r.names[i]))
		h.SetControllen(len(r.controls[i]))
	}
	r.next, r.filled, r.offset = 0, 0, 0
	maximum = min(maximum, r.ask, len(r.headers))
	r.place(maximum, target, p.mtu)
	n, errno := p.receiveUpTo(maximum)
	p.counts.syscalls++
	r.unplace()
	switch errno {
	case 0:
		p.counts.receiveCalls++
		r.filled = n
		p.settle()
		p.readControl()
		r.ask = r.nextAsk()
		if r.ask >= coalesceFrom && r.mayCoalesce && !r.coalesces {
			p.enableCoalescing()
		}
		return
	case unix.EAGAIN:
		// The queue is empty: what came from others before the socket was connected is gone, and
		// the kernel has taken only the connected remote's since.
		p.exclusive = p.connected != nil
	case unix.ECONNREFUSED:
		p.counts.refused++
	default:
		p.counts.receiveErrors++
	}
	r.ask = 1
}

// place makes the receive put the bodies of up to maximum messages into the target.
func (r *udpReceive) place(maximum int, target Target, mtu int) {
	r.placed = 0
	if len(target.Memory) == 0 {
		return
	}
	r.target, r.placeable = target, mtu-target.Head
	r.placed = min(maximum, len(target.Memory)/r.placeable)
	for i := range r.placed {
		v := &r.vectors[i]
		v[0].SetLen(r.target.Head)
		v[1].Base = &r.target.Memory[i*r.placeable]
		v[1].SetLen(r.placeable)
		r.headers[i].header.SetIovlen(2)
		if end := r.target.Head + r.placeable; end < r.size {
			v[2].Base = &r.buffer(i)[end]
			v[2].SetLen(r.size - end)
			r.headers[i].header.SetIovlen(3)
		}
	}
}

// unplace has bodies received behind their heads again.
func (r *udpReceive) unplace() {
	for i := range r.placed {
		r.vectors[i][0].SetLen(r.size)
		r.vectors[i][1], r.vectors[i][2] = unix.Iovec{}, unix.Iovec{}
		r.headers[i].header.SetIovlen(1)
	}
}

// settle copies bodies that may not stay in the target back behind their heads: those of datagrams
// shorter than the MTU, and all if the kernel has coalesced a message. Receive then returns more
// datagrams than messages, so the body of a later datagram would lie before its part of the target.
func (p *UDP) settle() {
	r := &p.receive
	r.placed = min(r.placed, r.filled)
	several := false
	for i := range r.placed {
		several = several || r.segmentOf(i) < int(r.headers[i].length)
	}
	for i := range r.placed {
		length := int(r.headers[i].length)
		if more := min(length-r.target.Head, r.placeable); more > 0 && (several || length < p.mtu) {
			copy(r.buffer(i)[r.target.Head:], r.target.Memory[i*r.placeable:][:more])
			p.counts.copies++
			p.counts.copiedBytes += uint64(more)
		}
	}
	if several {
		r.placed = 0
	}
}

// nextAsk returns how many messages to ask for after some have come: twice as many, unless their
// buffers would leave the cache.
func (r *udpReceive) nextAsk() int {
	total := 0
	for i := range r.filled {
		total += int(r.headers[i].length)
	}
	if total > receiveBytes {
		return max(r.ask/2, 2)
	}
	return min(2*r.ask, len(r.headers))
}

// coalesceFrom is the number of messages asked for at once from which the kernel is to coalesce
// them. The control messages that come with that take time, which single datagrams should not pay.
const coalesceFrom = 16

func (p *UDP) enableCoalescing() {
	r := &p.receive
	r.coalesces = coalesce(p.fd) == 0
	r.mayCoalesce = r.coalesces
}

// receiveUpTo receives at most the given number of messages with the cheapest system call for it.
func (p *UDP) receiveUpTo(maximum int) (n int, errno unix.Errno) {
	r := &p.receive
	r.unnamed = false
	switch {
	case maximum > 1:
		return receiveMessages(p.fd, r.headers[:maximum])
	case r.coalesces || r.placed > 0:
		return 1, receiveMessage(p.fd, &r.headers[0])
	}
	from := &r.names[0]
	if r.unnamed = p.exclusive; r.unnamed {
		from = nil
	}
	length, errno := receiveFrom(p.fd, r.buffer(0), from)
	if errno != 0 {
		return 0, errno
	}
	h := &r.headers[0]
	h.length = uint32(min(length, r.size))
	h.header.Flags = 0
	if length > r.size {
		h.header.Flags = unix.MSG_TRUNC
	}
	h.header.SetControllen(0) // until fetch resets it
	return 1, 0
}

// readControl reads the length of the next message's datagrams.
func (p *UDP) readControl() {
	r := &p.receive
	if r.segment = r.segmentOf(r.next); r.segment < int(r.headers[r.next].length) {
		p.counts.coalesced++
	}
}

// segmentOf returns the length of the datagrams of the i-th message, of which the last may be
// shorter: what its control messages say, or its own length.
func (r *udpReceive) segmentOf(i int) int {
	control := r.controls[i][:]
	for left := int(r.headers[i].header.Controllen); left >= unix.SizeofCmsghdr+4; {
		length := int(binary.NativeEndian.Uint64(control))
		level, kind := binary.NativeEndian.Uint32(control[8:]),
			binary.NativeEndian.Uint32(control[12:])
		if level == unix.IPPROTO_UDP && kind == unix.UDP_GRO {
			return max(int(binary.NativeEndian.Uint32(control[unix.SizeofCmsghdr:])), 1)
		}
		length = (length + 7) &^ 7
		left -= length
		if length < unix.SizeofCmsghdr || left <= 0 {
			break
		}
		control = control[length:]
	}
	return int(r.headers[i].length)
}

// take returns the next fetched datagram in packet. It returns false, and drops the datagram, if
// that exceeds the MTU.
func (p *UDP) take(packet *Packet) bool {
	r := &p.receive
	length := int(r.headers[r.next].length)
	size := min(r.segment, length-r.offset)
	packet.Body = nil
	if r.next < r.placed && length == p.mtu {
		packet.Body = r.target.Memory[r.next*r.placeable:][:r.placeable]
	}
	ok := size <= p.mtu && r.headers[r.next].header.Flags&unix.MSG_TRUNC == 0
	if ok {
		end := r.offset + size
		packet.Data = r.buffer(r.next)[r.offset:end:end]
		if packet.Body != nil {
			packet.Data = packet.Data[:r.target.Head]
		}
		if r.unnamed {
			packet.Source = p.connected.source
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
			p.readControl()
		}
	}
	return ok
}
