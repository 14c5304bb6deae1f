package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// driver opens the transport.
type driver struct{}

// Info implements [transport.Driver].
func (driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: version,
		Summary:      "Unix datagram sockets between processes of one host",
		Providers:    []string{"socket"},
		Capabilities: capabilities,
		Limits:       limits(),
		Options:      schema,
	}
}

// Open implements [transport.Driver].
func (driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	most := limits()
	return &rank{
		limits: most,
		batch:  cfg.Options.Int("batch"),
		early:  cfg.Peers * min(cfg.InFlight, most.InFlight),
	}, nil
}

// rank is the transport of one process.
type rank struct {
	limits transport.Limits
	batch  int // most datagrams of one Poll
	early  int // most datagrams kept for peers that are not connected yet

	mu      sync.Mutex
	workers []*worker
	closed  bool
}

func (r *rank) Properties() transport.Properties {
	return transport.Properties{Provider: "socket", Capabilities: capabilities, Limits: r.limits}
}

func (r *rank) NewWorker(int) (transport.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, transport.NewOpError(name, "new worker", transport.ErrClosed)
	}
	w, err := newWorker(r)
	if err != nil {
		return nil, transport.NewOpError(name, "new worker", err)
	}
	r.workers = append(r.workers, w)
	return w, nil
}

func (r *rank) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// worker is one thread's socket and its connections. unixgram_datapath.go has
// what the measured loop calls.
type worker struct {
	rank    *rank
	address []byte
	socket  int // where the peers send to
	asker   int // a spare one that asks whether peers live

	peers   []*peer          // by PeerID; nil where none is connected
	senders map[uint64]*peer // by the nonce in their datagrams
	lost    []*peer          // not told yet

	out     []byte   // the datagram being sent
	in      [][]byte // one buffer for each event of a Poll
	early   [][]byte // came from nobody that is connected
	arrived [][]byte // were early, and their sender is connected now

	idle   int // polls that emptied the socket since a peer was asked after
	turn   int // the peer that was asked last
	closed bool
}

// peer is one connection, seen from here. Its errors are made with it, since
// data paths do not allocate.
type peer struct {
	id       transport.PeerID
	name     unix.SockaddrUnix
	inFlight int // calls without a response
	lost     bool

	errDown, errTooLarge, errUnsupported, errCorrupt error
}

// An address is a nonce and the abstract name of a socket. Both are random: the
// name so that it is never used twice, and the nonce because it proves who sent
// a datagram, while everybody can read the name in /proc/net/unix.
const (
	nonceSize  = 8
	namePrefix = "@transportbench-unixgram-"
)

func newWorker(r *rank) (*worker, error) {
	w := &worker{
		rank:    r,
		address: make([]byte, nonceSize),
		senders: map[uint64]*peer{},
		out:     make([]byte, headerSize+maxPayload),
		in:      make([][]byte, r.batch),
	}
	rand.Read(w.address) // never fails
	copy(w.out[senderAt:], w.address)
	w.address = append(w.address, namePrefix+rand.Text()...)
	for i := range w.in {
		w.in[i] = make([]byte, headerSize+maxPayload+1) // a byte more shows what is too long
	}
	const kind = unix.SOCK_DGRAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	var err error
	if w.socket, err = unix.Socket(unix.AF_UNIX, kind, 0); err != nil {
		return nil, transport.Unavailable("socket: %w", err)
	}
	if w.asker, err = unix.Socket(unix.AF_UNIX, kind, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), unix.Close(w.socket))
	}
	if err := unix.Bind(w.socket, &unix.SockaddrUnix{Name: string(w.address[nonceSize:])}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind: %w", err), w.Close())
	}
	return w, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

func opError(op string, id transport.PeerID, err error) error {
	return &transport.OpError{Transport: name, Op: op, Peer: id, Err: err}
}

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	switch {
	case w.closed:
		return opError("connect", id, transport.ErrClosed)
	case int(id) >= maxPeers:
		return opError("connect", id, fmt.Errorf("%w: peers are numbered below %d", transport.ErrUnsupported, maxPeers))
	case len(address) < nonceSize || !strings.HasPrefix(string(address[nonceSize:]), namePrefix):
		return opError("connect", id, errors.New("not an address of this transport"))
	}
	sender := binary.LittleEndian.Uint64(address)
	if w.peer(id) != nil || w.senders[sender] != nil {
		return opError("connect", id, errors.New("the number or the address is connected already"))
	}
	p := &peer{
		id: id, name: unix.SockaddrUnix{Name: string(address[nonceSize:])},
		errDown:        opError("post", id, transport.ErrPeerDown),
		errTooLarge:    opError("post", id, transport.ErrTooLarge),
		errUnsupported: opError("post", id, transport.ErrUnsupported),
		errCorrupt:     opError("poll", id, transport.ErrCorrupt),
	}
	if err := unix.Connect(w.asker, &p.name); err != nil {
		return opError("connect", id, fmt.Errorf(
			"%w: its socket is closed, or in another network namespace: %w", transport.ErrPeerDown, err))
	}
	for len(w.peers) <= int(id) {
		w.peers = append(w.peers, nil)
	}
	w.peers[id], w.senders[sender] = p, p
	w.early = slices.DeleteFunc(w.early, func(datagram []byte) bool {
		theirs := binary.LittleEndian.Uint64(datagram[senderAt:]) == sender
		if theirs {
			w.arrived = append(w.arrived, datagram)
		}
		return theirs
	})
	return nil
}

// peer returns the connection of that number, or nil.
func (w *worker) peer(id transport.PeerID) *peer {
	if int(id) >= len(w.peers) {
		return nil
	}
	return w.peers[id]
}

// Close implements [transport.Worker]. No farewell is sent, as none is when a
// process dies: the kernel forgets the socket's name, and that the peers see.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	return errors.Join(unix.Close(w.socket), unix.Close(w.asker))
}
