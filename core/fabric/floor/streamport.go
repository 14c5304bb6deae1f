package floor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// StreamPort probes TCP, or Unix sockets, for transports over it that have no sockets to lend, such as those over a
// library: each probe has a socket of its own. A port belongs to one thread.
type StreamPort struct {
	listener int
	address  streamAddress
	waiting  map[uint64]int // accepted sockets, by the nonce of the port that dialled; the newest of each
	strange  []strangeSocket
	closed   bool
}

// streamAddress is the content of Address.
type streamAddress struct {
	At    netip.AddrPort `json:"at,omitzero"`    // of TCP
	Unix  string         `json:"unix,omitempty"` // an abstract name
	Nonce uint64         `json:"nonce"`
}

func (a *streamAddress) socketAddress() unix.Sockaddr {
	if a.Unix != "" {
		return &unix.SockaddrUnix{Name: a.Unix}
	}
	return socketAddress(a.At)
}

func (a *streamAddress) name() string {
	if a.Unix != "" {
		return a.Unix
	}
	return a.At.String()
}

func (a *streamAddress) noDelay(fd int) error {
	if a.Unix != "" {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func (a *streamAddress) decode(b []byte) error {
	if err := json.Unmarshal(b, a); err != nil || a.At.IsValid() == strings.HasPrefix(a.Unix, "@") {
		return errors.New("not the address of a port for probes")
	}
	return nil
}

// strangeSocket is an accepted socket that has not said who it is.
type strangeSocket struct {
	fd    int
	port  uint64 // that it comes from
	hello []byte
}

const (
	// A hello has the nonces of the port that is dialled and of the one that dials, and the socket's port, so
	// that nobody else can use the hello again; 0 for Unix sockets.
	helloSize = 24
	// maxStrange bounds the sockets that have not said who they are; the oldest is closed.
	maxStrange = 64
)

// ListenStream returns a port at an address of this host.
func ListenStream(at netip.Addr) (*StreamPort, error) {
	fd, err := newStreamSocket(at)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(fd, socketAddress(netip.AddrPortFrom(at, 0)))
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	var own unix.Sockaddr
	if err == nil {
		own, err = unix.Getsockname(fd)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening for probes at %v: %w", at, err), unix.Close(fd))
	}
	return &StreamPort{
		listener: fd, waiting: map[uint64]int{},
		address: streamAddress{At: netip.AddrPortFrom(at, uint16(portOf(own))), Nonce: control.NewNonce()},
	}, nil
}

// ListenUnixStream returns a port of Unix sockets. Its name is abstract: there is no file.
func ListenUnixStream() (*StreamPort, error) {
	fd, err := newStreamSocket(netip.Addr{})
	if err != nil {
		return nil, err
	}
	a := streamAddress{Unix: fmt.Sprintf("@transportbench-floor-%016x", control.NewNonce()), Nonce: control.NewNonce()}
	if err = unix.Bind(fd, a.socketAddress()); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening for probes at %s: %w", a.Unix, err), unix.Close(fd))
	}
	return &StreamPort{listener: fd, waiting: map[uint64]int{}, address: a}, nil
}

// Address returns what the Probe of another port needs to reach this one.
func (p *StreamPort) Address() []byte {
	b, _ := json.Marshal(p.address) // cannot fail
	return b
}

// Probe is that of [transport.Prober] with the port of this address.
func (p *StreamPort) Probe(ctx context.Context, address []byte, probe transport.Probe) (transport.Floor, error) {
	if probe.Kind != transport.ProbeMedium && probe.Kind != transport.ProbeRate {
		return transport.Floor{}, transport.ErrUnsupported
	}
	var peer streamAddress
	if err := peer.decode(address); err != nil {
		return transport.Floor{}, err
	}
	if p.closed {
		return transport.Floor{}, transport.ErrClosed
	}
	if probe.Initiate {
		return p.lead(ctx, peer, probe)
	}
	// If the initiator gave an earlier probe up, its socket has ended, and there will be another.
	for {
		fd, err := p.wait(ctx, peer.Nonce)
		if err != nil {
			return transport.Floor{}, err
		}
		f, err := ProbeStream(ctx, fd, probe)
		_ = unix.Close(fd)
		if !errors.Is(err, ErrStreamEnded) && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			return f, err
		}
	}
}

