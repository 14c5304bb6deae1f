package datagram

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

// Offload selects whether a udp port passes several datagrams to the kernel as one (UDP_SEGMENT)
// and receives several as one (UDP_GRO); see udp(7).
type Offload string

// The values of Offload. OffloadAuto uses what the kernel and the path to the remote support;
// OffloadOn fails without it.
const (
	OffloadAuto Offload = "auto"
	OffloadOn   Offload = "on"
	OffloadOff  Offload = "off"
)

const (
	// UDPMaxMTU is the size in bytes of the largest datagram that fits into an IPv4 or IPv6 packet
	// on an interface of 64 KiB, such as the loopback.
	UDPMaxMTU = 65536 - 48 - 1
	// UDPEthernetMTU is the size in bytes of the largest datagram that fits into an Ethernet frame
	// over IPv4; over IPv6 it is 20 bytes less.
	UDPEthernetMTU = 1472

	udpDefaultBatch  = 64
	udpDefaultBuffer = 4 << 20
	maxBatch         = 1024
)

// UDPOptions configure a udp port. The zero value of each field but Address selects its default.
type UDPOptions struct {
	// Address is the address to bind to, by which peers reach the port: an address of an interface
	// of this host. Port 0 takes any free port.
	Address netip.AddrPort
	// MTU is the size of the largest datagram in bytes; 0 is the MTU of Address's interface, less
	// the headers.
	MTU int
	// Batch is the maximum number of datagrams between two flushes; 0 is 64.
	Batch int
	// SendBuffer and ReceiveBuffer are the requested sizes of the socket's buffers in bytes; 0 is 4
	// MiB. Notes has what the kernel granted.
	SendBuffer, ReceiveBuffer int
	// Offload; "" is OffloadAuto.
	Offload Offload
	// BusyPoll is how long the kernel polls the network device when nothing has arrived
	// (SO_BUSY_POLL); 0 is the system's setting. It has no effect on the loopback.
	BusyPoll time.Duration
	// OnlyRemotes has the kernel drop datagrams that come from other port numbers than those of the
	// remotes, so that strangers cannot fill the receive buffer. It costs time for each datagram.
	OnlyRemotes bool

	forProbe bool // the port is one for probes
}

// UDP is a port on a kernel socket. It implements [Port], [Waiter] and [Prober].
type UDP struct {
	fd       int
	notifier notifier
	probe    udpProbe
	stream   *UDP // a port for probes of many messages; nil in that port
	options  UDPOptions
	mtu      int
	local    netip.AddrPort
	scope    uint32 // index of the interface that has local
	address  []byte
	notes    map[string]string
	closed   bool

	remotes []*udpRemote // by Remote; nil if not open
	// connected is the remote that the socket is connected to, or nil. exclusive is set once
	// everything in the socket's queue is known to come from there.
	connected *udpRemote
	exclusive bool

	send    udpSend
	receive udpReceive
	counts  udpCounts
}

var (
	_ Port   = (*UDP)(nil)
	_ Waiter = (*UDP)(nil)
)

// udpRemote is a remote with its socket address.
type udpRemote struct {
	name    sockaddr
	length  uint32
	source  Source
	address udpAddress
	stream  Remote // of UDP.stream, if the address has one
}

// OpenUDP opens a port on a new socket. It fails if the address is not one of this host, or not one
// that peers could send to.
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

// complete fills in defaults and checks the options.
func (o *UDPOptions) complete() error {
	if !o.Address.IsValid() || o.Address.Addr().IsUnspecified() || o.Address.Addr().IsMulticast() {
		return fmt.Errorf(
			"udp socket of %v: peers cannot send to this address; use an address of an interface",
			o.Address)
	}
	o.Address = netip.AddrPortFrom(o.Address.Addr().Unmap(), o.Address.Port())
	o.Batch = cmp.Or(o.Batch, udpDefaultBatch)
	o.SendBuffer = cmp.Or(o.SendBuffer, udpDefaultBuffer)
	o.ReceiveBuffer = cmp.Or(o.ReceiveBuffer, udpDefaultBuffer)
	o.Offload = cmp.Or(o.Offload, OffloadAuto)
	switch {
	case o.MTU < 0 || o.MTU > UDPMaxMTU:
		return outOfRange("mtu", o.MTU, 1, UDPMaxMTU)
	case o.Batch < 1 || o.Batch > maxBatch:
		return outOfRange("batch", o.Batch, 1, maxBatch)
	case o.Offload != OffloadAuto && o.Offload != OffloadOn && o.Offload != OffloadOff:
		return fmt.Errorf("offload: %q is not one of auto, on, off", o.Offload)
	}
	return nil
}

