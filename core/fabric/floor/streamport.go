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
	"time"

	"golang.org/x/sys/unix"

	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/sock"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// StreamPort probes TCP, or Unix sockets, for transports over it that have no sockets to lend, such as those over a
// library: each probe has a socket of its own. A port belongs to one thread.
type StreamPort struct {
	options  sock.Options
	acceptor sock.Acceptor
	address  streamAddress
	waiting  map[uint64]int // accepted sockets, by the nonce of the port that dialled; the newest of each
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
	return sock.ToKernel(a.At)
}

func (a *streamAddress) name() string {
	if a.Unix != "" {
		return a.Unix
	}
	return a.At.String()
}

func (a *streamAddress) decode(b []byte) error {
	if err := json.Unmarshal(b, a); err != nil || a.At.IsValid() == strings.HasPrefix(a.Unix, "@") {
		return errors.New("not the address of a port for probes")
	}
	return nil
}

const (
	// A hello has the nonces of the port that is dialled and of the one that dials, and the socket's port,
	// which is 0 for Unix sockets.
	helloSize = 24
	// streamSilence is how long a connection may be without a whole hello, or a peer's host without an answer.
	streamSilence = 10 * time.Second
)

// ListenStream returns a port at an address of this host.
func ListenStream(at netip.Addr) (*StreamPort, error) {
	return listenStream(streamAddress{At: netip.AddrPortFrom(at, 0)})
}

// ListenUnixStream returns a port of Unix sockets. Its name is abstract: there is no file.
func ListenUnixStream() (*StreamPort, error) {
	return listenStream(streamAddress{Unix: fmt.Sprintf("@transportbench-floor-%016x", control.NewNonce())})
}

func listenStream(at streamAddress) (*StreamPort, error) {
	p := &StreamPort{options: sock.Options{Timeout: streamSilence}, address: at, waiting: map[uint64]int{}}
	fd, own, err := p.options.ListenAt(at.socketAddress())
	if err != nil {
		return nil, fmt.Errorf("listening for probes at %s: %w", at.name(), err)
	}
	if at.Unix == "" {
		p.address.At = netip.AddrPortFrom(at.At.Addr(), uint16(sock.PortOf(own)))
	}
	p.address.Nonce = control.NewNonce()
	p.acceptor = sock.NewAcceptor(fd, &p.options, helloSize, 1)
	return p, nil
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
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	to := peer.socketAddress()
	fd, err := p.options.DialTo(to)
	// EAGAIN: strangers have filled the queue of a Unix socket, which the peer empties once it waits.
	for wait := (spin.Wait{}); errors.Is(err, unix.EAGAIN) && !stopped.Load(); wait.IdleCall() {
		fd, err = p.options.DialTo(to)
	}
	if errors.Is(err, unix.EAGAIN) {
		return f, context.Cause(ctx)
	}
	if err != nil {
		return f, fmt.Errorf("connecting to %s for a probe: %w", peer.name(), err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	own, err := unix.Getsockname(fd)
	if err != nil {
		return f, fmt.Errorf("connecting to %s for a probe: getsockname: %w", peer.name(), err)
	}
	hello := make([]byte, 0, helloSize)
	for _, v := range []uint64{peer.Nonce, p.address.Nonce, uint64(sock.PortOf(own))} {
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
		if err := p.acceptor.Accept(p.decide); err != nil {
			return -1, err
		}
		if fd, ok := p.waiting[from]; ok {
			delete(p.waiting, from)
			return fd, nil
		}
	}
	return -1, context.Cause(ctx)
}

// decide keeps a connection with a hello for this port that comes from the port that it names.
func (p *StreamPort) decide(a *sock.Arrival) sock.Verdict {
	to, from, port := binary.LittleEndian.Uint64(a.Hello), binary.LittleEndian.Uint64(a.Hello[8:]), binary.LittleEndian.Uint64(a.Hello[16:])
	if to != p.address.Nonce || port != uint64(sock.PortOf(a.From)) {
		return sock.Stranger
	}
	if old, ok := p.waiting[from]; ok {
		_ = unix.Close(old)
	}
	p.waiting[from] = a.FD
	return sock.Taken
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
	return p.acceptor.Close()
}
