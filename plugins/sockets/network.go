package sockets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// network is a family of stream sockets.
type network struct {
	name   string // also the medium
	medium string
	// integrity says what the kernel checks of payloads.
	integrity string
	// check resolves the options of the network, and reports whether it is available.
	check func(s *settings, o transport.Values) error
	// local returns the address on which the worker of an index listens.
	local func(s *settings, n dial.Nonce, index int) unix.Sockaddr
	// announce returns the text by which peers reach an address that listen returned.
	announce func(s *settings, own unix.Sockaddr) (string, error)
	// parse is the inverse of announce.
	parse func(text string) (unix.Sockaddr, error)
}

var networks = []network{
	{name: "tcp", medium: transport.MediumTCP,
		integrity: "none of its own; TCP checks 16-bit sums, except over the loopback",
		check:     (*settings).checkIP, local: localIP, announce: announceIP, parse: parseIP},
	{name: "unix", medium: transport.MediumUnix, integrity: "none; the kernel copies memory",
		check: (*settings).checkUnix, local: localUnix, announce: announceUnix, parse: parseUnix},
	{name: "vsock", medium: "vsock", integrity: "none; the hypervisor copies memory",
		check: (*settings).checkVsock, local: localVsock, announce: announceVsock,
		parse: parseVsock},
}

func localIP(s *settings, _ dial.Nonce, index int) unix.Sockaddr {
	port := s.port
	if port > 0 {
		port += index
	}
	if s.sock.Address.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: s.sock.Address.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: s.sock.Address.As16()}
}

func announceIP(_ *settings, own unix.Sockaddr) (string, error) {
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port)).String(), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(own.Addr), uint16(own.Port)).String(), nil
	}
	return "", errors.New("not an address of TCP")
}

func parseIP(text string) (unix.Sockaddr, error) {
	at, err := netip.ParseAddrPort(text)
	switch {
	case err != nil:
		return nil, err
	case at.Addr().Is4():
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}, nil
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}, nil
}

func (s *settings) checkUnix(o transport.Values) error {
	if s.port > 0 {
		return refuse("port", "%d: Unix sockets have no ports; leave it out, or use network=tcp",
			s.port)
	}
	if err := s.onlyTCP(o); err != nil {
		return err
	}
	return s.onlyVsock()
}

// onlyTCP refuses options that have no effect on other networks.
func (s *settings) onlyTCP(o transport.Values) error {
	for _, unset := range [][2]string{{"address", defaultAddress},
		{"congestion-control", sock.DefaultCongestion()}} {
		if value := o.String(unset[0]); value != unset[1] {
			return refuse(unset[0],
				"%q has no effect with network=%s; leave it out, or use network=tcp", value,
				s.network.name)
		}
	}
	return nil
}

// onlyVsock refuses the option that has no effect on other networks.
func (s *settings) onlyVsock() error {
	if s.cid != 0 {
		return refuse("cid", "%d has no effect with network=%s; leave it out, or use network=vsock",
			s.cid, s.network.name)
	}
	return nil
}

// unixPrefix begins the names of Unix sockets. The @ stands for the zero byte of the abstract
// namespace, in which a name disappears with its socket.
const unixPrefix = "@transportbench-"

func localUnix(_ *settings, n dial.Nonce, _ int) unix.Sockaddr {
	// The name must not reveal the nonce: every process of the host can list the names.
	public := sha256.Sum256(n[:])
	return &unix.SockaddrUnix{Name: fmt.Sprintf("%s%d-%x", unixPrefix, os.Getpid(), public[:8])}
}

func announceUnix(_ *settings, own unix.Sockaddr) (string, error) {
	if own, ok := own.(*unix.SockaddrUnix); ok {
		return own.Name, nil
	}
	return "", errors.New("not a Unix socket")
}

func parseUnix(text string) (unix.Sockaddr, error) {
	if !strings.HasPrefix(text, unixPrefix) {
		return nil, fmt.Errorf("%q is not the name of a Unix socket of this transport", text)
	}
	return &unix.SockaddrUnix{Name: text}, nil
}

const vsockDevice = "/dev/vsock"

// checkVsock asks the kernel for this machine's context ID.
func (s *settings) checkVsock(o transport.Values) error {
	if err := s.onlyTCP(o); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return transport.Unavailable("network=vsock: the kernel has no AF_VSOCK sockets (%w); "+
			"load its module vsock, or use network=tcp", err)
	}
	_ = unix.Close(fd)
	if s.cid != 0 {
		return nil
	}
	device, err := os.Open(vsockDevice)
	if err != nil {
		return transport.Unavailable("network=vsock: this machine's context ID is unknown: %w; "+
			"load the module vsock, or set the option cid", err)
	}
	defer device.Close()
	if s.cid, err = unix.IoctlGetUint32(int(device.Fd()),
		unix.IOCTL_VM_SOCKETS_GET_LOCAL_CID); err != nil {
		return transport.Unavailable(
			"network=vsock: %s does not tell this machine's context ID: %w; set the option cid",
			vsockDevice, err)
	}
	if s.cid == unix.VMADDR_CID_ANY { // neither a guest nor a host of guests
		s.cid = unix.VMADDR_CID_LOCAL
	}
	return nil
}

func localVsock(s *settings, _ dial.Nonce, index int) unix.Sockaddr {
	port := uint32(unix.VMADDR_PORT_ANY)
	if s.port > 0 {
		port = uint32(s.port + index)
	}
	return &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: port}
}

func announceVsock(s *settings, own unix.Sockaddr) (string, error) {
	if own, ok := own.(*unix.SockaddrVM); ok {
		return fmt.Sprintf("%d:%d", s.cid, own.Port), nil
	}
	return "", errors.New("not a vsock address")
}

func parseVsock(text string) (unix.Sockaddr, error) {
	cid, port, _ := strings.Cut(text, ":")
	c, err := strconv.ParseUint(cid, 10, 32)
	if err != nil {
		return nil, err
	}
	p, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrVM{CID: uint32(c), Port: uint32(p)}, nil
}

// listenError explains why listen failed.
func (s *settings) listenError(at unix.Sockaddr, err error) error {
	port := 0
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		port = at.Port
	case *unix.SockaddrInet6:
		port = at.Port
	case *unix.SockaddrVM:
		port = s.port
	case *unix.SockaddrUnix:
		return fmt.Errorf("listen on the abstract Unix socket %s: %w", at.Name, err)
	}
	switch {
	case port != 0 && errors.Is(err, unix.EADDRINUSE):
		return refuse("port", "port %d is taken; use another one, or 0 for any, which ranks that "+
			"share an address need", port)
	case port != 0 && errors.Is(err, unix.EACCES):
		return refuse("port", "port %d is for privileged processes; use 1024 or more", port)
	case s.sock.Address.IsValid():
		return refuse("address", "this host cannot listen on %s: %v", s.sock.Address, err)
	}
	return fmt.Errorf("listen on vsock port %d: %w", port, err)
}

// dialError explains why a peer at an address cannot be reached.
func dialError(at string, err error) error {
	if errors.Is(err, unix.ENODEV) {
		return transport.Unavailable("network=vsock: nothing on this machine carries vsock to "+
			"context ID %s; "+
			"for ranks on one machine load the module vsock_loopback, or use network=unix",
			strings.SplitN(at, ":", 2)[0])
	}
	return fmt.Errorf("connect to %s: %w", at, err)
}
