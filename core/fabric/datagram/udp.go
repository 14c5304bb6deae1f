package datagram

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Offload says whether a udp port hands the kernel several datagrams as one
// (UDP_SEGMENT), and takes several as one (UDP_GRO); see udp(7).
type Offload string

// The values of Offload. OffloadAuto uses what the kernel and the way to the
// remote have; OffloadOn fails without.
const (
	OffloadAuto Offload = "auto"
	OffloadOn   Offload = "on"
	OffloadOff  Offload = "off"
)

const (
	// UDPMaxMTU is the largest datagram in bytes that fits an IPv4 or IPv6 packet
	// over an interface of 64 KiB, as the loopback is.
	UDPMaxMTU = 65536 - 48 - 1
	// UDPEthernetMTU is the largest that fits an Ethernet frame over IPv4;
	// over IPv6 it is 20 bytes less.
	UDPEthernetMTU = 1472

	udpDefaultBatch  = 64
	udpDefaultBuffer = 4 << 20
	maxBatch         = 1024
)

// UDPOptions say how to make a udp port. The zero value of each field but Address
// is its default.
type UDPOptions struct {
	// Address is what the socket is bound to, and what peers reach it by: an
	// address of an interface of this host. Its port is 0 for any that is free.
	Address netip.AddrPort
	// MTU is the largest datagram in bytes; 0 is what the interface that has
	// Address takes.
	MTU int
	// Batch is the most datagrams between two flushes; 0 is 64.
	Batch int
	// SendBuffer and ReceiveBuffer are the bytes to ask of the kernel for the
	// socket's buffers; 0 is 4 MiB. What it granted is in Notes.
	SendBuffer, ReceiveBuffer int
	// Offload; "" is OffloadAuto.
	Offload Offload
	// BusyPoll is how long the kernel polls the network device when there is
	// nothing to receive (SO_BUSY_POLL); 0 is the system's setting. It is of no use
	// on the loopback.
	BusyPoll time.Duration
}

// UDP is a port on a socket. It implements [Port] and [Waiter].
type UDP struct {
	fd      int
	waker   waker
	probe   udpProbe
	options UDPOptions
	mtu     int
	local   netip.AddrPort
	scope   uint32 // index of the interface that has it
	address []byte
	notes   map[string]string
	granted int // bytes of the receive buffer
	closed  bool

	remotes []*udpRemote // by Remote; nil where none is open
	// only is the remote that the socket is connected to, where there is no other.
	// settled says that all in its queue came from there.
	only    *udpRemote
	settled bool

	send    udpSend
	receive udpReceive
	counts  udpCounts
}

var (
	_ Port   = (*UDP)(nil)
	_ Waiter = (*UDP)(nil)
)

// udpRemote is a remote's socket address, as the kernel wants it.
type udpRemote struct {
	name    sockaddr
	length  uint32
	source  Source
	address udpAddress
}

// OpenUDP makes a socket and binds it. It fails where the address is not of this
// host, or not one that peers could reach it by.
func OpenUDP(o UDPOptions) (*UDP, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p := &UDP{options: o, fd: -1, notes: map[string]string{}}
	if err := p.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("udp socket of %v: %w", o.Address, err), p.Close())
	}
	return p, nil
}

func (o *UDPOptions) complete() error {
	if !o.Address.IsValid() || o.Address.Addr().IsUnspecified() || o.Address.Addr().IsMulticast() {
		return fmt.Errorf("udp socket of %v: that is no address that a peer could send to; give one of an interface", o.Address)
	}
	o.Address = netip.AddrPortFrom(o.Address.Addr().Unmap(), o.Address.Port())
	if o.Batch == 0 {
		o.Batch = udpDefaultBatch
	}
	if o.SendBuffer == 0 {
		o.SendBuffer = udpDefaultBuffer
	}
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = udpDefaultBuffer
	}
	if o.Offload == "" {
		o.Offload = OffloadAuto
	}
	switch {
	case o.MTU != 0 && (o.MTU < 1 || o.MTU > UDPMaxMTU):
		return fmt.Errorf("mtu of %d bytes: a udp datagram has %d at most", o.MTU, UDPMaxMTU)
	case o.Batch < 1 || o.Batch > maxBatch:
		return fmt.Errorf("batch of %d datagrams is outside 1 to %d", o.Batch, maxBatch)
	case o.Offload != OffloadAuto && o.Offload != OffloadOn && o.Offload != OffloadOff:
		return fmt.Errorf("offload %q is not one of auto, on, off", o.Offload)
	}
	return nil
}

