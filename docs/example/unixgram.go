package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// driver opens the transport.
type driver struct{}

// Info implements [transport.Driver].
func (driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: version,
		Summary:      "Unix datagram sockets between processes of one host",
		Choose:       "to see how a transport is written",
		Groups:       []transport.Group{transport.GroupSockets},
		Providers:    []string{"socket"},
		Capabilities: capabilities,
		Limits:       limits(),
		Options:      schema,
	}
}

// Open implements [transport.Driver].
func (driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	l := limits()
	return &endpoint{
		limits:  l,
		batch:   cfg.Options.Int("batch"),
		early:   cfg.Peers * min(cfg.InFlight, l.InFlight),
		workers: control.NewWorkers[worker](name, cfg.Workers),
	}, nil
}

// endpoint is the transport of one process.
type endpoint struct {
	limits  transport.Limits
	batch   int // maximum number of datagrams of one Poll
	early   int // maximum number of datagrams kept for peers that are not connected yet
	workers *control.Workers[worker]
}

func (e *endpoint) Properties() transport.Properties {
	return transport.Properties{Provider: "socket", Capabilities: capabilities, Limits: e.limits,
		Integrity: "none"}
}

func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	return e.workers.New(index, func() (*worker, error) { return newWorker(e) })
}

func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		return control.Each(workers, (*worker).Close)
	})
}

// worker is the socket of one thread and its connections. unixgram_datapath.go has the methods
// that the measured loop calls.
type worker struct {
	endpoint *endpoint
	address  []byte
	socket   int // receives from all peers, and sends
	checker  int // a second socket, which checks whether peers live

	peers control.Peers[peer, uint64] // by PeerID, and by the nonce in their datagrams
	lost  control.LostPeers

	out     []byte   // the datagram that is being sent
	in      [][]byte // one buffer for each event of a Poll
	early   [][]byte // datagrams of senders that are not connected
	claimed [][]byte // early datagrams whose sender is connected now

	empty  int // polls that found nothing since a peer was checked
	next   int // the peer to check
	closed bool
}

// peer is one connection.
type peer struct {
	id       transport.PeerID
	name     unix.SockaddrUnix
	errs     control.PeerErrors // made here, because the data path does not allocate
	pings    floor.PingPong
	inFlight int // calls without a response
	lost     bool
}

// An address is a nonce and the abstract name of a socket. Both are random. The name is thus never
// used twice. The nonce proves who sent a datagram; the name cannot, because all processes can read
// it in /proc/net/unix.
const (
	nonceSize  = 8
	namePrefix = "@transportbench-unixgram-"
)

func newWorker(e *endpoint) (*worker, error) {
	w := &worker{
		endpoint: e,
		address:  make([]byte, nonceSize),
		lost:     control.NewLostPeers(maxPeers),
		out:      make([]byte, headerSize+maxPayload),
		in:       make([][]byte, e.batch),
	}
	rand.Read(w.address) // never fails
	w.peers = control.NewPeers[peer](maxPeers, binary.LittleEndian.Uint64(w.address))
	copy(w.out[senderAt:], w.address)
	w.address = append(w.address, namePrefix+rand.Text()...)
	for i := range w.in {
		// one byte more shows that a datagram is too long
		w.in[i] = make([]byte, headerSize+maxPayload+1)
	}
	const kind = unix.SOCK_DGRAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	var err error
	if w.socket, err = unix.Socket(unix.AF_UNIX, kind, 0); err != nil {
		return nil, transport.Unavailable("socket: %w", err)
	}
	if w.checker, err = unix.Socket(unix.AF_UNIX, kind, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), unix.Close(w.socket))
	}
	if err := unix.Bind(w.socket, &unix.SockaddrUnix{
		Name: string(w.address[nonceSize:])}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind: %w", err), w.Close())
	}
	return w, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	return name.PeerError("connect", id, w.connect(id, address))
}

func (w *worker) connect(id transport.PeerID, address []byte) error {
	if w.closed {
		return transport.ErrClosed
	}
	if len(address) < nonceSize || !strings.HasPrefix(string(address[nonceSize:]), namePrefix) {
		return errors.New("not an address of this transport")
	}
	nonce := binary.LittleEndian.Uint64(address)
	if err := errors.Join(w.peers.CheckID(id), w.peers.CheckNonce(nonce)); err != nil {
		return err
	}
	p := &peer{id: id, name: unix.SockaddrUnix{Name: string(address[nonceSize:])},
		errs: name.PeerErrors(id)}
	p.pings = newPings()
	if err := unix.Connect(w.checker, &p.name); err != nil {
		return fmt.Errorf("%w: its socket is closed, or in another network namespace: %w",
			transport.ErrPeerDown, err)
	}
	w.peers.Add(id, nonce, p)
	w.early = slices.DeleteFunc(w.early, func(datagram []byte) bool {
		theirs := binary.LittleEndian.Uint64(datagram[senderAt:]) == nonce
		if theirs {
			w.claimed = append(w.claimed, datagram)
		}
		return theirs
	})
	return nil
}

// Close implements [transport.Worker]. It sends no farewell, like a process that dies: the kernel
// removes the socket's name, and peers notice that.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	return errors.Join(unix.Close(w.socket), unix.Close(w.checker))
}
