package copyrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: on the soft device the two threads bounce a
// cache line, on verbs they write a number to and fro, as ib_write_lat does.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	if w.closed {
		return transport.Floor{}, opError("probe", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil || w.peers[id].state > up {
		return transport.Floor{}, opError("probe", id, transport.ErrPeerDown)
	}
	p := w.peers[id]
	for p.state == connecting {
		if err := context.Cause(ctx); err != nil {
			return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer has not connected: %w", err))
		}
		w.manager.progress()
		runtime.Gosched()
	}
	if p.state != up {
		return transport.Floor{}, opError("probe", id, transport.ErrPeerDown)
	}
	var reading transport.Floor
	var err error
	if bouncer, ok := p.qp.(rdma.Bouncer); ok {
		reading, err = bouncer.Bounce(ctx, initiate, d)
	} else {
		reading, err = w.pingPong(p).Run(ctx, initiate, d)
	}
	if err != nil {
		return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
	}
	return reading, nil
}

// pingPong returns the peer's ping-pong: each side writes a number into a word at the
// other with RDMA WRITE.
func (w *worker) pingPong(p *peer) *floor.PingPong {
	if p.pings.Medium == nil {
		words := p.slot*w.settings.region() + 2*int(w.settings.ring)
		p.pings = floor.PingPong{Name: "RDMA write ping-pong", Medium: &pingWords{w: w, p: p,
			in: twinAt(w.region.Bytes, words+probeOffset), out: words + pingOffset}}
	}
	return &p.pings
}

// pingWords is the [floor.Medium] of a ping-pong of WRITEs.
type pingWords struct {
	w     *worker
	p     *peer
	in    twin // written by the peer
	out   int  // offset of the source of writes
	looks int
}

func (m *pingWords) Take() (number uint64, ok bool, err error) {
	m.looks++
	if err := m.w.answer(m.p, m.looks); err != nil {
		return 0, false, err
	}
	number, ok = m.in.load()
	return number, ok, nil
}

// answer receives datagrams once in managerTurns looks because the peer may have lost the
// one that told it of the connection, and would never take part. It returns an error if
// the connection is lost.
func (w *worker) answer(p *peer, looks int) error {
	if looks%managerTurns != 0 {
		return nil
	}
	w.manager.progress()
	if _, err := w.collect(nil, 0); err != nil {
		return err
	}
	if p.state != up {
		return transport.ErrPeerDown
	}
	return nil
}

func (m *pingWords) Post(number uint64) error {
	w, p := m.w, m.p
	twinAt(w.region.Bytes, m.out).store(number)
	r := &w.requests[0]
	*r = rdma.SendRequest{ID: creditID, Opcode: rdma.Write, Flags: w.signal(p), Length: twinSize,
		Local: w.region.Address + uint64(m.out), LocalKey: w.region.LocalKey, Remote: p.there + probeOffset, RemoteKey: p.key}
	if w.settings.inline >= twinSize {
		r.Flags |= rdma.Inline
	}
	for {
		n, err := p.qp.PostSend(w.requests[:1])
		if n == 1 {
			return nil
		}
		if !errors.Is(err, rdma.ErrQueueFull) {
			return err
		}
		if _, err := w.collect(nil, 0); err != nil || p.state != up {
			return errors.Join(err, transport.ErrPeerDown)
		}
	}
}
