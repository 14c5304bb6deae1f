package datagram

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

var _ Prober = (*UDP)(nil)

// udpProbe is the socket of the floor. The port's own socket has datagrams of the transport's
// protocol in its queue, and options and a connection that would change the floor.
type udpProbe struct {
	fd   int // 0 if not open
	port uint16
	last uint64 // nonce of the last probe that was answered
}

func (q *udpProbe) open(a netip.Addr, scope uint32, sendBuffer, receiveBuffer int) error {
	fd, err := newSocket(a)
	if err != nil {
		return err
	}
	q.fd = fd
	bound, err := bindTo(q.fd, netip.AddrPortFrom(a, 0), scope)
	if err != nil {
		return err
	}
	q.port = bound.Port()
	if _, err := setBuffer(q.fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, sendBuffer); err != nil {
		return err
	}
	_, err = setBuffer(q.fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, receiveBuffer)
	return err
}

func (q *udpProbe) close() error {
	if q.fd == 0 {
		return nil
	}
	err := unix.Close(q.fd)
	q.fd = 0
	return err
}

// openProbes opens the sockets for probes. Their buffers may be larger than the port's, which may
// have no room for one message.
func (p *UDP) openProbes() (err error) {
	o := p.options
	o.SendBuffer, o.ReceiveBuffer = max(o.SendBuffer, udpDefaultBuffer),
		max(o.ReceiveBuffer, udpDefaultBuffer)
	if err := p.probe.open(p.local.Addr(), p.scope, o.SendBuffer, o.ReceiveBuffer); err != nil {
		return err
	}
	o.Address, o.MTU, o.forProbe = netip.AddrPortFrom(p.local.Addr(), 0), p.mtu, true
	p.stream, err = OpenUDP(o)
	return err
}

// Probe implements [Prober] over sockets of its own. One message at a time goes through a connected
// socket with send and recv, the cheapest calls for it. Many go through a port like this one, with
// the same system calls and the same offloads.
func (p *UDP) Probe(ctx context.Context, to Remote, probe transport.Probe) (f transport.Floor,
	err error) {
	if p.closed {
		return f, ErrClosed
	}
	r := p.remotes[to]
	if probe.Kind == transport.ProbeRate {
		if p.stream == nil || r.address.stream == 0 {
			return f, transport.ErrUnsupported
		}
		f, err = probePort(ctx, p.stream, r.stream, probe, &p.stream.probe.last)
		if f.PerOp > 0 {
			f.Name = "raw UDP stream"
		}
		return f, err
	}
	name := sockaddr{}
	length := name.set(netip.AddrPortFrom(r.address.addr.Addr(), r.address.probe), p.scope)
	if errno := connect(p.probe.fd, &name, length); errno != 0 {
		return f, fmt.Errorf("connecting to the probe socket of %v: %w", r.address.addr, errno)
	}
	l := newUDPLink(p.probe.fd, p.mtu)
	drain(l)
	f, err = measure(ctx, l, p.mtu, probe, &p.probe.last)
	if f.RoundTrip > 0 {
		f.Name = "raw UDP ping-pong"
	}
	return f, err
}

// udpLink is a [link] over a socket.
type udpLink struct {
	fd       int
	out      []byte
	in       []byte
	stride   int
	sends    [maxProbe]messageHeader
	receives [maxProbe]messageHeader
	outward  unix.Iovec // shared: all datagrams of a call are the same
	inward   [maxProbe]unix.Iovec
}

func newUDPLink(fd, mtu int) *udpLink {
	l := &udpLink{fd: fd, out: make([]byte, mtu), stride: (mtu+63)&^63 + bufferSkew}
	l.in = make([]byte, maxProbe*l.stride)
	l.outward.Base = &l.out[0]
	for i := range maxProbe {
		l.sends[i].header.Iov = &l.outward
		l.sends[i].header.SetIovlen(1)
		l.inward[i].Base = &l.in[i*l.stride]
		l.inward[i].SetLen(mtu)
		l.receives[i].header.Iov = &l.inward[i]
		l.receives[i].header.SetIovlen(1)
	}
	return l
}

func (l *udpLink) post(head []byte, size, n int) int {
	copy(l.out, head)
	if n == 1 {
		if sendTo(l.fd, l.out[:size], nil, 0) != 0 {
			return 0
		}
		return 1
	}
	l.outward.SetLen(size)
	sent, errno := sendMessages(l.fd, l.sends[:min(n, maxProbe)])
	if errno != 0 {
		return 0
	}
	return sent
}

func (l *udpLink) take(maximum int) int {
	if maximum == 1 {
		length, errno := receiveFrom(l.fd, l.in[:l.stride], nil)
		if errno != 0 {
			return 0
		}
		l.receives[0].length = uint32(min(length, l.stride))
		return 1
	}
	n, errno := receiveMessages(l.fd, l.receives[:min(maximum, maxProbe)])
	if errno != 0 {
		return 0
	}
	return n
}

func (l *udpLink) head(i int) []byte {
	return l.in[i*l.stride:][:min(int(l.receives[i].length), probeSize)]
}
