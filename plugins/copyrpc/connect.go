package copyrpc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// announcement is what Worker.Address encodes: how a worker's datagrams are sent to,
// and what both sides of a connection must agree on.
type announcement struct {
	Version   int           `json:"version"` // of the wire format
	Nonce     uint64        `json:"nonce"`
	Endpoint  rdma.Endpoint `json:"endpoint"`
	Ring      uint64        `json:"ring"`
	Allowance uint64        `json:"allowance"`
	Calls     int           `json:"calls"`
	Batches   int           `json:"batches"`
	Credit    string        `json:"credit"`
}

const wireVersion = 2

func (w *worker) announce() announcement {
	s := &w.settings
	return announcement{Version: wireVersion, Nonce: w.nonce, Endpoint: w.manager.qp.Endpoint(),
		Ring: s.ring, Allowance: s.allowance, Calls: s.calls, Batches: s.batches, Credit: s.credit}
}

// decode refuses an address that no connection can come of.
func (w *worker) decode(address []byte) (a announcement, err error) {
	if err := json.Unmarshal(address, &a); err != nil {
		return a, fmt.Errorf("not an address of this transport: %w", err)
	}
	s := &w.settings
	own := w.manager.qp.Endpoint()
	switch {
	case a.Version != wireVersion || a.Nonce == 0:
		return a, fmt.Errorf("peer speaks version %d of the protocol, and this is %d", a.Version, wireVersion)
	case a.Endpoint.Provider != own.Provider:
		return a, fmt.Errorf("peer has provider %q, and this rank %q: set provider to the same on all ranks", a.Endpoint.Provider, own.Provider)
	case a.Ring < ringShare*unit || a.Ring > maxRing || bits.OnesCount64(a.Ring) != 1:
		return a, fmt.Errorf("%w: it announces a ring of %d bytes, which is no power of two from %d to %d", transport.ErrCorrupt, a.Ring, ringShare*unit, maxRing)
	case a.Allowance < unit || a.Allowance > a.Ring/ringShare || a.Calls < 1 || uint64(a.Calls)*a.Allowance > a.Ring/2:
		return a, fmt.Errorf("%w: it announces %d calls of %d bytes for a ring of %d", transport.ErrCorrupt, a.Calls, a.Allowance, a.Ring)
	case a.Ring != s.ring || a.Allowance != s.allowance || a.Calls != s.calls || a.Batches != s.batches || a.Credit != s.credit:
		return a, fmt.Errorf("peer was opened for %d calls of %d bytes, %d batches, credit %s and a ring of %d; this rank for %d, %d, %d, %s and %d: open all ranks with the same options",
			a.Calls, a.Allowance, a.Batches, a.Credit, a.Ring, s.calls, s.allowance, s.batches, s.credit, s.ring)
	}
	return a, nil
}

// manager brings connections about. It has a datagram queue pair with a completion
// queue of its own, which is polled all the time only while a connection is missing.
type manager struct {
	worker  *worker
	cq      rdma.CompletionQueue
	qp      rdma.QueuePair
	memory  *rdma.Region // receives, then the datagram that is sent
	handles map[*peer]rdma.PeerHandle
	missing int // connections that are not up
	said    int // datagrams
	last    time.Time
	heard   [][]byte // datagrams that were not acted on yet
	polled  []rdma.Completion
}

const (
	managerReceives = 64
	managerDepth    = 64
	helloRoom       = 1024 // of a datagram of the soft device; verbs need far less
	managerQKey     = 0x7462_7270
	// resendAfter is how long a connection that is missing waits before it speaks
	// again.
	resendAfter = 2 * time.Millisecond
)

// What a datagram says.
const (
	kindHello = 1 // here is my queue pair
	kindReady = 2 // and it is connected to yours
	kindBye   = 3 // I am gone
)

// The layout of a datagram: magic u32, kind u32, from u64, to u64, address of the
// ring u64, address of the words u64, key u32, and the endpoint.
const (
	helloMagic = 0x7462_6370
	helloSize  = 44
)

