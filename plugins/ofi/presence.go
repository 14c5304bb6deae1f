package ofi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
	"transportbench/plugins/ofi/internal/fi"
)

// A presence is a listening socket with connections from the peers. When the process dies, the
// kernel closes the connections, which tells the peers that the worker is gone. Peers send only a
// hello. The socket is a Unix socket with an abstract name if all peers are on this host, else a
// TCP socket.
type presence struct {
	address  string // "@name" or "192.0.2.1:5000"
	nonce    uint64
	options  sock.Options
	acceptor sock.Acceptor
	held     []int // connections of peers
	peers    int
	stop     int // an eventfd
	done     chan struct{}
}

// helloSize is the length of a hello: the nonce of the dialled worker, and the sender's port, which
// prevents a replay from another port; 0 for Unix sockets.
const helloSize = 16

func hello(nonce uint64, from unix.Sockaddr) []byte {
	b := binary.LittleEndian.AppendUint64(nil, nonce)
	return binary.LittleEndian.AppendUint64(b, uint64(sock.PortOf(from)))
}

// newPresence listens at an IP address, or on this host alone if the address is not valid, for a
// number of peers. It accepts hellos with this nonce.
func newPresence(at netip.Addr, nonce uint64, peers int, silence time.Duration) (_ *presence,
	err error) {
	// All processes can read the name, so it must not reveal the worker's nonce.
	p := &presence{address: "@transportbench-ofi-" + rand.Text(), nonce: nonce, peers: peers,
		done:    make(chan struct{}),
		options: sock.Options{Address: at, Timeout: silence}}
	var bound unix.Sockaddr = &unix.SockaddrUnix{Name: p.address}
	if at.IsValid() {
		bound = sock.ToKernel(netip.AddrPortFrom(at, 0))
	}
	fd, bound, err := p.options.ListenAt(bound)
	if err != nil {
		return nil, fmt.Errorf("listening for the loss of peers at %s: %w", p.address, err)
	}
	if at.IsValid() {
		p.address = netip.AddrPortFrom(at, uint16(sock.PortOf(bound))).String()
	}
	if p.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), unix.Close(fd))
	}
	p.acceptor = sock.NewAcceptor(fd, &p.options, helloSize, peers)
	go p.run()
	return p, nil
}

// run accepts connections until close. It sleeps after each round, so that strangers cost little
// processor time.
func (p *presence) run() {
	defer close(p.done)
	var list []unix.PollFd
	for {
		list = p.acceptor.Interests(append(list[:0],
			unix.PollFd{Fd: int32(p.stop), Events: unix.POLLIN}))
		// then Accept drops those that say nothing
		_, _ = unix.Poll(list, int(p.options.Timeout.Milliseconds()))
		if list[0].Revents != 0 {
			return
		}
		_ = p.acceptor.Accept(p.decide) // fails only for device memory
		time.Sleep(time.Millisecond)
	}
}

// decide accepts a connection with the right hello.
func (p *presence) decide(a *sock.Arrival) sock.Verdict {
	if !bytes.Equal(a.Hello, hello(p.nonce, a.From)) {
		return sock.Stranger
	}
	if len(p.held) >= p.peers {
		p.held = slices.DeleteFunc(p.held, func(fd int) bool {
			return sock.Peek(fd) != nil &&
				unix.Close(fd) == nil
		})
	}
	if len(p.held) >= p.peers {
		return sock.Close
	}
	p.held = append(p.held, a.FD)
	return sock.Taken
}

// close ends the presence. It is idempotent, and does nothing to nil.
func (p *presence) close() error {
	if p == nil || p.address == "" {
		return nil
	}
	p.address = ""
	_, _ = unix.Write(p.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-p.done
	return errors.Join(p.acceptor.Close(), sock.CloseAll(p.held), unix.Close(p.stop))
}

// dialPresence connects to the presence of the worker with this nonce, and returns the socket.
func dialPresence(ctx context.Context, address string, nonce uint64, silence time.Duration) (fd int,
	err error) {
	to := unix.Sockaddr(&unix.SockaddrUnix{Name: address})
	if address == "" || address[0] != '@' {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return -1, fmt.Errorf("the address for the loss of the peer: %w", err)
		}
		to = sock.ToKernel(at)
	}
	options := sock.Options{Timeout: silence}
	for {
		err = control.WhileUnreachable(ctx, func() (err error) {
			fd, err = options.DialTo(to)
			return err
		})
		// Strangers may have filled the queue of a Unix socket, which the peer empties.
		if !errors.Is(err, unix.EAGAIN) || !sleep(ctx) {
			break
		}
	}
	if err != nil {
		return -1, fmt.Errorf("connecting to %s for the loss of the peer: %w", address, err)
	}
	for {
		// The watcher reports a connection that fails.
		connected, err := sock.Established(fd)
		if err != nil || !connected && !sleep(ctx) {
			return fd, nil
		}
		if connected {
			break
		}
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return -1, errors.Join(fmt.Errorf("getsockname: %w", err), unix.Close(fd))
	}
	_, _ = sock.SendBytes(fd, hello(nonce, own)) // fits; the watcher reports a lost connection
	return fd, nil
}

// sleep waits briefly; it returns false if ctx ends first.
func sleep(ctx context.Context) bool {
	select {
	case <-time.After(time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// addressOf returns the IP address of an interface of libfabric, or an invalid one if the interface
// has another kind of address.
func addressOf(f *fi.Interface) netip.Addr { return hostOf(f.Format, f.Address).Addr() }

// hostOf returns the IP address and the port in one of libfabric's addresses, if it has them.
func hostOf(format int, address []byte) netip.AddrPort {
	switch {
	case format == fi.FormatInet && len(address) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(address[4:8])),
			binary.BigEndian.Uint16(address[2:]))
	case format == fi.FormatInet6 && len(address) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(address[8:24])),
			binary.BigEndian.Uint16(address[2:]))
	}
	return netip.AddrPort{}
}

// hostAddress returns an IP address of this host for peers on other hosts, for providers that use
// other kinds of addresses.
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
