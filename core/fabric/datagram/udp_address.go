package datagram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// udpAddress is the content of a udp port's address: magic number u16, MTU u32, IP address in 16
// bytes, port u16, ports of the probes of one message and of many u16 each; big-endian.
type udpAddress struct {
	addr   netip.AddrPort
	mtu    int
	probe  uint16
	stream uint16
}

const (
	udpAddressSize  = 28
	udpAddressMagic = 'u'<<8 | 2
)

func (a udpAddress) encode() []byte {
	b := make([]byte, 0, udpAddressSize)
	b = binary.BigEndian.AppendUint16(b, udpAddressMagic)
	b = binary.BigEndian.AppendUint32(b, uint32(a.mtu))
	ip := a.addr.Addr().As16()
	b = append(b, ip[:]...)
	b = binary.BigEndian.AppendUint16(b, a.addr.Port())
	b = binary.BigEndian.AppendUint16(b, a.probe)
	return binary.BigEndian.AppendUint16(b, a.stream)
}

func decodeUDPAddress(b []byte) (udpAddress, error) {
	if len(b) != udpAddressSize || binary.BigEndian.Uint16(b) != udpAddressMagic {
		return udpAddress{},
			errors.New("the address is not one of a udp port; use the same provider on both sides")
	}
	a := udpAddress{mtu: int(binary.BigEndian.Uint32(b[2:])),
		probe: binary.BigEndian.Uint16(b[24:]), stream: binary.BigEndian.Uint16(b[26:])}
	ip := netip.AddrFrom16([16]byte(b[6:22])).Unmap()
	a.addr = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[22:]))
	if ip.IsUnspecified() || ip.IsMulticast() || a.addr.Port() == 0 {
		return a, fmt.Errorf("%v is not an address that datagrams can be sent to", a.addr)
	}
	return a, nil
}

// sockaddr is a struct sockaddr_in of ip(7) or a struct sockaddr_in6 of ipv6(7).
type sockaddr [unix.SizeofSockaddrInet6]byte

// set sets the address and returns its length. scope is the interface of a link-local address.
func (s *sockaddr) set(a netip.AddrPort, scope uint32) uint32 {
	*s = sockaddr{}
	binary.BigEndian.PutUint16(s[2:], a.Port())
	if a.Addr().Is4() {
		binary.NativeEndian.PutUint16(s[:], unix.AF_INET)
		ip := a.Addr().As4()
		copy(s[4:], ip[:])
		return unix.SizeofSockaddrInet4
	}
	binary.NativeEndian.PutUint16(s[:], unix.AF_INET6)
	ip := a.Addr().As16()
	copy(s[8:], ip[:])
	if a.Addr().IsLinkLocalUnicast() {
		binary.NativeEndian.PutUint32(s[24:], scope)
	}
	return unix.SizeofSockaddrInet6
}

// source returns the address as a Source, without the flow label, which does not identify the peer.
func (s *sockaddr) source() Source {
	port := uint64(binary.BigEndian.Uint16(s[2:]))
	if binary.NativeEndian.Uint16(s[:]) == unix.AF_INET {
		return Source{Low: uint64(binary.BigEndian.Uint32(s[4:])), Port: port}
	}
	return Source{High: binary.BigEndian.Uint64(s[8:]), Low: binary.BigEndian.Uint64(s[16:]),
		Port: port | uint64(binary.NativeEndian.Uint32(s[24:]))<<32}
}

// systemAddress returns an address for bind(2) and connect(2).
func systemAddress(a netip.AddrPort, scope uint32) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	s := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().IsLinkLocalUnicast() {
		s.ZoneId = scope
	}
	return s
}

// bindTo binds a socket. For port 0 it looks for a free port and binds to that one explicitly: a
// socket whose port the kernel chose loses the port when a connection is dissolved.
func bindTo(fd int, wanted netip.AddrPort, scope uint32) (netip.AddrPort, error) {
	for tries := 0; ; tries++ {
		a, err := wanted, error(nil)
		if wanted.Port() == 0 {
			if a, err = freePort(wanted.Addr(), scope); err != nil {
				return a, err
			}
		}
		err = unix.Bind(fd, systemAddress(a, scope))
		// Another socket may have taken the port meanwhile.
		if wanted.Port() != 0 || tries == 100 || !errors.Is(err, unix.EADDRINUSE) {
			return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port()),
				os.NewSyscallError("bind", err)
		}
	}
}

// freePort returns an address with a port that is free at the moment.
func freePort(a netip.Addr, scope uint32) (free netip.AddrPort, err error) {
	fd, err := newSocket(a)
	if err != nil {
		return free, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Bind(fd, systemAddress(netip.AddrPortFrom(a, 0), scope)); err != nil {
		return free, os.NewSyscallError("bind", err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return free, os.NewSyscallError("getsockname", err)
	}
	switch s := bound.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(a, uint16(s.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(a, uint16(s.Port)), nil
	}
	return free, fmt.Errorf("bound to %v", bound)
}

// newSocket opens a non-blocking socket of the address's family.
func newSocket(a netip.Addr) (int, error) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// interfaceOf returns the interface that has an address.
func interfaceOf(a netip.Addr) (net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, err
	}
	for _, i := range all {
		if a.Zone() != "" && a.Zone() != i.Name {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // the interface may be gone
		}
		for _, n := range addresses {
			prefix, err := netip.ParsePrefix(n.String())
			// The loopback has all of 127.0.0.0/8.
			if err == nil && (prefix.Addr().Unmap() == a.WithZone("") || a.IsLoopback() &&
				prefix.Contains(a)) {
				return i, nil
			}
		}
	}
	return net.Interface{}, fmt.Errorf("no interface of this host has the address %v", a)
}

// pathMTU asks the kernel for the MTU of the path between two addresses. It sends nothing.
func pathMTU(from netip.Addr, to netip.AddrPort, scope uint32) (mtu int, err error) {
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if to.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	fd, err := newSocket(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Bind(fd, systemAddress(netip.AddrPortFrom(from, 0), scope)); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	if err := unix.Connect(fd, systemAddress(to, scope)); err != nil {
		return 0, os.NewSyscallError("connect", err)
	}
	return unix.GetsockoptInt(fd, level, option)
}
