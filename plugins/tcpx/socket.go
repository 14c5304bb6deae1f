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

// addrPort is an address in the kernel's form as Go has it.
func addrPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// ownPort is the port of a socket that listens or was dialled.
func ownPort(fd int) (uint16, error) {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("getsockname: %w", err)
	}
	return addrPort(own).Port(), nil
}

// listen makes a listening socket on a port, or for 0 on one that the kernel chooses.
func (s *settings) listen(port uint16) (fd int, at netip.AddrPort, err error) {
	if fd, err = s.newSocket(); err != nil {
		return -1, at, err
	}
	// Connections of an earlier run may linger on the port.
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		err = fmt.Errorf("SO_REUSEADDR: %w", err)
	} else if err = unix.Bind(fd, socketAddress(netip.AddrPortFrom(s.address, port))); err != nil {
		err = s.cannotListen(port, err)
	} else if err = unix.Listen(fd, unix.SOMAXCONN); err != nil {
		err = s.cannotListen(port, err)
	} else {
		port, err = ownPort(fd)
	}
	if err != nil {
		return -1, at, errors.Join(err, unix.Close(fd))
	}
	return fd, netip.AddrPortFrom(s.address, port), nil
}

func (s *settings) cannotListen(port uint16, err error) error {
	switch {
	case port != 0 && errors.Is(err, unix.EADDRINUSE):
		return refuse("data-port", "port %d of %s is taken (`ss -tanp sport = %d` shows by whom); use another one, or 0 for any, which ranks that share an address need", port, s.address, port)
	case port != 0 && errors.Is(err, unix.EACCES):
		return refuse("data-port", "port %d is for privileged processes; use one from 1024 on", port)
	default:
		return refuse("address", "this host cannot listen on %s: %v", s.address, err)
	}
}

// dataPortOf is the port of a worker's data sockets, or 0 for any.
func (s *settings) dataPortOf(worker int) uint16 {
	if s.dataPort == 0 {
		return 0
	}
	return uint16(s.dataPort + worker)
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

// established says whether a socket that was dialled is connected by now.
func established(fd int) (bool, error) {
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

// accept takes the next connection and where it comes from. fd is -1 where there is none.
func (s *settings) accept(listener int) (fd int, from netip.AddrPort, err error) {
	fd, a, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch {
	case err == nil:
		if err = s.prepare(fd); err != nil {
			return -1, from, errors.Join(err, unix.Close(fd))
		}
		return fd, addrPort(a), nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		return -1, from, nil
	default:
		return -1, from, fmt.Errorf("accept: %w", err)
	}
}
