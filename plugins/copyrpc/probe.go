package copyrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: the two sides write a number back and forth, as ib_write_lat
// does. Of the soft device, whose medium is memory, the runtime measures the floor itself.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, probe transport.Probe) (transport.Floor, error) {
	if probe.Kind != transport.ProbeMedium {
		return transport.Floor{}, name.PeerError("probe", id, transport.ErrUnsupported)
	}
	p := w.peers.Get(id)
	for !w.closed && p != nil && p.state == connecting {
		if err := context.Cause(ctx); err != nil {
			return transport.Floor{}, name.PeerError("probe", id, fmt.Errorf("the peer has not connected: %w", err))
		}
		w.manager.progress()
		runtime.Gosched()
	}
	return name.Probe(id, w.closed, p != nil && p.state == up, func() (transport.Floor, error) {
		return w.pingPong(p).Run(ctx, probe.Initiate, probe.Duration)
	})
}

// pingPong returns the peer's ping-pong: each side writes a number into a word at the
// other with RDMA WRITE.
func (w *worker) pingPong(p *peer) *floor.PingPong {
	if p.pings.Medium == nil {
		in := doubleWordAt(w.region.Bytes, w.control(p.cookie)+probeOffset)
		p.pings = floor.PingPong{Name: "RDMA write ping-pong", Medium: &pingWords{w: w, p: p, in: in}}
	}
	return &p.pings
}

// pingWords is the [floor.Medium] of a ping-pong of WRITEs.
type pingWords struct {
	w     *worker
	p     *peer
	in    doubleWord // written by the peer
	looks int
}

// Take implements [floor.Medium].
func (m *pingWords) Take() (number uint64, ok bool, err error) {
	m.looks++
	if m.looks%managerInterval == 0 {
		if err := m.checkConnection(); err != nil {
			return 0, false, err
		}
	}
	number, ok = m.in.load()
	return number, ok, nil
}

// checkConnection returns an error if the connection is lost. It also handles datagrams: a
// peer that lost the one that brings its connection up would never take part.
func (m *pingWords) checkConnection() error {
	m.w.manager.progress()
	if _, err := m.w.collect(nil, 0); err != nil {
		return err
	}
	if m.p.state != up {
		return transport.ErrPeerDown
	}
	return nil
}

// Post implements [floor.Medium].
func (m *pingWords) Post(number uint64) error {
	w, p := m.w, m.p
	doubleWordAt(w.region.Bytes, w.control(p.cookie)+pingOffset).store(number)
	w.prepareWord(p, pingOffset, probeOffset)
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
