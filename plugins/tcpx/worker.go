package tcpx

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/calltable"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

// worker is one thread's sockets and its connections. worker_datapath.go has what the
// measured loop calls.
type worker struct {
	settings *settings
	config   *conn.Config // of all connections
	own      dial.Nonce   // tells this worker from every other
	address  []byte
	connector
	epoll    int // the control sockets and the listeners
	notifier sock.Notifier
	memory   bounce.Allocator
	unpacker *bounce.Slots
	peers    control.Peers[peer, dial.Nonce]

	dirty     []*peer // posted to since the last Flush
	lost      control.LostPeers
	failures  []error // that Poll has not returned yet
	releasing []*peer // lost, and some of what came is still being unpacked
	first     int     // the peer that the next Poll begins with
	polls     uint

	ready  []unix.EpollEvent
	pollFD []unix.PollFd
	source deviceSource

	destroyed bool
	counters  conn.Counters
}

// peer is one connection, with its stream in each direction.
type peer struct {
	dial.Link
	w       *worker
	id      transport.PeerID
	address address
	sockets []int // not attached yet: the control socket first; -1 for none
	from    origin
	conn    *conn.Conn
	staging []byte       // the ring of conn.Out
	copies  deviceCopies // to staging, in mode gpu with send-memory=device

	calls    calltable.Calls    // that this side made
	requests calltable.Requests // calls of the peer to answer; package conn has others
	isDirty  bool
	readable bool
}

func newWorker(s *settings, index int) (*worker, error) {
	w := &worker{settings: s, config: s.connConfig(2 * s.inFlight), epoll: -1,
		notifier: sock.Notifier{FD: -1},
		ready:    make([]unix.EpollEvent, s.peers+2), lost: control.NewLostPeers(s.peers),
		dirty: make([]*peer, 0, s.peers), failures: make([]error, 0, s.peers),
		releasing: make([]*peer, 0, s.peers)}
	w.connector.Acceptor.Listener = -1
	w.own = dial.NewNonce()
	w.peers = control.NewPeers[peer](maxPeers, s.peers, w.own)
	if err := w.open(index); err != nil {
		return nil, errors.Join(err, w.Close(), w.destroy())
	}
	return w, nil
}

// open acquires what a worker needs. If it fails, Close and destroy release what it has
// acquired.
func (w *worker) open(index int) (err error) {
	s := w.settings
	fd, at, err := s.listen(s.sock.Address, 0)
	if err != nil {
		return err
	}
	// Each peer has a control socket and one for a probe.
	w.connector.Connector = dial.NewConnector(dial.Config{Name: name, Own: w.own,
		Sockets: &s.sock, Payload: s.payload, ConnectTimeout: s.connectTimeout}, fd, 2*s.peers,
		&w.peers)
	port := s.dataPort
	if port > 0 {
		port += index
	}
	data := make([]netip.AddrPort, len(s.data))
	for i, address := range s.data {
		if fd, data[i], err = s.listen(address, uint16(port)); err != nil {
			return err
		}
		w.connector.dataListeners = append(w.connector.dataListeners, fd)
	}
	if w.address, err = json.Marshal(s.announce(w.own, at, data)); err != nil {
		return err
	}
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	for _, listener := range append(w.connector.dataListeners[:len(s.data):len(s.data)],
		w.connector.Acceptor.Listener) {
		if err = w.watch(listener, noPeer); err != nil {
			return err
		}
	}
	if err = w.notifier.Open(); err != nil {
		return err
	}
	if w.memory, w.unpacker, err = openMemory(&s.memory); err == nil {
		if s.memory.DeviceSend {
			w.source.open(w.unpacker.Unpacker, w.memory)
		}
		bounce.MoreThreads(s.peers * s.threads)
	}
	return err
}

// openMemory makes the bounce memory of a worker; tests replace it.
var openMemory = (*bounce.Setup).Open

// noPeer is the epoll data of the listeners.
const noPeer = ^uint32(0)

