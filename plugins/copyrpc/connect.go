package copyrpc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// workerAddress is the content of Worker.Address: the worker's datagram queue pair, and
// the settings that both sides of a connection must agree on.
type workerAddress struct {
	Version   int           `json:"version"` // of the wire format
	Nonce     uint64        `json:"nonce"`
	Endpoint  rdma.Endpoint `json:"endpoint"`
	Ring      uint64        `json:"ring"`
	Allowance uint64        `json:"allowance"`
	Calls     int           `json:"calls"`
	Batches   int           `json:"batches"`
	Credit    string        `json:"credit"`
	Pairs     string        `json:"pairs"` // the option queue-pairs
}

const wireVersion = 4

func (w *worker) newAddress() workerAddress {
	s := &w.settings
	return workerAddress{Version: wireVersion, Nonce: w.nonce, Endpoint: w.manager.qp.Endpoint(),
		Ring: s.ring, Allowance: s.allowance, Calls: s.calls, Batches: s.batches, Credit: s.credit,
		Pairs: s.pairs}
}

// parseAddress decodes an address. It returns an error if the address is damaged or its
// worker was opened with other settings.
func (w *worker) parseAddress(address []byte) (a workerAddress, err error) {
	if err := json.Unmarshal(address, &a); err != nil {
		return a, fmt.Errorf("not a copyrpc address: %w", err)
	}
	s := &w.settings
	own := w.manager.qp.Endpoint()
	switch {
	case a.Version != wireVersion || a.Nonce == 0:
		return a, fmt.Errorf("the peer speaks version %d of the protocol, this rank version %d: "+
			"use the same build on all ranks", a.Version, wireVersion)
	case a.Endpoint.Provider != own.Provider:
		return a,
			fmt.Errorf("the peer has provider %q, this rank %q: set the same provider on all ranks",
				a.Endpoint.Provider, own.Provider)
	case a.Ring < ringShare*unit || a.Ring > maxRing || !pow2.Is(int(a.Ring)):
		return a,
			fmt.Errorf(
				"%w: the address has a ring of %d bytes, which is not a power of two from %d to %d",
				transport.ErrCorrupt, a.Ring, ringShare*unit, maxRing)
	case a.Allowance < unit || a.Allowance > a.Ring/ringShare || a.Calls < 1 ||
		uint64(a.Calls)*a.Allowance > a.Ring/2:
		return a, fmt.Errorf("%w: the address has %d calls of %d bytes for a ring of %d",
			transport.ErrCorrupt, a.Calls, a.Allowance, a.Ring)
	case a.Pairs != s.pairs:
		return a, fmt.Errorf("the peer has queue pairs %q, this rank %q: set the same queue-pairs "+
			"on all ranks", a.Pairs, s.pairs)
	case a.Ring != s.ring || a.Allowance != s.allowance || a.Calls != s.calls ||
		a.Batches != s.batches || a.Credit != s.credit:
		return a, fmt.Errorf("the peer was opened for %d calls of %d bytes, %d batches, credit "+
			"%s and a ring of %d; this rank for %d, %d, %d, %s and %d: open all ranks with the "+
			"same options",
			a.Calls, a.Allowance, a.Batches, a.Credit, a.Ring, s.calls, s.allowance, s.batches,
			s.credit, s.ring)
	}
	return a, nil
}

// manager sets up connections. It has a datagram queue pair with its own completion queue,
// which Poll checks every time only while a connection is pending.
//
// The endpoint of an RC queue pair cannot be in the address, which all peers share. Datagrams
// carry it over the fabric itself; a socket would be one more thing that has to be reachable,
// and rdma_cm needs IP addresses and a blocking event channel.
type manager struct {
	worker   *worker
	cq       rdma.CompletionQueue
	qp       rdma.QueuePair
	memory   *rdma.Region // managerReceives buffers to receive into, managerDepth to send from
	handles  map[*peer]rdma.PeerHandle
	pending  int // connections that are not up yet
	sent     int // datagrams
	lastSent time.Time
	received [][]byte // datagrams that are not handled yet
	polled   []rdma.Completion
}

const (
	managerReceives = 64
	managerDepth    = 64
	datagramSize    = 1024 // the soft device's endpoints need it; verbs need far less
	managerQKey     = 0x7462_7270

	// resendAfter is how often a pending connection repeats its datagram.
	resendAfter = 2 * time.Millisecond
)

// Kinds of datagrams.
const (
	kindHello = 1 // here is my queue pair
	kindReady = 2 // here is my queue pair, and it is connected to yours
	kindBye   = 3 // I have closed
)

// The layout of a datagram: magic u32, kind u32, sender's nonce u64, receiver's nonce u64,
// address of the sender's receive ring u64 and of its words u64, their remote key u32, and
// the endpoint of its RC queue pair.
const (
	datagramMagic  = 0x7462_6370
	datagramHeader = 44
)