func (p *UDP) open() (err error) {
	if p.fd, err = newSocket(p.options.Address.Addr()); err != nil {
		return err
	}
	if err = p.waker.open(); err != nil {
		return err
	}
	if err := p.bind(); err != nil {
		return err
	}
	if err := p.tune(); err != nil {
		return err
	}
	if err := p.send.make(p.options.Batch, p.mtu); err != nil {
		return err
	}
	if err := p.receive.make(p.options.Batch, p.mtu); err != nil {
		return err
	}
	if err := p.probe.open(p.local.Addr(), p.scope, p.options.SendBuffer, p.options.ReceiveBuffer); err != nil {
		return err
	}
	p.address = udpAddress{p.local, p.mtu, p.probe.port}.encode()
	return nil
}

// bind takes the address, and the MTU of its interface where no other was asked
// for. The way from an address to itself is the loopback's, whatever interface has
// it: so the interface is looked for.
func (p *UDP) bind() error {
	wanted := p.options.Address
	i, err := interfaceOf(wanted.Addr())
	if err != nil {
		return err
	}
	p.scope = uint32(i.Index)
	if p.local, err = bindTo(p.fd, wanted, p.scope); err != nil {
		return err
	}
	if p.mtu = p.options.MTU; p.mtu == 0 {
		p.mtu = min(i.MTU-headers(p.local.Addr()), UDPMaxMTU)
	}
	if p.mtu < 1 {
		return fmt.Errorf("interface %s has an MTU of %d bytes, too few for a datagram", i.Name, i.MTU)
	}
	return nil
}

// headers is how many bytes IP and UDP put before a datagram.
func headers(a netip.Addr) int {
	if a.Is4() {
		return 28
	}
	return 48
}

// tune sets the socket's options.
func (p *UDP) tune() error {
	p.notes["address"] = p.local.String()
	p.notes["mtu"] = fmt.Sprint(p.mtu)
	// Fragments that get lost take the others with them: a datagram that does not
	// fit the path is refused instead.
	level, option, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if p.local.Addr().Is6() {
		level, option, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	if err := unix.SetsockoptInt(p.fd, level, option, value); err != nil {
		return err
	}
	for _, b := range []struct {
		note          string
		option, force int
		size          int
	}{
		{"send-buffer", unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, p.options.SendBuffer},
		{"receive-buffer", unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, p.options.ReceiveBuffer},
	} {
		granted, err := setBuffer(p.fd, b.option, b.force, b.size)
		if err != nil {
			return err
		}
		p.notes[b.note] = transport.FormatSize(int64(granted))
		p.granted = granted // the last is what counts
	}
	if p.options.BusyPoll > 0 {
		if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL, int(p.options.BusyPoll.Microseconds())); err != nil {
			return fmt.Errorf("busy polling for %v: %w; it takes CAP_NET_ADMIN", p.options.BusyPoll, err)
		}
	}
	return p.tuneOffload()
}

// setBuffer sizes one of a socket's buffers and returns what the kernel grants.
func setBuffer(fd, option, force, size int) (granted int, err error) {
	// Root may exceed the limit (net.core.rmem_max and wmem_max).
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size); err != nil {
			return 0, os.NewSyscallError("setsockopt", err)
		}
	}
	// The kernel doubles it, for structures of its own: socket(7).
	granted, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	return granted / 2, os.NewSyscallError("getsockopt", err)
}

