package ofi

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	control "transportbench/core/fabric/endpoint"
	"transportbench/plugins/ofi/internal/fi"
)

// A presence is a listening socket that the kernel closes with the process. Peers connect to it and
// nobody accepts or sends: when it is closed, the kernel ends their connections, which tells them
// that the worker is gone. It is a Unix socket with an abstract name if all peers are on this host,
// else a TCP socket.
type presence struct {
	fd      int
	address string // "@name" or "192.0.2.1:5000"
}

// presenceBacklog is how many peers may be connected; the kernel's somaxconn limits it further.
const presenceBacklog = 4096

// newPresence listens at an IP address, or only on this host if it is not valid.
func newPresence(at netip.Addr) (p presence, err error) {
	family := unix.AF_UNIX
	// All processes can read the name, so it has nothing of the worker's nonce.
	p.address = "@transportbench-ofi-" + rand.Text()
	var bound unix.Sockaddr = &unix.SockaddrUnix{Name: p.address}
	if at.IsValid() {
		family, bound = inet(netip.AddrPortFrom(at, 0))
	}
	p.fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return presence{}, fmt.Errorf("a socket for the loss of peers: %w", err)
	}
	if err = unix.Bind(p.fd, bound); err == nil {
		err = unix.Listen(p.fd, presenceBacklog)
	}
	if err == nil {
		bound, err = unix.Getsockname(p.fd)
	}
	if err != nil {
		return presence{}, errors.Join(fmt.Errorf("listening for the loss of peers at %s: %w", p.address, err), unix.Close(p.fd))
	}
	switch bound := bound.(type) {
	case *unix.SockaddrInet4:
		p.address = netip.AddrPortFrom(at, uint16(bound.Port)).String()
	case *unix.SockaddrInet6:
		p.address = netip.AddrPortFrom(at, uint16(bound.Port)).String()
	}
	return p, nil
}

func (p *presence) close() error {
	if p.address == "" {
		return nil
	}
	p.address = ""
	return unix.Close(p.fd)
}

// dialPresence connects to a presence without waiting for it, and returns the socket.
func dialPresence(ctx context.Context, address string, silence time.Duration) (fd int, err error) {
	family, to := unix.AF_UNIX, unix.Sockaddr(&unix.SockaddrUnix{Name: address})
	if address == "" || address[0] != '@' {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return -1, fmt.Errorf("the address for the loss of the peer: %w", err)
		}
		family, to = inet(at)
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("a socket for the loss of the peer: %w", err)
	}
	if family != unix.AF_UNIX {
		err = keepAlive(fd, silence)
	}
	if err == nil {
		err = control.WhileUnreachable(ctx, func() error { return unix.Connect(fd, to) })
	}
	if err != nil && err != unix.EINPROGRESS {
		return -1, errors.Join(fmt.Errorf("connecting to %s for the loss of the peer: %w", address, err), unix.Close(fd))
	}
	return fd, nil
}

// keepAlive makes the kernel end a connection whose other host has been silent for a time.
func keepAlive(fd int, silence time.Duration) error {
	for _, o := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, min(int(silence/time.Second), 127)},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds())},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

func inet(at netip.AddrPort) (family int, sockaddr unix.Sockaddr) {
	if at.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// addressOf returns the IP address of an interface of libfabric. It is not valid if the interface
// has an address of another kind.
func addressOf(f *fi.Interface) netip.Addr { return hostOf(f.Format, f.Address).Addr() }

// hostOf returns the IP address and the port in one of libfabric's addresses, if it has them.
func hostOf(format int, address []byte) netip.AddrPort {
	switch {
	case format == fi.FormatInet && len(address) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(address[4:8])), binary.BigEndian.Uint16(address[2:]))
	case format == fi.FormatInet6 && len(address) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(address[8:24])), binary.BigEndian.Uint16(address[2:]))
	}
	return netip.AddrPort{}
}

// hostAddress returns an address of this host for peers on others, for providers whose own
// addresses are no IP addresses.
func hostAddress() netip.Addr {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if ip := prefix.Addr(); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			return ip
		}
	}
	return netip.Addr{}
}