// watch adds a socket to epoll, with a PeerID or noPeer.
func (w *worker) watch(fd int, id uint32) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// newPeer makes the memory of a connection and posts its receives.
func (w *worker) newPeer(id transport.PeerID, a address) (p *peer, err error) {
	s := w.settings
	p = &peer{w: w, id: id, address: a, sockets: slices.Repeat([]int{-1}, s.sockets+1),
		Link:  w.connector.NewLink(id, dial.Nonce(a.Nonce), sock.ToKernel(a.At), a.At.String()),
		conn:  conn.New(w.config, id, w.memory, w.unpacker, &w.counters),
		calls: calltable.NewCalls(s.inFlight), requests: calltable.NewRequests(s.inFlight)}
	p.conn.Meet(a.Window, a.Inline)
	if p.staging, err = w.newStaging(); err != nil {
		return nil, err
	}
	if w.source.copies() {
		p.copies = newDeviceCopies(p)
		p.conn.Out.SetStaging(p.staging, p.copies.advance)
	} else {
		p.conn.Out.SetStaging(p.staging, nil)
	}
	if w.source.nic != nil {
		p.conn.Out.UseDevice(bounce.Hooks.Transmitter(), s.inFlight)
	}
	if err = p.conn.In.Allocate(); err != nil {
		return nil, errors.Join(err, w.freeStaging(p.staging))
	}
	return p, nil
}

// closeSockets closes the open sockets of a connection, with a farewell if it is up.
func (p *peer) closeSockets() (err error) {
	p.Stop()
	if p.conn.ControlFD() >= 0 {
		return p.conn.Close()
	}
	p.conn.Leave()
	return p.CloseSockets()
}

// Close implements [transport.Worker]. Payloads that Poll handed out stay readable until
// the transport closes.
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	var errs []error
	for _, p := range w.peers.ByID {
		if p != nil && p.State != dial.Lost {
			p.SetLost(transport.ErrClosed, -1)
			errs = append(errs, p.closeSockets())
		}
	}
	for _, d := range w.connector.dataSockets {
		_ = unix.Close(d.fd)
	}
	w.connector.dataSockets = nil
	errs = append(errs, w.connector.Close())
	for _, fd := range append(w.connector.dataListeners, w.epoll) {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// destroy releases what Close has left. It waits for what is being unpacked.
func (w *worker) destroy() error {
	if w.destroyed {
		return nil
	}
	w.destroyed = true
	var errs []error
	for _, p := range w.peers.ByID {
		if p != nil {
			p.conn.Release(true)
		}
	}
	errs = append(errs, w.notifier.Close())
	if w.unpacker == nil {
		return errors.Join(errs...)
	}
	bounce.MoreThreads(-w.settings.peers * w.settings.threads)
	for _, p := range w.peers.ByID {
		if p != nil {
			errs = append(errs, w.freeMemory(p))
		}
	}
	return errors.Join(append(errs, w.source.close(), w.unpacker.Close(), w.memory.Close())...)
}

func (w *worker) freeMemory(p *peer) error {
	return errors.Join(w.freeStaging(p.staging), p.conn.In.Free())
}

// ReadDevice implements [transport.DeviceWorker]. An offset is a position in the requests
// that a connection has received, each counted as full.
func (w *worker) ReadDevice(id transport.PeerID, offset uint64, into []byte) (valid bool,
	err error) {
	p := w.peers.Get(id)
	if w.destroyed {
		return false, name.PeerError("read", id, transport.ErrClosed)
	}
	if p == nil {
		return false, name.PeerError("read", id, transport.ErrPeerDown)
	}
	from, ok := bounce.Inner(w.unpacker.Unpacker).(bounce.Reader)
	if !ok {
		return false, name.PeerError("read", id,
			fmt.Errorf("mode %s: payloads are in the host's memory: %w", w.settings.memory.Mode(),
				transport.ErrUnsupported))
	}
	if len(into) > w.settings.payload {
		return false, name.PeerError("read", id, transport.ErrTooLarge)
	}
	kept, valid := p.conn.In.Kept(offset, len(into))
	if !valid {
		return false, nil
	}
	if err := from.Read(into, kept); err != nil {
		return false, name.PeerError("read", id, err)
	}
	return true, nil
}