func (p *UDP) tuneOffload() error {
	if p.options.Offload != OffloadOff {
		_, errSegment := unix.GetsockoptInt(p.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		_, errCoalesce := unix.GetsockoptInt(p.fd, unix.IPPROTO_UDP, unix.UDP_GRO)
		p.send.segments, p.receive.mayCoalesce = errSegment == nil, errCoalesce == nil
		if err := errors.Join(errSegment, errCoalesce); err != nil && p.options.Offload == OffloadOn {
			return fmt.Errorf("offload: UDP_SEGMENT and UDP_GRO: %w; they take Linux 5.0", err)
		}
	}
	p.notes["offload"] = fmt.Sprintf("segment=%v gro=%v", p.send.segments, p.receive.mayCoalesce)
	if p.options.Offload == OffloadOn {
		p.coalesce()
	}
	return nil
}

// Address implements [Port].
func (p *UDP) Address() []byte { return p.address }

// MTU implements [Port].
func (p *UDP) MTU() int { return p.mtu }

// Notes implements [Port].
func (p *UDP) Notes() map[string]string { return p.notes }

// ReceiveBuffer is how many bytes the kernel holds for the port at most, its own
// structures for each packet among them, which outweigh small datagrams by far.
func (p *UDP) ReceiveBuffer() int { return 2 * p.granted }

// Open implements [Port].
func (p *UDP) Open(address []byte) (Remote, error) {
	if p.closed {
		return 0, ErrClosed
	}
	a, err := decodeUDPAddress(address)
	if err != nil {
		return 0, err
	}
	switch {
	case a.addr.Addr().Is4() != p.local.Addr().Is4():
		return 0, fmt.Errorf("%v cannot be reached from %v: one is IPv4 and the other IPv6", a.addr, p.local)
	case a.mtu != p.mtu:
		return 0, fmt.Errorf("the mtu of %v is %d and that of %v %d: set mtu to the smaller on both sides", a.addr, a.mtu, p.local, p.mtu)
	}
	path, err := pathMTU(p.local.Addr(), a.addr, p.scope)
	if err != nil {
		return 0, fmt.Errorf("no way from %v to %v: %w", p.local, a.addr, err)
	}
	if room := path - headers(a.addr.Addr()); p.mtu > room {
		return 0, fmt.Errorf("the way from %v to %v takes datagrams of %d bytes at most: set mtu to that, and not %d", p.local, a.addr, room, p.mtu)
	}
	r := &udpRemote{address: a}
	r.length = r.name.set(a.addr, p.scope)
	r.source = r.name.source()
	i := slices.Index(p.remotes, nil)
	if i < 0 {
		i = len(p.remotes)
		p.remotes = append(p.remotes, nil)
	}
	p.remotes[i] = r
	p.connect()
	return Remote(i), nil
}

// connect connects the socket while there is one remote only: the kernel then looks
// for the way there once, and not for each datagram, in either direction. One of IPv6
// stays as it is: the kernel would go on hearing the old remote's host alone when the
// connection is dissolved, as it forgets its port and not its address (__udp_disconnect
// of net/ipv4/udp.c).
func (p *UDP) connect() {
	if p.local.Addr().Is6() {
		return
	}
	var only *udpRemote
	for _, r := range p.remotes {
		if r != nil && only != nil && r.source != only.source {
			only = nil
			break
		}
		if r != nil {
			only = r
		}
	}
	if only == p.only || only != nil && p.only != nil && only.source == p.only.source {
		return
	}
	p.settled = false
	if p.only = only; only == nil {
		only = &udpRemote{length: unix.SizeofSockaddrInet4} // AF_UNSPEC dissolves it
	}
	if connect(p.fd, &only.name, only.length) != 0 {
		p.only = nil // datagrams go without
	}
}

// Release implements [Port].
func (p *UDP) Release(r Remote) {
	if int(r) < len(p.remotes) {
		p.remotes[r] = nil
		p.connect()
	}
}

// Source implements [Port].
func (p *UDP) Source(r Remote) Source { return p.remotes[r].source }

// Close implements [Port].
func (p *UDP) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if p.fd >= 0 {
		err = unix.Close(p.fd)
	}
	return errors.Join(err, p.probe.close(), p.waker.close(), p.send.free(), p.receive.free())
}

// Wait implements [Waiter].
func (p *UDP) Wait(timeout time.Duration) error {
	if p.closed {
		return ErrClosed
	}
	if p.receive.next < p.receive.filled {
		return nil
	}
	return p.waker.wait(p.fd, p.send.kept, timeout)
}

// Wake implements [Waiter].
func (p *UDP) Wake() { p.waker.wake() }
