package memory

import (
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// worker is one worker of a [Driver].
type worker struct {
	driver   *Driver
	number   uint64
	address  []byte
	limits   transport.Limits
	ringSize int

	connections []*connection // by PeerID; nil if there is none
	active      []*connection // in the order of Connect
	first       int           // index in active of the connection that Poll serves first

	gone   atomic.Bool   // closed or killed; read by the peers
	notify chan struct{} // holds one notification
	timer  *time.Timer

	posted, polled, flushes, shorts uint64
	work                            control.Work

	recorded  []float64     // events by part of a window; nil before StartRecording
	recording time.Time     // its start
	partOf    time.Duration // length of a part

	trace []transport.Transfer // up to its capacity
}

type connection struct {
	peer     transport.PeerID
	remote   *worker
	send     *ring
	receive  *ring
	pings    floor.PingPong
	inFlight int
	lost     bool // EventPeerLost was returned

	errs control.PeerErrors
}

var (
	errPostClosed  = name.Error("post", transport.ErrClosed)
	errFlushClosed = name.Error("flush", transport.ErrClosed)
	errPollClosed  = name.Error("poll", transport.ErrClosed)
	errKind        = name.Error("post", transport.ErrUnsupported)
)

func (w *worker) connection(peer transport.PeerID) *connection {
	if uint64(peer) >= uint64(len(w.connections)) {
		return nil
	}
	return w.connections[peer]
}

// Post implements [transport.Worker]. It allocates the error of an op to a peer that was never
// connected.
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.gone.Load() {
		return 0, errPostClosed
	}
	for i := range ops {
		taken, err := w.post(&ops[i])
		if err != nil {
			return i, err
		}
		if !taken {
			w.shorts++
			return i, nil
		}
	}
	return len(ops), nil
}

func (w *worker) post(op *transport.Op) (taken bool, err error) {
	if op.Kind != transport.OpCall && op.Kind != transport.OpReply {
		return false, errKind
	}
	c := w.connection(op.Peer)
	switch {
	case c == nil:
		return false, name.PeerError("post", op.Peer, transport.ErrPeerDown)
	case c.remote.gone.Load():
		return false, c.errs.Down
	case len(op.Payload) > w.limits.MaxPayload:
		return false, c.errs.TooLarge
	case op.Kind == transport.OpCall && c.inFlight >= w.limits.InFlight:
		return false, nil
	}
	kind := transport.EventRequest
	if op.Kind == transport.OpReply {
		kind = transport.EventResponse
	}
	if !c.send.push(kind, op.Token, op.Payload) {
		return false, nil
	}
	if op.Kind == transport.OpCall {
		c.inFlight++
	}
	w.posted++
	if len(op.Payload) > 0 {
		w.work.Copied(len(op.Payload))
	}
	return true, nil
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.gone.Load() {
		return errFlushClosed
	}
	w.flushes++
	for _, c := range w.active {
		if c.send.publish() {
			c.remote.Wake()
		}
	}
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (int, error) {
	if w.gone.Load() {
		return 0, errPollClosed
	}
	for _, c := range w.active {
		c.receive.release()
	}
	n := 0
	for i := range w.active {
		n += w.active[(w.first+i)%len(w.active)].collect(events[n:])
	}
	w.first++
	w.polled += uint64(n)
	if n > 0 && w.recorded != nil {
		if part := int(time.Since(w.recording) / w.partOf); part < len(w.recorded) {
			w.recorded[part] += float64(n)
		}
	}
	for i := range events[:min(n, cap(w.trace)-len(w.trace))] {
		now := time.Now().UnixNano()
		w.trace = append(w.trace, transport.Transfer{
			Peer: events[i].Peer, Lane: "receive", Size: events[i].Size,
			Steps: []transport.Step{{Name: "poll", Begin: now}}, End: now,
		})
	}
	return n, nil
}

// collect fills events from one connection.
func (c *connection) collect(events []transport.Event) int {
	// Load this before the ring, so that the ring has all that the peer published before it closed.
	// Pairs with the store in die.
	gone := c.remote.gone.Load()
	for n := range events {
		kind, token, payload, ok := c.receive.pop()
		if !ok {
			if gone && !c.lost {
				c.lost = true
				events[n] = transport.Event{Kind: transport.EventPeerLost, Peer: c.peer}
				return n + 1
			}
			return n
		}
		if kind == transport.EventResponse {
			c.inFlight--
		}
		events[n] = transport.Event{Kind: kind, Peer: c.peer, Token: token, Payload: payload,
			Size: len(payload)}
	}
	return len(events)
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	return append(w.work.Append(dst),
		transport.Stat{Name: "posted", Help: "ops taken by Post", Value: w.posted},
		transport.Stat{Name: "polled", Help: "events returned by Poll", Value: w.polled},
		transport.Stat{Name: "flushes", Help: "calls of Flush", Value: w.flushes},
		transport.Stat{Name: "short_posts", Help: "calls of Post that found no room",
			Value: w.shorts})
}

// StartRecording implements [transport.Recorder].
func (w *worker) StartRecording(r transport.Recording) {
	w.recorded, w.recording = make([]float64, r.Parts), time.Now()
	w.partOf = max(r.Window/time.Duration(r.Parts), 1)
	w.trace = make([]transport.Transfer, 0, r.Transfers)
}

// ReadRecording implements [transport.Recorder].
func (w *worker) ReadRecording() (r transport.Recorded) {
	if w.recorded != nil {
		r.Series = []transport.Series{{Name: "polled", Help: "events returned by Poll",
			Values: slices.Clone(w.recorded)}}
	}
	r.Transfers = slices.Clone(w.trace)
	return r
}
