package daemon

import (
	"fmt"

	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// delegation is the part of a daemon that passes requests on to the daemon of its rank that owns
// their keys, and serves those that its siblings pass to it. Each daemon always polls the others,
// and keeps what they have no room for, so daemons that wait for each other make progress.
type delegation struct {
	index, daemons int
	siblings       transport.Worker
	events         []transport.Event
	out            outbox // calls and replies to siblings
	forwards       forwards
}

func newDelegation(w wiring.Wiring, index int, siblings transport.Worker) (*delegation, error) {
	open := w.OpenCalls()
	g := &delegation{
		index: index, daemons: w.Config.Daemons, siblings: siblings,
		events:   make([]transport.Event, max(loop.MinBatch, min(open, loop.MaxBatch))),
		out:      newOutbox(siblings, open*w.Config.Daemons),
		forwards: newForwards(open),
	}
	return g, g.out.keepFor(w.Config)
}

// owner returns the daemon of the rank that serves a request, or this one if the request has no
// key.
func (g *delegation) owner(request []byte) int {
	if key, ok := kv.KeyOf(request); ok {
		return kv.DaemonOf(key, g.daemons)
	}
	return g.index
}

// route serves a request from a client or another rank and puts the reply into out, or passes the
// request on to the daemon that owns its key.
func (d *Daemon) route(e *transport.Event, out *outbox) error {
	if g := d.delegation; g != nil {
		if owner := g.owner(e.Payload); owner != g.index {
			return d.passOn(e, out, owner)
		}
	}
	d.serve(e, out)
	return nil
}

// passOn passes a request on to the daemon that owns its key.
func (d *Daemon) passOn(e *transport.Event, out *outbox, owner int) error {
	g := d.delegation
	if g.forwards.full() || g.out.full() {
		return fmt.Errorf("serve: callers have more open requests than the %d that the run allows",
			len(g.forwards.list))
	}
	d.counts.delegated++
	_, token := g.forwards.open(e, out)
	call := g.out.add()
	call.Kind = transport.OpCall
	call.Peer = transport.PeerID(owner)
	call.Token = token
	call.Payload = e.Payload
	return nil
}

// pollSiblings serves the requests that siblings have passed on, and passes their responses on to
// the callers. It returns the number of both.
func (d *Daemon) pollSiblings() (int, error) {
	g := d.delegation
	n, err := g.siblings.Poll(g.events)
	if err != nil {
		return n, fmt.Errorf("poll the daemons of the rank: %w", err)
	}
	for i := range g.events[:n] {
		e := &g.events[i]
		switch e.Kind {
		case transport.EventRequest:
			if g.out.full() {
				return n, fmt.Errorf("serve: the daemons of the rank have more open requests "+
					"than the %d that the run allows", cap(g.out.ops))
			}
			d.counts.forSiblings++
			d.serve(e, &g.out)
		case transport.EventResponse:
			if _, err := g.forwards.respond(e); err != nil {
				return n, err
			}
		default:
			continue // a daemon has closed its worker
		}
		if err := d.flushIfImmediate(); err != nil {
			return n, err
		}
	}
	return n, nil
}