func outOfRange(option string, value, from, to int) error {
	return fmt.Errorf("%s: %d is out of range (%d to %d)", option, value, from, to)
}

func (p *UDP) open() (err error) {
	if p.fd, err = newSocket(p.options.Address.Addr()); err != nil {
		return err
	}
	if err = p.notifier.open(); err != nil {
		return err
	}
	if err := p.bind(); err != nil {
		return err
	}
	if err := p.configure(); err != nil {
		return err
	}
	if err := p.send.init(p.options.Batch, p.mtu); err != nil {
		return err
	}
	if err := p.receive.init(p.options.Batch, p.mtu); err != nil {
		return err
	}
	a := udpAddress{addr: p.local, mtu: p.mtu}
	if !p.options.forProbe {
		if err := p.openProbes(); err != nil {
			return err
		}
		a.probe, a.stream = p.probe.port, p.stream.local.Port()
	}
	p.address = a.encode()
	return nil
}

// bind binds the socket and takes the MTU of the address's interface unless the options set one.
// The kernel routes packets from an address to itself over the loopback, so it cannot be asked for
// the MTU; bind looks for the interface instead.
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
		p.mtu = min(i.MTU-headerBytes(p.local.Addr()), UDPMaxMTU)
	}
	if p.mtu < 1 {
		return fmt.Errorf("the MTU of interface %s, %d bytes, is too small for a datagram",
			i.Name, i.MTU)
	}
	return nil
}

// headerBytes returns the size of the IP and UDP headers of a datagram.
func headerBytes(a netip.Addr) int {
	if a.Is4() {
		return 28
	}
	return 48
}

// configure sets the socket's options.
func (p *UDP) configure() error {
	p.notes["address"] = p.local.String()
	p.notes["mtu"] = fmt.Sprint(p.mtu)
	// Do not fragment: one lost fragment would lose the datagram. The kernel refuses datagrams that
	// do not fit the path instead.
	level, option, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if p.local.Addr().Is6() {
		level, option, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	if err := unix.SetsockoptInt(p.fd, level, option, value); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	sendBuffer, err := setBuffer(p.fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, p.options.SendBuffer)
	if err != nil {
		return err
	}
	receiveBuffer, err := setBuffer(p.fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE,
		p.options.ReceiveBuffer)
	if err != nil {
		return err
	}
	p.notes["send-buffer"] = transport.FormatSize(int64(sendBuffer))
	p.notes["receive-buffer"] = transport.FormatSize(int64(receiveBuffer))
	if p.options.BusyPoll > 0 {
		if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL,
			int(p.options.BusyPoll.Microseconds())); err != nil {
			return fmt.Errorf("busy polling for %v: %w; it needs CAP_NET_ADMIN",
				p.options.BusyPoll, err)
		}
	}
	return p.configureOffload()
}

// setBuffer sets the size of a socket's buffer and returns what the kernel granted.
func setBuffer(fd, option, force, size int) (granted int, err error) {
	// Root may exceed the limit (net.core.rmem_max and wmem_max).
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size); err != nil {
			return 0, os.NewSyscallError("setsockopt", err)
		}
	}
	// The kernel doubles it, for its own structures: socket(7).
	granted, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	return granted / 2, os.NewSyscallError("getsockopt", err)
}

// offloads are the notes on what the kernel offloads: splitting messages that are sent (gso), and
// joining those that are received (gro).
var offloads = map[bool]map[bool]string{
	false: {false: "off", true: "gro"},
	true:  {false: "gso", true: "gso+gro"},
}

