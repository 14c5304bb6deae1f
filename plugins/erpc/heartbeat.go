package erpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/datagram"
)

// heartbeat detects dead peers of a rank and answers theirs, on a port and a goroutine of its own:
// a worker polls only when the run wants it to, and a process that does not poll is not dead.
//
// Each ping carries the nonce of a remote worker; that worker's rank answers with a pong until the
// worker is closed. A peer is declared dead after maxMissed consecutive missed pings. A missed ping
// counts when the next one is sent, so that a rank that was itself stopped declares no peer dead.
type heartbeat struct {
	port      datagram.Port
	interval  time.Duration
	maxMissed int
	deaths    atomic.Uint32 // peers declared dead; see beat
	stop      chan struct{}
	running   sync.WaitGroup

	mu      sync.Mutex // guards port and the fields below
	watches []*watch
	packets []datagram.Packet
	present map[uint64]presence // of this rank's workers, by nonce
	head    [headerSize]byte
	body    [beatSize]byte
	closed  bool
}

// watch is the heartbeat's view of one session.
type watch struct {
	remote datagram.Remote
	source datagram.Source
	nonce  uint64 // of the peer's worker
	local  uint64 // nonce of this rank's worker
	shown  string // name of the peer's presence; empty if it is not on this host
	wake   func() // wakes this rank's worker, so that it notices the death
	missed int
	heard  time.Time   // when the peer answered last
	up     atomic.Bool // the peer knows the session and so answers pings; set by the worker
	dead   atomic.Bool
	reason error // why; set before dead
}

const (
	beatSize        = 8
	heartbeatBatch  = 64
	heartbeatBuffer = 1 << 18
	// batchesPerWatch bounds the batches received in one beat, for each watch: more than peers with
	// the shortest keepalive send in that time, and finite in a flood.
	batchesPerWatch = 16
)

// newHeartbeat starts a heartbeat, which owns the port.
func newHeartbeat(port datagram.Port, interval time.Duration, maxMissed int) *heartbeat {
	h := &heartbeat{port: port, interval: interval, maxMissed: maxMissed, stop: make(chan struct{}),
		packets: make([]datagram.Packet, heartbeatBatch), present: map[uint64]presence{}}
	h.running.Go(h.run)
	return h
}

func (h *heartbeat) run() {
	t := time.NewTicker(h.interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.mu.Lock()
			h.beat()
			h.mu.Unlock()
		case <-h.stop:
			return
		}
	}
}

// show makes a local worker present, until hide or close, and returns the name of its presence. The
// name is empty if the machine does not allow one; peers then judge by pings alone.
func (h *heartbeat) show(local uint64) string {
	p, err := newPresence()
	if err != nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.present[local] = p
	return p.name
}

// hide ends the presence of a local worker.
func (h *heartbeat) hide(local uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, has := h.present[local]; has {
		p.close()
		delete(h.present, local)
	}
}

// watch starts to watch a peer's worker, and to answer pings for the local worker. It calls wake
// when the peer is dead. It does not keep peer.
func (h *heartbeat) watch(peer *workerAddress, local uint64, wake func()) (*watch, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the transport is closed")
	}
	remote, err := h.port.Open(peer.Heartbeat)
	if err != nil {
		return nil, err
	}
	w := &watch{remote: remote, source: h.port.Source(remote), nonce: peer.Nonce, local: local,
		wake: wake}
	if findPresence(peer.Presence) == nil {
		w.shown = peer.Presence
	}
	h.watches = append(h.watches, w)
	return w, nil
}

// unwatch ends a watch.
func (h *heartbeat) unwatch(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.watches, w); i >= 0 {
		h.watches = slices.Delete(h.watches, i, i+1)
		h.port.Release(w.remote)
	}
}

// beat receives what has arrived and sends the next pings. A worker looks at its sessions' dead
// marks when deaths changes, so deaths is stored after them.
func (h *heartbeat) beat() {
	for range batchesPerWatch * (len(h.watches) + 1) {
		n, err := h.port.Receive(h.packets, datagram.Target{})
		if err != nil || n == 0 {
			break
		}
		for i := range h.packets[:n] {
			h.receive(&h.packets[i])
		}
	}
	deaths := uint32(0)
	for _, w := range h.watches {
		if !w.up.Load() {
			continue
		}
		if w.heard.IsZero() {
			w.heard = time.Now()
		}
		if w.missed++; w.missed > h.maxMissed && !isPresent(w.shown) {
			w.reason = h.reasonOf(w)
			w.dead.Store(true)
			deaths++
			continue
		}
		h.send(w, kindPing, w.nonce)
	}
	_ = h.port.Flush()
	if deaths == 0 {
		return
	}
	h.deaths.Add(deaths)
	h.watches = slices.DeleteFunc(h.watches, func(w *watch) bool {
		if !w.dead.Load() {
			return false
		}
		h.port.Release(w.remote)
		w.wake()
		return true
	})
}

// silence returns for how long a peer has not answered, or nil if it has missed no ping.
func (h *heartbeat) silence(w *watch) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.missed < 2 { // the last ping may be on its way
		return nil
	}
	return h.reasonOf(w)
}

func (h *heartbeat) reasonOf(w *watch) error {
	return fmt.Errorf("no answer from %v for %v (peer-timeout is %v)", w.source,
		time.Since(w.heard).Round(10*time.Millisecond), time.Duration(h.maxMissed)*h.interval)
}

// receive answers a ping and counts a pong. Only watched peers get an answer, and only for workers
// that are not closed: all byes of a worker may get lost while others of its rank live on.
func (h *heartbeat) receive(packet *datagram.Packet) {
	if len(packet.Data) != headerSize+beatSize {
		return
	}
	head := parse(packet.Data)
	nonce := binary.LittleEndian.Uint64(packet.Data[headerSize:])
	if !validChecksum(handshakeKey(nonce), packet.Data[:headerSize], packet.Data[headerSize:]) {
		return
	}
	for _, w := range h.watches {
		switch {
		case w.source != packet.Source:
		case head.kind == kindPing && w.local == nonce:
			h.send(w, kindPong, nonce)
			return
		case head.kind == kindPong && w.nonce == nonce:
			// no return: other local workers may watch the same peer
			w.missed, w.heard = 0, time.Now()
		}
	}
}

func (h *heartbeat) send(w *watch, k kind, nonce uint64) {
	beat := header{session: noSession, kind: k, size: beatSize}
	beat.put(&h.head)
	binary.LittleEndian.PutUint64(h.body[:], nonce)
	putChecksum(handshakeKey(nonce), &h.head, h.body[:])
	if !h.port.Send(w.remote, h.head[:], h.body[:]) {
		_ = h.port.Flush()
		_ = h.port.Send(w.remote, h.head[:], h.body[:]) // if this fails too the packet is lost
	}
}

// close stops the goroutine and closes the port. It is idempotent.
func (h *heartbeat) close() error {
	h.mu.Lock()
	already := h.closed
	h.closed = true
	h.mu.Unlock()
	if already {
		return nil
	}
	close(h.stop)
	h.running.Wait()
	for _, p := range h.present {
		p.close()
	}
	clear(h.present)
	return h.port.Close()
}