func (p *StreamPort) lead(ctx context.Context, peer streamAddress, probe transport.Probe) (f transport.Floor, err error) {
	if (peer.Unix == "") != (p.address.Unix == "") {
		return f, errors.New("the port for probes of the peer has another kind of socket")
	}
	fd, err := newStreamSocket(peer.At.Addr())
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	err = unix.Connect(fd, peer.socketAddress())
	// EAGAIN: strangers have filled the queue of a Unix socket, which the peer empties once it waits.
	for wait := (spin.Wait{}); err == unix.EAGAIN && !stopped.Load(); wait.IdleCall() {
		err = unix.Connect(fd, peer.socketAddress())
	}
	if err == unix.EAGAIN {
		return f, context.Cause(ctx)
	}
	if err != nil && err != unix.EINPROGRESS {
		return f, fmt.Errorf("connecting to %s for a probe: %w", peer.name(), err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return f, fmt.Errorf("connecting to %s for a probe: getsockname: %w", peer.name(), err)
	}
	hello := make([]byte, 0, helloSize)
	for _, v := range []uint64{peer.Nonce, p.address.Nonce, portOf(own)} {
		hello = binary.LittleEndian.AppendUint64(hello, v)
	}
	for wait := (spin.Wait{}); len(hello) > 0; wait.IdleCall() {
		n, err := streamSend(fd, hello)
		if err != nil {
			return f, fmt.Errorf("connecting to %s for a probe: %w", peer.name(), err)
		}
		if hello = hello[n:]; stopped.Load() {
			return f, context.Cause(ctx)
		}
	}
	return ProbeStream(ctx, fd, probe)
}

// wait returns the newest socket that the port with this nonce has dialled.
func (p *StreamPort) wait(ctx context.Context, from uint64) (int, error) {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	for wait := (spin.Wait{}); !stopped.Load(); wait.IdleCall() {
		if err := p.accept(); err != nil {
			return -1, err
		}
		if fd, ok := p.waiting[from]; ok {
			delete(p.waiting, from)
			return fd, nil
		}
	}
	return -1, context.Cause(ctx)
}

// accept takes what the listener has and reads the hellos that have come.
func (p *StreamPort) accept() error {
	for {
		fd, from, err := unix.Accept4(p.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.EAGAIN || err == unix.EINTR || err == unix.ECONNABORTED {
			break
		}
		if err != nil {
			return fmt.Errorf("accepting a probe: %w", err)
		}
		if err := p.address.noDelay(fd); err != nil {
			return errors.Join(fmt.Errorf("accepting a probe: TCP_NODELAY: %w", err), unix.Close(fd))
		}
		if len(p.strange) == maxStrange {
			_ = unix.Close(p.strange[0].fd)
			p.strange = p.strange[1:]
		}
		p.strange = append(p.strange, strangeSocket{fd: fd, port: portOf(from)})
	}
	kept := p.strange[:0]
	for _, s := range p.strange {
		b := make([]byte, helloSize-len(s.hello))
		n, err := streamReceive(s.fd, b)
		s.hello = append(s.hello, b[:n]...)
		switch {
		case err == nil && len(s.hello) < helloSize:
			kept = append(kept, s)
		case err == nil && binary.LittleEndian.Uint64(s.hello) == p.address.Nonce && binary.LittleEndian.Uint64(s.hello[16:]) == s.port:
			from := binary.LittleEndian.Uint64(s.hello[8:])
			if old, ok := p.waiting[from]; ok {
				_ = unix.Close(old)
			}
			p.waiting[from] = s.fd
		default:
			_ = unix.Close(s.fd)
		}
	}
	p.strange = kept
	return nil
}

// Close closes all sockets. It is idempotent.
func (p *StreamPort) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	for _, fd := range p.waiting {
		_ = unix.Close(fd)
	}
	for _, s := range p.strange {
		_ = unix.Close(s.fd)
	}
	return unix.Close(p.listener)
}

// newStreamSocket returns a socket for this address of TCP, or a Unix socket without one.
func newStreamSocket(a netip.Addr) (int, error) {
	family := unix.AF_INET
	switch {
	case !a.IsValid():
		family = unix.AF_UNIX
	case a.Is6():
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("a socket for probes: %w", err)
	}
	if family == unix.AF_UNIX {
		return fd, nil
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return -1, errors.Join(fmt.Errorf("a socket for probes: TCP_NODELAY: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// portOf returns the port of an address; 0 for Unix sockets.
func portOf(a unix.Sockaddr) uint64 {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return uint64(a.Port)
	case *unix.SockaddrInet6:
		return uint64(a.Port)
	}
	return 0
}

func socketAddress(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
