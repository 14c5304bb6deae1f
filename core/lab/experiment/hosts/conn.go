package hosts

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// joinTimeout bounds the handshake and the messages of joining.
	joinTimeout = 10 * time.Second
	// DefaultTimeout is how long a host may be silent, unless the user says otherwise.
	DefaultTimeout = 10 * time.Second
	// MinTimeout is the shortest such time.
	MinTimeout = 5 * time.Second
	// MaxTimeout is the longest such time.
	MaxTimeout = time.Hour
	// keepaliveProbes are sent in the last three fifths of that time.
	keepaliveProbes = 3
)

// watchPeer has the kernel end a connection whose other end is silent for timeout, whether data is
// on its way to it or not.
func watchPeer(conn net.Conn, timeout time.Duration) error {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil // in tests
	}
	err := c.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: 2 * timeout / 5, Interval: timeout / 5, Count: keepaliveProbes,
	})
	if err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(timeout/time.Millisecond))
	})
	if err != nil {
		return err
	}
	return set
}

// awaitEnd waits until the other end of conn has ended or is silent for its timeout, and returns
// why. It returns nil once conn's read deadline has passed, or conn is closed. It reads nothing.
func awaitEnd(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var ended error
	err = raw.Read(func(fd uintptr) bool { // is called again whenever something has changed
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(state, 0); n == 0 || err != nil {
			return false
		}
		ended = errors.New("its agent ended")
		if code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); err == nil &&
			unix.Errno(code) == unix.ETIMEDOUT {
			ended = errors.New("it does not answer")
		}
		return true
	})
	if err != nil {
		return nil //nolint:nilerr // the deadline, or closed here
	}
	return ended
}

// handshake completes the TLS handshake. It and the messages that follow may take timeout in all.
func handshake(raw net.Conn, wrap func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config,
	timeout time.Duration) (*tls.Conn, error) {
	if err := watchPeer(raw, DefaultTimeout); err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	conn := wrap(raw, config)
	return conn, conn.Handshake()
}