func newManager(w *worker, cq rdma.CompletionQueue) (m *manager, err error) {
	d := w.endpoint.device
	m = &manager{worker: w, cq: cq, handles: map[*peer]rdma.PeerHandle{},
		polled: make([]rdma.Completion, 16)}
	m.qp, err = d.NewQueuePair(rdma.QueuePairConfig{Type: rdma.UnreliableDatagram,
		Completions: m.cq, SendDepth: managerDepth,
		ReceiveDepth: managerReceives, QKey: managerQKey, Peers: w.settings.peers + 1})
	if err != nil {
		return nil, err
	}
	if m.memory, err = d.Allocate((managerReceives+managerDepth)*datagramSize, 0); err != nil {
		return nil, err
	}
	for i := range managerReceives {
		if err := m.postReceive(uint64(i)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// postReceive posts buffer id.
func (m *manager) postReceive(id uint64) error {
	_, err := m.qp.PostReceive([]rdma.ReceiveRequest{
		{ID: id, Local: m.memory.Address + id*datagramSize, Length: datagramSize,
			LocalKey: m.memory.LocalKey}})
	return err
}

// open starts a connection.
func (m *manager) open(p *peer, h rdma.PeerHandle) error {
	m.handles[p] = h
	m.pending++
	return m.send(p, kindHello)
}

// send sends a datagram to a peer. If it is lost or the send queue is full, progress
// sends it again later.
func (m *manager) send(p *peer, kind uint32) error {
	endpoint, err := p.qp.Endpoint().MarshalBinary()
	if err != nil {
		return err
	}
	m.drain() // makes room in the send queue
	// There are as many buffers as the send queue has requests, so the next one is free.
	at := (managerReceives + m.sent%managerDepth) * datagramSize
	b := m.memory.Bytes[at : at : at+datagramSize]
	b = binary.LittleEndian.AppendUint32(b, datagramMagic)
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint64(b, m.worker.nonce)
	b = binary.LittleEndian.AppendUint64(b, p.nonce)
	b = binary.LittleEndian.AppendUint64(b, p.localRing+m.worker.settings.ring)
	b = binary.LittleEndian.AppendUint64(b, p.localControl)
	b = binary.LittleEndian.AppendUint32(b, m.worker.region.Remote.Key)
	b = append(b, endpoint...)
	r := rdma.SendRequest{Opcode: rdma.Send, Flags: rdma.Signaled, Peer: m.handles[p],
		Length: uint32(len(b)),
		Local:  m.memory.Address + uint64(at), LocalKey: m.memory.LocalKey}
	n, err := m.qp.PostSend([]rdma.SendRequest{r})
	m.sent += n
	if errors.Is(err, rdma.ErrQueueFull) {
		return nil
	}
	return err
}

// drain polls completions and copies the datagrams that were received.
func (m *manager) drain() {
	for {
		n, err := m.cq.Poll(m.polled)
		if n == 0 || err != nil {
			return
		}
		for i := range m.polled[:n] {
			c := &m.polled[i]
			if c.Status != rdma.StatusOK || c.Opcode != rdma.Receive {
				continue
			}
			b := m.memory.Bytes[c.ID*datagramSize:][:c.Length]
			m.received = append(m.received, append([]byte(nil), b[rdma.GlobalRouteHeaderSize:]...))
			_ = m.postReceive(c.ID)
		}
	}
}

// progress handles received datagrams and repeats those of pending connections. Poll calls
// it every time while a connection is pending, and seldom otherwise.
func (m *manager) progress() {
	m.drain()
	for len(m.received) > 0 {
		received := m.received
		m.received = nil
		for _, b := range received {
			m.handle(b)
		}
	}
	if m.pending == 0 || time.Since(m.lastSent) < resendAfter {
		return
	}
	m.lastSent = time.Now()
	for _, p := range m.worker.byCookie {
		if p.state != connecting {
			continue
		}
		kind := uint32(kindHello)
		if p.connected {
			kind = kindReady
		}
		_ = m.send(p, kind)
	}
}

// handle acts on a datagram. It drops a malformed one because anybody can send one.
func (m *manager) handle(b []byte) {
	if len(b) < datagramHeader || binary.LittleEndian.Uint32(b) != datagramMagic ||
		binary.LittleEndian.Uint64(b[16:]) != m.worker.nonce {
		return
	}
	p := m.worker.peers.Find(binary.LittleEndian.Uint64(b[8:]))
	if p == nil || p.state > up {
		return
	}
	kind := binary.LittleEndian.Uint32(b[4:])
	if kind == kindBye {
		m.worker.losePeer(p)
		return
	}
	first := !p.connected
	if first {
		var endpoint rdma.Endpoint
		if err := endpoint.UnmarshalBinary(b[datagramHeader:]); err != nil {
			return
		}
		p.remoteRing, p.remoteControl = binary.LittleEndian.Uint64(b[24:]),
			binary.LittleEndian.Uint64(b[32:])
		if err := p.qp.Connect(endpoint, m.worker.settings.connect); err != nil {
			// Connect of the worker has returned, so EventPeerLost is all that can report it.
			m.worker.losePeer(p)
			return
		}
		p.remoteKey, p.connected = binary.LittleEndian.Uint32(b[40:]), true
	}
	if kind == kindReady {
		m.worker.bringUp(p)
	}
	// The peer must learn that this side is connected. It knows already if it has sent
	// kindReady before.
	if first || kind == kindHello {
		_ = m.send(p, kindReady)
	}
}

// bringUp lets batches go to a peer whose queue pair is connected to this side.
func (w *worker) bringUp(p *peer) {
	if p.state != connecting {
		return
	}
	p.state = up
	w.manager.pending--
	if m, ok := p.qp.(rdma.RemoteMapper); ok {
		p.mapped = m.MapRemote(p.remoteRing, p.remoteKey, uint32(w.settings.ring))
	}
	if p.mapped != nil {
		p.inPlaceFrom = inPlaceFrom
	}
	// The soft device maps the peer's rings for the first request to them, which takes 0.2 ms a
	// MiB. This empty one comes before the first call. If it fails, it reports the loss of the
	// peer.
	w.requests[0] = rdma.SendRequest{ID: keepaliveID, Opcode: rdma.Write, Remote: p.remoteControl,
		RemoteKey: p.remoteKey}
	_, _ = p.qp.PostSend(w.requests[:1])
}
