package floor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// StreamPort probes TCP or Unix sockets for transports that cannot lend a socket, such as those
// over a library: it makes a socket for each probe. A port belongs to one thread.
type StreamPort struct {
	options  sock.Options
	acceptor sock.Acceptor
	address  streamAddress
	// the newest accepted socket, by the nonce of the port that dialled
	waiting map[uint64]int
	closed  bool
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
	// A hello has the nonces of the port that is dialled and of the one that dials, and the
	// socket's port, which is 0 for Unix sockets.
	helloSize = 24
	// streamSilence bounds the wait for a whole hello, and for an answer of a peer's host.
	streamSilence = 10 * time.Second
)

// ListenStream returns a port at an address of this host.
func ListenStream(at netip.Addr) (*StreamPort, error) {
	return listenStream(streamAddress{At: netip.AddrPortFrom(at, 0)})
}

// ListenUnixStream returns a port of Unix sockets. Its name is abstract: there is no file.
func ListenUnixStream() (*StreamPort, error) {
	return listenStream(streamAddress{Unix: fmt.Sprintf("@transportbench-floor-%016x",
		control.NewNonce())})
}

func listenStream(at streamAddress) (*StreamPort, error) {
	p := &StreamPort{options: sock.Options{Timeout: streamSilence}, address: at,
		waiting: map[uint64]int{}}
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

// Probe implements [transport.Prober.Probe] with the port at this address.
func (p *StreamPort) Probe(ctx context.Context, address []byte,
	probe transport.Probe) (transport.Floor, error) {
	var peer streamAddress
	if err := peer.decode(address); err != nil {
		return transport.Floor{}, err
	}
	if p.closed {
		return transport.Floor{}, transport.ErrClosed
	}
	if (peer.Unix == "") != (p.address.Unix == "") {
		return transport.Floor{},
			errors.New("the port for probes of the peer has another kind of socket")
	}
	return ProbeSockets(ctx, probe,
		func() (int, []byte, error) { return p.dial(ctx, peer) },
		func() (int, error) { return p.accept(peer.Nonce) })
}

// dial begins to connect a socket to the port of a peer, and returns the hello to send on it.
func (p *StreamPort) dial(ctx context.Context, peer streamAddress) (fd int, hello []byte,
	err error) {
	// EAGAIN: strangers have filled the queue of a Unix socket, which the peer empties once it
	// waits.
	err = whileIdle(ctx, func() (bool, error) {
		fd, err = p.options.DialTo(peer.socketAddress())
		if errors.Is(err, unix.EAGAIN) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return -1, nil, fmt.Errorf("connecting to %s for a probe: %w", peer.name(), err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return -1, nil, errors.Join(fmt.Errorf("connecting to %s for a probe: getsockname: %w",
			peer.name(), err), unix.Close(fd))
	}
	for _, v := range []uint64{peer.Nonce, p.address.Nonce, uint64(sock.PortOf(own))} {
		hello = binary.LittleEndian.AppendUint64(hello, v)
	}
	return fd, hello, nil
}

// accept returns the newest socket that the port with this nonce has dialled, or -1.
func (p *StreamPort) accept(from uint64) (int, error) {
	if err := p.acceptor.Accept(p.decide); err != nil {
		return -1, err
	}
	fd, ok := p.waiting[from]
	if !ok {
		return -1, nil
	}
	delete(p.waiting, from)
	return fd, nil
}

// decide keeps a connection with a hello for this port that comes from the port that it names.
func (p *StreamPort) decide(a *sock.Arrival) sock.Verdict {
	to, from, port := binary.LittleEndian.Uint64(a.Hello), binary.LittleEndian.Uint64(a.Hello[8:]),
		binary.LittleEndian.Uint64(a.Hello[16:])
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