func newManager(w *worker, cq rdma.CompletionQueue) (m *manager, err error) {
	d := w.rank.device
	m = &manager{worker: w, cq: cq, handles: map[*peer]rdma.PeerHandle{}, polled: make([]rdma.Completion, 16)}
	m.qp, err = d.NewQueuePair(rdma.QueuePairConfig{Type: rdma.UnreliableDatagram, Completions: m.cq, SendDepth: managerDepth,
		ReceiveDepth: managerReceives, QKey: managerQKey, Peers: w.settings.peers + 1})
	if err != nil {
		return nil, err
	}
	if m.memory, err = d.Allocate((managerReceives+managerDepth)*helloRoom, 0); err != nil {
		return nil, err
	}
	for i := range managerReceives {
		if err := m.receive(uint64(i)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *manager) receive(id uint64) error {
	_, err := m.qp.PostReceive([]rdma.ReceiveRequest{{ID: id, Local: m.memory.Address + id*helloRoom, Length: helloRoom, LocalKey: m.memory.LocalKey}})
	return err
}

// open begins a connection.
func (m *manager) open(p *peer, h rdma.PeerHandle) error {
	m.handles[p] = h
	m.missing++
	return m.say(p, kindHello)
}

// say sends a datagram to a peer. One that is lost, or finds the send queue full, is
// said again later.
func (m *manager) say(p *peer, kind uint32) error {
	endpoint, err := p.qp.Endpoint().MarshalBinary()
	if err != nil {
		return err
	}
	m.drain() // makes room in the send queue
	// There is memory for each request of the send queue, used in turn.
	at := (managerReceives + m.said%managerDepth) * helloRoom
	s := &m.worker.settings
	b := m.memory.Bytes[at : at : at+helloRoom]
	b = binary.LittleEndian.AppendUint32(b, helloMagic)
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint64(b, m.worker.nonce)
	b = binary.LittleEndian.AppendUint64(b, p.nonce)
	b = binary.LittleEndian.AppendUint64(b, p.local+s.ring)
	b = binary.LittleEndian.AppendUint64(b, p.control)
	b = binary.LittleEndian.AppendUint32(b, m.worker.region.Remote.Key)
	b = append(b, endpoint...)
	r := rdma.SendRequest{Opcode: rdma.Send, Flags: rdma.Signaled, Peer: m.handles[p], Length: uint32(len(b)),
		Local: m.memory.Address + uint64(at), LocalKey: m.memory.LocalKey}
	n, err := m.qp.PostSend([]rdma.SendRequest{r})
	m.said += n
	if errors.Is(err, rdma.ErrQueueFull) {
		return nil
	}
	return err
}

// drain takes completions, and reads what was received.
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
			heard := m.memory.Bytes[c.ID*helloRoom:][:c.Length]
			m.heard = append(m.heard, append([]byte(nil), heard[rdma.GlobalRouteHeaderSize:]...))
			_ = m.receive(c.ID)
		}
	}
}

// progress hears and speaks. It is called by Poll, often while a connection is
// missing and seldom otherwise.
func (m *manager) progress() {
	m.drain()
	for len(m.heard) > 0 {
		heard := m.heard
		m.heard = nil
		for _, b := range heard {
			m.take(b)
		}
	}
	if m.missing == 0 || time.Since(m.last) < resendAfter {
		return
	}
	m.last = time.Now()
	for _, p := range m.worker.slots {
		if p.state == connecting {
			_ = m.say(p, p.greeting())
		}
	}
}

// greeting is what a peer has to be told.
func (p *peer) greeting() uint32 {
	if p.joined {
		return kindReady
	}
	return kindHello
}

// take acts on a datagram; one that makes no sense is dropped, as anybody can send
// one.
func (m *manager) take(b []byte) {
	if len(b) < helloSize || binary.LittleEndian.Uint32(b) != helloMagic || binary.LittleEndian.Uint64(b[16:]) != m.worker.nonce {
		return
	}
	p := m.worker.byNonce[binary.LittleEndian.Uint64(b[8:])]
	if p == nil || p.state == lost || p.state == dying {
		return
	}
	kind := binary.LittleEndian.Uint32(b[4:])
	if kind == kindBye {
		m.worker.lose(p)
		return
	}
	known := p.joined
	if !known {
		var endpoint rdma.Endpoint
		if err := endpoint.UnmarshalBinary(b[helloSize:]); err != nil {
			return
		}
		p.remote, p.there = binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
		if err := p.qp.Connect(endpoint, m.worker.settings.connect); err != nil {
			// EventPeerLost is all that the caller gets.
			m.worker.lose(p)
			return
		}
		p.key, p.joined = binary.LittleEndian.Uint32(b[40:]), true
	}
	if kind == kindReady {
		m.worker.bringUp(p)
	}
	// The peer has to know that this side is ready, unless it said that it does by
	// being ready itself for the second time.
	if !known || kind == kindHello {
		_ = m.say(p, kindReady)
	}
}

// bringUp lets batches go to a peer that is connected to this side.
func (w *worker) bringUp(p *peer) {
	if p.state != connecting {
		return
	}
	p.state = up
	w.manager.missing--
}
