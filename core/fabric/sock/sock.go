package sock

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// ErrClosed reports that the peer has closed the socket and no bytes are left.
var ErrClosed = errors.New("the socket was closed by the peer")

// ErrInDmabuf reports that a socket other than a data socket received bytes that the
// NIC put into the dmabuf of mode devmem, where they cannot be read.
var ErrInDmabuf = transport.Unavailable(
	"mode devmem: bytes of a socket other than a data socket went " +
		"into the dmabuf; the NIC's rules must steer the port of the option data-port to the " +
		"queue, " +
		"as dst-port and as src-port, and nothing else")

// Options are the settings that all sockets of a transport share.
type Options struct {
	Address    netip.Addr    // of this host: sockets listen on it
	Congestion string        // congestion control; empty for the kernel's default
	Buffer     int           // bytes of SO_SNDBUF and SO_RCVBUF; 0 lets the kernel choose
	Timeout    time.Duration // TCP_USER_TIMEOUT
}

// newSocket makes a nonblocking stream socket of the family of an address, with the options
// applied.
func (o *Options) newSocket(of unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family(of), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := o.apply(fd, of); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// family returns the family of an address.
func family(a unix.Sockaddr) int {
	switch a.(type) {
	case *unix.SockaddrInet6:
		return unix.AF_INET6
	case *unix.SockaddrUnix:
		return unix.AF_UNIX
	case *unix.SockaddrVM:
		return unix.AF_VSOCK
	}
	return unix.AF_INET
}

// isTCP reports whether an address is of a family of TCP.
func isTCP(a unix.Sockaddr) bool {
	f := family(a)
	return f == unix.AF_INET || f == unix.AF_INET6
}

// apply sets the options of a socket. Accepted sockets need it too: they inherit most
// options from the listener, but not on all kernels.
func (o *Options) apply(fd int, of unix.Sockaddr) error {
	set := func(what string, level, option, value int) error {
		if err := unix.SetsockoptInt(fd, level, option, value); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	var errs []error
	if isTCP(of) {
		errs = append(errs, o.applyTCP(fd, set))
	}
	if o.Buffer > 0 {
		errs = append(errs, set("SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, o.Buffer),
			set("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, o.Buffer))
	}
	return errors.Join(errs...)
}

// applyTCP sets the options of TCP.
func (o *Options) applyTCP(fd int, set func(what string, level, option, value int) error) error {
	// tcp(7) allows 127 keepalive probes.
	interval := max(1, int((o.Timeout+127*time.Second-1)/(127*time.Second))) // seconds
	errs := []error{
		set("TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		set("TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(o.Timeout.Milliseconds())),
		// Keepalive probes begin after a second of silence, and detect that an idle peer has
		// vanished.
		set("SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		set("TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1),
		set("TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, interval),
		// Data sockets have no TCP_USER_TIMEOUT, which otherwise comes before this count.
		set("TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT,
			max(int(o.Timeout/time.Second)/interval, 1)),
	}
	// TCP doubles the time between retransmissions, up to two minutes. With a tenth of the timeout
	// at most, one falls into the timeout soon after a link has come back. Linux has this since
	// 6.15.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, tcpRTOMax,
		int(min(max(o.Timeout/10, time.Second), 2*time.Minute).Milliseconds()))
	if o.Congestion != "" {
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION,
			o.Congestion); err != nil {
			errs = append(errs, fmt.Errorf("TCP_CONGESTION %s: %w", o.Congestion, err))
		}
	}
	return errors.Join(errs...)
}

const tcpRTOMax = 44 // TCP_RTO_MAX_MS of linux/tcp.h

// ToKernel converts an address to the kernel's form.
func ToKernel(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// fromKernel converts an address from the kernel's form.
func fromKernel(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// PortOf returns the port of an address; 0 for Unix sockets.
func PortOf(a unix.Sockaddr) uint32 {
	if a, ok := a.(*unix.SockaddrVM); ok {
		return a.Port
	}
	return uint32(fromKernel(a).Port())
}

// LocalPort returns the local port of a socket that listens or was dialled.
func LocalPort(fd int) (uint16, error) {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("getsockname: %w", err)
	}
	return fromKernel(own).Port(), nil
}

// Listen makes a listening TCP socket on a port, or on one that the kernel chooses if port
// is 0.
func (o *Options) Listen(port uint16) (fd int, at netip.AddrPort, err error) {
	fd, own, err := o.ListenAt(ToKernel(netip.AddrPortFrom(o.Address, port)))
	if err != nil {
		return -1, at, err
	}
	return fd, netip.AddrPortFrom(o.Address, fromKernel(own).Port()), nil
}

// ListenAt makes a listening socket at an address of any family, and returns the address that the
// kernel gave it.
func (o *Options) ListenAt(at unix.Sockaddr) (fd int, own unix.Sockaddr, err error) {
	if fd, err = o.newSocket(at); err != nil {
		return -1, nil, err
	}
	if isTCP(at) { // connections of an earlier run may linger on the port
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			err = fmt.Errorf("SO_REUSEADDR: %w", err)
		}
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err == nil {
		own, err = unix.Getsockname(fd)
	}
	if err != nil {
		return -1, nil, errors.Join(err, unix.Close(fd))
	}
	return fd, own, nil
}

// Dial begins to connect over TCP; [Established] reports when that is done.
func (o *Options) Dial(to netip.AddrPort) (int, error) {
	fd, err := o.DialTo(ToKernel(to))
	if err != nil {
		return -1, fmt.Errorf("connect to %s: %w", to, err)
	}
	return fd, nil
}

// DialTo is [Options.Dial] to an address of any family. Its error is the kernel's.
func (o *Options) DialTo(to unix.Sockaddr) (int, error) {
	fd, err := o.newSocket(to)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, to); err != nil && err != unix.EINPROGRESS {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// Established reports whether a dialled socket is connected.
func Established(fd int) (bool, error) {
	failure, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return false, fmt.Errorf("SO_ERROR: %w", err)
	case failure != 0:
		return false, fmt.Errorf("connect: %w", unix.Errno(failure))
	}
	_, err = unix.Getpeername(fd)
	if err == unix.ENOTCONN {
		return false, nil
	}
	return err == nil, err
}

// Accept takes the next connection over TCP and returns its remote address. fd is -1 if none is
// waiting.
func (o *Options) Accept(listener int) (fd int, from netip.AddrPort, err error) {
	fd, a, err := o.AcceptFrom(listener)
	return fd, fromKernel(a), err
}

// AcceptFrom is [Options.Accept] for a listener of any family.
func (o *Options) AcceptFrom(listener int) (fd int, from unix.Sockaddr, err error) {
	fd, from, err = unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch {
	case err == nil:
		if err = o.apply(fd, from); err != nil {
			return -1, nil, errors.Join(err, unix.Close(fd))
		}
		return fd, from, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR),
		errors.Is(err, unix.ECONNABORTED):
		return -1, nil, nil
	default:
		return -1, nil, fmt.Errorf("accept: %w", err)
	}
}

// Pairs makes n connections between two sockets of this process.
func (o *Options) Pairs(n int) (near, far []int, err error) {
	listener, at, err := o.Listen(0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err = errors.Join(err, unix.Close(listener)); err != nil {
			err = errors.Join(err, CloseAll(near), CloseAll(far))
		}
	}()
	for range n {
		fd, err := o.Dial(at)
		if err != nil {
			return near, far, err
		}
		near = append(near, fd)
		for fd = -1; fd < 0; {
			poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, int(o.Timeout.Milliseconds())); err != nil &&
				err != unix.EINTR {
				return near, far, fmt.Errorf("poll: %w", err)
			}
			if fd, _, err = o.Accept(listener); err != nil {
				return near, far, err
			}
		}
		far = append(far, fd)
	}
	return near, far, nil
}

// CloseAll closes sockets.
func CloseAll(sockets []int) error {
	var errs []error
	for _, fd := range sockets {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// Retransmits returns how many segments TCP has retransmitted on a socket; 0 if it is closed.
func Retransmits(fd int) uint64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return uint64(info.Total_retrans)
}

// Silence returns the time since the last packet on a socket; 0 if the kernel does not report it.
func Silence(fd int) time.Duration {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(min(info.Last_data_recv, info.Last_ack_recv)) * time.Millisecond
}

// Peek returns [ErrClosed] or another error if a socket has ended. Bytes that wait to
// be read stay.
func Peek(fd int) error {
	var b [1]byte
	return peeked(receiveFlags(fd, b[:], unix.MSG_PEEK))
}

// Ended reports whether either direction of a socket has ended, even if bytes wait to be read.
func Ended(fd int) bool {
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(list, 0)
	return err == nil && n > 0
}

func peeked(_ int, err error) error {
	if errors.Is(err, ErrInDmabuf) { // a data socket has bytes, which this call cannot read
		return nil
	}
	return err
}
