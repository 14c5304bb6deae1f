package dial

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
)

// State is the state of a connection.
type State uint8

// The states of a connection, in order.
const (
	Connecting State = iota
	Up
	Lost
)

// Link is the part of a transport's peer that a [Connector] manages. Embed it, made with
// [Connector.NewLink].
type Link struct {
	State State
	Nonce Nonce // of the peer
	Dials bool  // this side dials
	Loss  error // why the connection was lost, in state Lost
	// Errors are made here, because the data path does not allocate.
	Errors control.PeerErrors

	config  *Config
	at      string        // the peer's address, for errors
	address unix.Sockaddr // the peer's address
	began   int64
	waited  int64 // time in which the worker polled and the peer was not connected
	dialled bool  // the sockets of the last Dial are open
	dialing []socket
	again   int64 // when to dial anew, because the peer could not be reached; else 0
	failure error // why the peer could not be reached
	probe   int   // a socket on which the peer wants to probe; -1 for none
}

// socket is a dialled socket that is not connected, or has not sent all of its hello.
type socket struct {
	fd    int
	hello []byte // the unsent part
}

// Pending returns l, as [Peer] has it.
func (l *Link) Pending() *Link { return l }

// Began returns when the connection was begun, by [clock.Now].
func (l *Link) Began() int64 { return l.began }

// Waited returns for how long the connection has been waited for. Time in which the worker did not
// poll does not count.
func (l *Link) Waited() time.Duration { return time.Duration(l.waited) }

// Dial begins to connect a socket to an address of the peer. It returns the socket, which the
// caller owns. The sockets of a connection that carry no hello are dialled before the one that
// lists their ports.
func (l *Link) Dial(to unix.Sockaddr) (fd int, err error) {
	if fd, err = l.config.Sockets.DialTo(to); err != nil {
		return -1, l.dialError(err)
	}
	l.dialing = append(l.dialing, socket{fd: fd})
	return fd, nil
}

// DialGreeting begins to connect the socket that carries the hello, which lists ports. It returns
// the socket, which the caller owns.
func (l *Link) DialGreeting(ports []uint16) (fd int, err error) {
	fd, hello, err := l.dial(Messages, ports)
	if err != nil {
		return -1, err
	}
	l.dialing = append(l.dialing, socket{fd: fd, hello: hello})
	return fd, nil
}

// dial begins to connect a socket and returns the hello to send on it.
func (l *Link) dial(use Use, ports []uint16) (fd int, hello []byte, err error) {
	if fd, err = l.config.Sockets.DialTo(l.address); err != nil {
		return -1, nil, l.dialError(err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return -1, nil, errors.Join(fmt.Errorf("getsockname: %w", err), unix.Close(fd))
	}
	h := Hello{To: l.Nonce, From: l.config.Own, Use: use, Port: sock.PortOf(own)}
	copy(h.Ports[:], ports)
	return fd, h.Encode(), nil
}

func (l *Link) dialError(err error) error {
	if explain := l.config.DialError; explain != nil {
		return explain(l.at, err)
	}
	return fmt.Errorf("connect to %s: %w", l.at, err)
}

// greet sends the unsent parts of hellos, and reports whether all sockets are connected and all
// hellos sent. A hello waits for the sockets before it: the peer takes it as the word that all
// which it lists will come.
func (l *Link) greet() (done bool, err error) {
	left := l.dialing[:0]
	for _, s := range l.dialing {
		connected, err := sock.Established(s.fd)
		if err != nil {
			return false, err
		}
		if connected && len(s.hello) > 0 && len(left) == 0 {
			n, err := sock.SendBytes(s.fd, s.hello)
			if err != nil {
				return false, err
			}
			s.hello = s.hello[n:]
		}
		if !connected || len(s.hello) > 0 {
			left = append(left, s)
		}
	}
	l.dialing = left
	return len(left) == 0, nil
}

// silence explains why nothing comes from the peer: it returns why the connection is not up yet,
// for how long no packet has come on a socket that is up, or the loss; nil if packets come.
func (l *Link) silence(fd int) error {
	timeout := l.config.ConnectTimeout
	switch {
	case l.State == Connecting && l.failure != nil:
		return fmt.Errorf("no connection with %s yet (connect-timeout is %v): %w", l.at, timeout,
			l.failure)
	case l.State == Connecting:
		return fmt.Errorf("no connection with %s yet (connect-timeout is %v)", l.at, timeout)
	case l.State == Up && sock.Silence(fd) > 2*time.Second: // else keepalive is answered
		return l.noPacket(fd)
	}
	return l.Loss
}

// noPacket returns for how long no packet has come on a socket.
func (l *Link) noPacket(fd int) error {
	return fmt.Errorf("no packet from %s for %v (timeout is %v)", l.at,
		sock.Silence(fd).Round(10*time.Millisecond), l.config.Sockets.Timeout)
}

// SetLost records why a connection is lost. fd is its socket, or -1 if it was not up.
func (l *Link) SetLost(err error, fd int) {
	if fd >= 0 && control.Unreachable(err) {
		err = fmt.Errorf("%w: %w", l.noPacket(fd), err)
	}
	l.State, l.Loss = Lost, err
}

// Stop forgets the sockets that were dialled, and closes that of a probe.
func (l *Link) Stop() {
	l.dialing = nil
	l.dropProbe()
}

// dropProbe closes the socket of a probe.
func (l *Link) dropProbe() {
	if l.probe >= 0 {
		_ = unix.Close(l.probe)
		l.probe = -1
	}
}
