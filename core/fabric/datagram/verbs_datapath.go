package datagram

import (
	"encoding/binary"
	"errors"
	"fmt"

	"transportbench/core/fabric/rdma"
)

// receiveID is the bit that marks the ID of a receive. The ID of a send is its number.
const receiveID = 1 << 63

// Send implements [Port].
func (p *Verbs) Send(to Remote, head, body []byte) bool {
	r := p.remotes[to]
	size := len(head) + len(body)
	if size > p.options.MTU || r == nil {
		panic(errMisuse)
	}
	s := &p.send
	if s.count == len(s.requests) || p.closed {
		return false
	}
	if s.next-s.done == uint64(p.options.SendDepth) {
		if p.poll(); s.next-s.done == uint64(p.options.SendDepth) {
			return false
		}
	}
	flags, key, offset := rdma.SendFlags(0), p.region.LocalKey, p.sendOffset(s.next)
	if size <= p.options.Inline {
		flags, key, offset = rdma.Inline, 0, p.inlineOffset(s.count)
	}
	copy(p.region.Bytes[offset:], head)
	if len(body) > 0 {
		copy(p.region.Bytes[offset+len(head):], body)
		p.counts.copies++
		p.counts.copiedBytes += uint64(len(body))
	}
	q := &s.requests[s.count]
	*q = rdma.SendRequest{ID: s.next, Opcode: rdma.Send, Flags: flags, Peer: r.handle,
		Local: p.region.Address + uint64(offset), Length: uint32(size), LocalKey: key}
	s.next++
	if s.next%uint64(p.options.SignalInterval) == 0 {
		q.Flags |= rdma.Signaled
		p.counts.signaled++
	}
	s.count++
	return true
}

// Flush implements [Port].
func (p *Verbs) Flush() error {
	if p.closed {
		return ErrClosed
	}
	s := &p.send
	for tries := 0; s.first < s.count; tries++ {
		n, err := p.qp.PostSend(s.requests[s.first:s.count])
		if n > 0 {
			p.counts.doorbells++
		}
		for _, q := range s.requests[s.first : s.first+n] {
			p.counts.sentBytes += uint64(q.Length)
		}
		p.counts.sent += uint64(n)
		s.first += n
		switch {
		case err == nil:
		case !errors.Is(err, rdma.ErrQueueFull):
			p.fail(err)
			return p.failed
		case tries > 0:
			if !s.unsent {
				s.unsent = true
				p.counts.full++
			}
			return p.failed
		default:
			p.poll()
		}
	}
	s.first, s.count, s.unsent = 0, 0, false
	return p.failed
}

// Receive implements [Port]. The device puts bodies where their receives are.
func (p *Verbs) Receive(packets []Packet, _ Target) (n int, err error) {
	if p.closed {
		return 0, ErrClosed
	}
	r := &p.receive
	r.free = append(r.free, r.lent...)
	r.lent = r.lent[:0]
	if len(r.free) >= r.refill {
		p.fail(p.postReceives())
	}
	if r.head == r.tail && p.poll() > 0 && p.send.unsent {
		_ = p.Flush() // Receive returns the same error below
	}
	for n < len(packets) && r.head != r.tail {
		a := r.arrived[r.head%uint64(len(r.arrived))]
		r.head++
		r.lent = append(r.lent, p.receiveInto(a.buffer))
		if p.take(a, &packets[n]) {
			n++
		}
	}
	return n, p.failed
}

// take returns an arrival in packet. It returns false if the length is invalid.
func (p *Verbs) take(a arrival, packet *Packet) bool {
	offset := p.receiveOffset(a.buffer)
	if a.length < rdma.GlobalRouteHeaderSize || int(a.length) > rdma.GlobalRouteHeaderSize+
		p.options.MTU {
		p.counts.truncated++
		return false
	}
	header := p.region.Bytes[offset : offset+rdma.GlobalRouteHeaderSize]
	end := offset + int(a.length)
	packet.Data = p.region.Bytes[offset+rdma.GlobalRouteHeaderSize : end : end]
	packet.Source = Source{Port: uint64(a.source)}
	if p.routed {
		packet.Source.High, packet.Source.Low = routeSource(header)
	}
	p.counts.received++
	p.counts.receivedBytes += uint64(len(packet.Data))
	return true
}

// routeSource returns the sender's GID from a global route header, or from the IPv4 header that
// RoCE version 2 has in its last 20 bytes (InfiniBand Architecture Specification, volume 1, annex
// A17.4.5.2).
func routeSource(header []byte) (high, low uint64) {
	if header[0]>>4 == 6 {
		return binary.BigEndian.Uint64(header[8:]), binary.BigEndian.Uint64(header[16:])
	}
	return 0, 0xffff<<32 | uint64(binary.BigEndian.Uint32(header[32:]))
}

// poll polls completions and returns their number. It frees sends and queues arrivals; the ring has
// room for every receive.
func (p *Verbs) poll() (n int) {
	n, err := p.cq.Poll(p.polled)
	if err != nil {
		p.fail(err)
		return 0
	}
	if n > 0 {
		p.counts.polls++
	}
	r := &p.receive
	for i := range p.polled[:n] {
		c := &p.polled[i]
		switch {
		case c.ID&receiveID == 0:
			p.send.done = c.ID + 1
			if c.Status != rdma.StatusOK {
				p.failWith("send", c.Status)
			}
		case c.Status == rdma.StatusOK:
			r.arrived[r.tail%uint64(len(r.arrived))] = arrival{buffer: uint32(c.ID),
				length: c.Length, source: c.Source}
			r.tail++
		default:
			r.free = append(r.free, p.receiveInto(uint32(c.ID)))
			if c.Status != rdma.StatusLocalLength {
				p.failWith("receive", c.Status)
			} else {
				p.counts.truncated++
			}
		}
	}
	return n
}

// postReceives posts the free receives.
func (p *Verbs) postReceives() error {
	r := &p.receive
	posted, err := p.qp.PostReceive(r.free)
	p.counts.refills++
	r.free = r.free[:copy(r.free, r.free[posted:])]
	if errors.Is(err, rdma.ErrQueueFull) {
		return nil
	}
	return err
}

// fail keeps the first error, after which the port is useless.
func (p *Verbs) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
}

func (p *Verbs) failWith(what string, status rdma.Status) {
	if p.failed == nil {
		p.failed = fmt.Errorf("the queue pair failed: %s completed with %v", what, status)
	}
}