func (p *UDP) configureOffload() error {
	if p.options.Offload != OffloadOff {
		_, errSegment := unix.GetsockoptInt(p.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		_, errCoalesce := unix.GetsockoptInt(p.fd, unix.IPPROTO_UDP, unix.UDP_GRO)
		p.send.segments, p.receive.mayCoalesce = errSegment == nil, errCoalesce == nil
		if err := errors.Join(errSegment, errCoalesce); err != nil &&
			p.options.Offload == OffloadOn {
			return fmt.Errorf("offload: UDP_SEGMENT and UDP_GRO: %w; they need Linux 5.0", err)
		}
	}
	p.notes["offload"] = offloads[p.send.segments][p.receive.mayCoalesce]
	if p.options.Offload == OffloadOn {
		p.enableCoalescing()
	}
	return nil
}

// Address implements [Port].
func (p *UDP) Address() []byte { return p.address }

// MTU implements [Port].
func (p *UDP) MTU() int { return p.mtu }

// Notes implements [Port].
func (p *UDP) Notes() map[string]string { return p.notes }

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
		return 0, fmt.Errorf("%v cannot reach %v: one is IPv4 and the other IPv6", p.local, a.addr)
	case a.mtu != p.mtu:
		return 0,
			fmt.Errorf("the mtu of %v is %d and that of %v is %d: set mtu to the smaller one on "+
				"both sides",
				a.addr, a.mtu, p.local, p.mtu)
	}
	path, err := pathMTU(p.local.Addr(), a.addr, p.scope)
	if err != nil {
		return 0, fmt.Errorf("no route from %v to %v: %w", p.local, a.addr, err)
	}
	if room := path - headerBytes(a.addr.Addr()); p.mtu > room {
		return 0, fmt.Errorf("the path from %v to %v carries datagrams of at most %d bytes: set "+
			"mtu to that instead of %d",
			p.local, a.addr, room, p.mtu)
	}
	r := &udpRemote{address: a}
	if p.stream != nil && a.stream != 0 {
		if r.stream, err = p.stream.Open(
			udpAddress{addr: netip.AddrPortFrom(a.addr.Addr(), a.stream),
				mtu: a.mtu}.encode()); err != nil {
			return 0, fmt.Errorf("opening the remote's port for probes: %w", err)
		}
	}
	r.length = r.name.set(a.addr, p.scope)
	r.source = r.name.source()
	i := slices.Index(p.remotes, nil)
	if i < 0 {
		i = len(p.remotes)
		p.remotes = append(p.remotes, nil)
	}
	p.remotes[i] = r
	p.connect()
	p.filter()
	return Remote(i), nil
}

// connect connects the socket while there is only one remote, so that the kernel looks up the route
// once instead of for each datagram: a round trip of 64 bytes took 5.4 us instead of 6.4. It
// dissolves the connection when there is a second one. IPv6 sockets are never connected: when a
// connection is dissolved, the kernel forgets the remote's port but not its address
// (__udp_disconnect in net/ipv4/udp.c).
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
	if only == p.connected || only != nil && p.connected != nil &&
		only.source == p.connected.source {
		return
	}
	p.exclusive = false
	if p.connected = only; only == nil {
		only = &udpRemote{length: unix.SizeofSockaddrInet4} // AF_UNSPEC dissolves the connection
	}
	if connect(p.fd, &only.name, only.length) != 0 {
		p.connected = nil // every datagram names its remote
	}
}

// maxFiltered is the most remotes that a filter names. The kernel limits the size of a filter.
const maxFiltered = 256

// filter attaches a classic BPF program that accepts datagrams from the remotes' port numbers. A
// port that cannot have one does without: its user checks the source anyway.
func (p *UDP) filter() {
	if !p.options.OnlyRemotes {
		return
	}
	numbers := map[uint16]bool{}
	for _, r := range p.remotes {
		if r != nil {
			numbers[r.address.addr.Port()] = true
		}
	}
	if len(numbers) == 0 || len(numbers) > maxFiltered {
		// ENOENT: there is none
		_ = unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		return
	}
	// The program sees the UDP header, which begins with the source port.
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS}}
	for number := range numbers {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1,
				K: uint32(number)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16}) // all of it
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
	err := unix.SetsockoptSockFprog(p.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil { // the filter before it would drop what a new remote sends
		_ = unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	}
}

