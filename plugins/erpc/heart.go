package erpc

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/datagram"
)

// heart asks for the life of the peers' ranks and tells them of this one's, from a port
// and a goroutine of its own: a worker polls only when the run wants it to, and a
// process that does not poll is not dead. It is the part of eRPC's session management
// that tells of failures.
//
// A beat is a ping with the nonce of a worker, and the pong that has it too, as long as
// that worker is not closed. A peer is
// dead that left so many pings in a row unanswered. They are counted when the next one
// goes, so that a rank that was not running itself blames nobody.
type heart struct {
	port    datagram.Port
	beat    time.Duration
	silence int
	deaths  atomic.Uint32 // watches that found their peer dead
	stop    chan struct{}
	beating sync.WaitGroup

	mu      sync.Mutex // what follows, and port
	watches []*watch
	packets []datagram.Packet
	head    [headerSize]byte
	body    [beatSize]byte
	closed  bool
}

// watch is over one session.
type watch struct {
	remote datagram.Remote
	source datagram.Source
	nonce  uint64 // of the peer's worker
	local  uint64 // of this rank's
	wake   func() // has that look for deaths
	missed int
	up     atomic.Bool // the peer's rank knows of the session, and so watches this one
	dead   atomic.Bool
}

const (
	beatSize    = 8
	heartBatch  = 64
	heartBuffer = 1 << 18
	// heartRounds is how many batches one beat takes in for each watch: more than peers
	// with the shortest keepalive send in that time, and not without end, whoever sends.
	heartRounds = 16
)

// newHeart takes the port when there is no error.
func newHeart(port datagram.Port, beat time.Duration, silence int) (*heart, error) {
	h := &heart{port: port, beat: beat, silence: silence, stop: make(chan struct{}), packets: make([]datagram.Packet, heartBatch)}
	h.beating.Go(h.run)
	return h, nil
}

func (h *heart) run() {
	t := time.NewTicker(h.beat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.mu.Lock()
			h.turn()
			h.mu.Unlock()
		case <-h.stop:
			return
		}
	}
}

// watch begins to ask after a worker, whose rank's heart is at an address, and to answer
// for a local one, which it wakes when that one is dead. The address stays the caller's.
func (h *heart) watch(address []byte, nonce, local uint64, wake func()) (*watch, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the transport is closed")
	}
	remote, err := h.port.Open(address)
	if err != nil {
		return nil, err
	}
	w := &watch{remote: remote, source: h.port.Source(remote), nonce: nonce, local: local, wake: wake}
	h.watches = append(h.watches, w)
	return w, nil
}

// unwatch ends that.
func (h *heart) unwatch(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.watches {
		if other == w {
			last := len(h.watches) - 1
			h.watches[i] = h.watches[last]
			h.watches = h.watches[:last]
			h.port.Release(w.remote)
			return
		}
	}
}

// forget ends the watch over those who were found dead.
func (h *heart) forget() {
	h.watches = slices.DeleteFunc(h.watches, func(w *watch) bool {
		if !w.dead.Load() {
			return false
		}
		h.port.Release(w.remote)
		w.wake()
		return true
	})
}

// turn is one beat.
func (h *heart) turn() {
	for range heartRounds * (len(h.watches) + 1) {
		n, err := h.port.Receive(h.packets)
		if err != nil || n == 0 {
			break
		}
		for i := range h.packets[:n] {
			h.take(&h.packets[i])
		}
	}
	deaths := uint32(0)
	for _, w := range h.watches {
		if !w.up.Load() {
			continue
		}
		if w.missed++; w.missed > h.silence {
			w.dead.Store(true)
			deaths++
			continue
		}
		h.say(w, kindPing, w.nonce)
	}
	_ = h.port.Flush()
	if deaths > 0 {
		h.deaths.Add(deaths) // after the marks: a worker looks at those when it sees this
		h.forget()
	}
}

// take books what arrived. Pings are answered to those that are watched, which is all
// who may ask, and for workers that are not closed: the farewells of one may all be lost,
// and others of its rank go on.
func (h *heart) take(packet *datagram.Packet) {
	if len(packet.Data) != headerSize+beatSize {
		return
	}
	head := parse(packet.Data)
	nonce := binary.LittleEndian.Uint64(packet.Data[headerSize:])
	if !sound(greeting(nonce), packet.Data, len(packet.Data)) {
		return
	}
	for _, w := range h.watches {
		switch {
		case w.source != packet.Source:
		case head.kind == kindPing && w.local == nonce:
			h.say(w, kindPong, nonce)
			return
		case head.kind == kindPong && w.nonce == nonce:
			w.missed = 0 // and that of the other workers' sessions with the same one
		}
	}
}

func (h *heart) say(w *watch, k kind, nonce uint64) {
	beat := header{session: noSession, kind: k, size: beatSize}
	beat.put(&h.head)
	binary.LittleEndian.PutUint64(h.body[:], nonce)
	sealPacket(greeting(nonce), &h.head, h.body[:])
	if !h.port.Send(w.remote, h.head[:], h.body[:]) {
		_ = h.port.Flush()
		_ = h.port.Send(w.remote, h.head[:], h.body[:]) // one that is not sent is as one that is lost
	}
}

// close ends the goroutine and closes the port.
func (h *heart) close() error {
	h.mu.Lock()
	already := h.closed
	h.closed = true
	h.mu.Unlock()
	if already {
		return nil
	}
	close(h.stop)
	h.beating.Wait()
	return h.port.Close()
}
