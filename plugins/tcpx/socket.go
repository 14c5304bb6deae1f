package tcpx

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// tryCongestion says whether the kernel takes a congestion control.
func tryCongestion(control string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return errors.Join(unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, control), unix.Close(fd))
}

// newSocket makes a nonblocking TCP socket with the settings of all of them.
func (s *settings) newSocket() (int, error) {
	family := unix.AF_INET
	if s.address.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := s.prepare(fd); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// prepare puts the settings into a socket. Those that it was made by an accept get
// the most of them from the listener, but not all kernels do that for all of them.
func (s *settings) prepare(fd int) error {
	set := func(what string, level, option, value int) error {
		if err := unix.SetsockoptInt(fd, level, option, value); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	errs := []error{
		set("TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		set("TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(s.timeout.Milliseconds())),
		// A peer that vanishes without a word while there is nothing to send shows in
		// probes only, which begin after a second of silence.
		set("SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		set("TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1),
		set("TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1),
	}
	if s.congestion != "" {
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, s.congestion); err != nil {
			errs = append(errs, fmt.Errorf("TCP_CONGESTION %s: %w", s.congestion, err))
		}
	}
	if s.socketBuffer > 0 {
		errs = append(errs, set("SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, s.socketBuffer),
			set("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, s.socketBuffer))
	}
	return errors.Join(errs...)
}

// zeroCopyFor says whether connections to an address send with MSG_ZEROCOPY.
func (s *settings) zeroCopyFor(to netip.Addr) bool {
	return s.zeroCopy == zeroCopyOn || s.zeroCopy == zeroCopyAuto && !to.IsLoopback()
}

// checkLocked refuses zero-copy where the memory that a worker's connections may
// have under way is more than the process may lock. The kernel holds whoever has
// CAP_IPC_LOCK to no limit.
func (s *settings) checkLocked(workers int, limit uint64, unlimited bool) error {
	need := uint64(workers) * uint64(s.peers) * uint64(s.sendWindow) * uint64(s.request)
	if s.zeroCopy == zeroCopyOff || unlimited || need <= limit {
		return nil
	}
	return refuse("zero-copy", "%d bytes of requests may be under way, and the process may lock %d; raise `ulimit -l`, or lower send-window or request",
		need, limit)
}

// lockable is how much memory the process may lock.
func lockable() (limit uint64, unlimited bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil || r.Cur == unix.RLIM_INFINITY {
		return 0, true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 {
		return 0, true
	}
	return r.Cur, false
}

// socketAddress is an address in the kernel's form.
func socketAddress(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// listen makes a listening socket on a port that the kernel chooses.
func (s *settings) listen() (fd int, at netip.AddrPort, err error) {
	if fd, err = s.newSocket(); err != nil {
		return -1, at, err
	}
	if err = unix.Bind(fd, socketAddress(netip.AddrPortFrom(s.address, 0))); err != nil {
		err = refuse("address", "this host cannot listen on %s: %v", s.address, err)
	} else if err = unix.Listen(fd, unix.SOMAXCONN); err != nil {
		err = fmt.Errorf("listen: %w", err)
	}
	if err != nil {
		return -1, at, errors.Join(err, unix.Close(fd))
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return -1, at, errors.Join(fmt.Errorf("getsockname: %w", err), unix.Close(fd))
	}
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		at = netip.AddrPortFrom(s.address, uint16(own.Port))
	case *unix.SockaddrInet6:
		at = netip.AddrPortFrom(s.address, uint16(own.Port))
	}
	return fd, at, nil
}

// dial begins to connect.
func (s *settings) dial(to netip.AddrPort) (int, error) {
	fd, err := s.newSocket()
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, socketAddress(to)); err != nil && err != unix.EINPROGRESS {
		return -1, errors.Join(fmt.Errorf("connect to %s: %w", to, err), unix.Close(fd))
	}
	return fd, nil
}

// accept takes the next connection, or none.
func (s *settings) accept(listener int) (fd int, ok bool, err error) {
	fd, _, err = unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch {
	case err == nil:
		if err = s.prepare(fd); err != nil {
			return -1, false, errors.Join(err, unix.Close(fd))
		}
		return fd, true, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		return -1, false, nil
	default:
		return -1, false, fmt.Errorf("accept: %w", err)
	}
}