// Release implements [Port].
func (p *UDP) Release(r Remote) {
	if int(r) < len(p.remotes) {
		if remote := p.remotes[r]; remote != nil && p.stream != nil && remote.address.stream != 0 {
			p.stream.Release(remote.stream)
		}
		p.remotes[r] = nil
		p.connect()
		p.filter()
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
	if p.stream != nil {
		err = errors.Join(err, p.stream.Close())
	}
	return errors.Join(err, p.probe.close(), p.notifier.close(), p.send.free(), p.receive.free())
}

// Wait implements [Waiter].
func (p *UDP) Wait(timeout time.Duration) error {
	if p.closed {
		return ErrClosed
	}
	if p.receive.next < p.receive.filled {
		return nil
	}
	p.counts.syscalls++
	return p.notifier.wait(p.fd, p.send.unsent, timeout)
}

// Wake implements [Waiter].
func (p *UDP) Wake() { p.notifier.wake() }

// udpCounts are the counters of ReadStats.
type udpCounts struct {
	sent, sentBytes, sendCalls, sendErrors, full, segmented, unsegmented                uint64
	received, receivedBytes, receiveCalls, receiveErrors, refused, coalesced, truncated uint64
	drops                                                                               uint64
	// syscalls counts those that found nothing too, which sendCalls and receiveCalls leave out.
	copies, copiedBytes, syscalls uint64
}

// Work implements [Port].
func (p *UDP) Work() control.Work {
	c := &p.counts
	return control.Work{Copies: c.copies, CopiedBytes: c.copiedBytes, Syscalls: c.syscalls,
		KernelBytes: c.sentBytes + c.receivedBytes}
}

// ReadStats implements [Port].
func (p *UDP) ReadStats(dst []transport.Stat) []transport.Stat {
	if !p.closed {
		// The kernel's counter wraps at 2^32.
		if counter, ok := dropsOf(p.fd); ok {
			p.counts.drops += uint64(counter - uint32(p.counts.drops))
		}
	}
	c := &p.counts
	return append(dst,
		transport.Stat{Name: "datagrams_sent", Help: "datagrams that the kernel took",
			Value: c.sent},
		transport.Stat{Name: "bytes_sent", Help: "bytes of these datagrams", Value: c.sentBytes},
		transport.Stat{Name: "send_calls",
			Help: "calls of sendto, sendmsg and sendmmsg, except those that found the send " +
				"buffer full", Value: c.sendCalls},
		transport.Stat{Name: "send_errors", Help: "datagrams lost because the kernel refused them",
			Value: c.sendErrors},
		transport.Stat{Name: "send_buffer_full", Means: transport.MeansShortage,
			Help:  "times a datagram had to wait because the socket's send buffer was full",
			Value: c.full},
		transport.Stat{Name: "segmented",
			Help:  "messages that the kernel split into several datagrams (UDP_SEGMENT)",
			Value: c.segmented},
		transport.Stat{Name: "segmentation_refused", Help: "times the kernel refused to split a " +
			"message, after which datagrams are sent one by one", Value: c.unsegmented},
		transport.Stat{Name: "datagrams_received", Help: "datagrams received", Value: c.received},
		transport.Stat{Name: "bytes_received", Help: "bytes of these datagrams",
			Value: c.receivedBytes},
		transport.Stat{Name: "receive_calls",
			Help: "calls of recvmsg and recvmmsg that returned something", Value: c.receiveCalls},
		transport.Stat{Name: "receive_errors", Help: "errors of the socket other than refusals",
			Value: c.receiveErrors},
		transport.Stat{Name: "refused", Help: "ICMP errors: no socket listens on a remote's port",
			Value: c.refused},
		transport.Stat{Name: "coalesced", Help: "messages of several datagrams (UDP_GRO)",
			Value: c.coalesced},
		transport.Stat{Name: "datagrams_too_long",
			Help: "datagrams dropped because they exceeded the MTU", Value: c.truncated},
		transport.Stat{Name: "receive_drops", Means: transport.MeansRetransmission,
			Help:  "packets that the kernel dropped because the socket's receive buffer was full",
			Value: c.drops},
	)
}
