package rank

import (
	"context"
	"fmt"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// openSiblings opens the shared memory between the daemons of a rank, the same for every transport.
func openSiblings(w wiring) (*inbox.Transport, error) {
	return inbox.Open(inbox.Config{
		Name: "sibling", Ring: inbox.Auto, Backing: shm.Memfd, HotRings: hotLinks,
		Workers: w.cfg.Daemons, Peers: w.cfg.Daemons,
		InFlight: w.openCalls(), MaxPayload: w.cfg.LargestMessage(),
	})
}

// connectSiblings connects the daemons of a rank that delegate with each other.
func (r *Rank) connectSiblings(ctx context.Context) error {
	if r.siblings == nil {
		return nil
	}
	w := r.wiring()
	daemons, _ := w.cfg.Threads(w.rank)
	all := r.threads[:daemons]
	err := eachOf(ctx, all, func(t *thread) error {
		worker, err := r.siblings.NewWorker(t.id.Daemon)
		if err != nil {
			return err
		}
		t.daemon.delegation, err = newDelegation(w, t.id.Daemon, worker)
		return err
	})
	if err != nil {
		return err
	}
	return eachOf(ctx, all, func(t *thread) error {
		for i, sibling := range all {
			if sibling == t {
				continue
			}
			if err := t.daemon.delegation.siblings.Connect(ctx, transport.PeerID(i),
				sibling.daemon.delegation.siblings.Address()); err != nil {
				return err
			}
		}
		return nil
	})
}

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

func newDelegation(w wiring, index int, siblings transport.Worker) (*delegation, error) {
	open := w.openCalls()
	g := &delegation{
		index: index, daemons: w.cfg.Daemons, siblings: siblings,
		events:   make([]transport.Event, max(minPollBatch, min(open, maxPollBatch))),
		out:      newOutbox(siblings, open*w.cfg.Daemons),
		forwards: newForwards(open),
	}
	return g, g.out.keepFor(w.cfg)
}

// owner returns the daemon of the rank that serves a request, or this one if the request has no
// key.
func (g *delegation) owner(request []byte) int {
	if key, ok := kv.KeyOf(request); ok {
		return kv.DaemonOf(key, g.daemons)
	}
	return g.index
}

// take serves a request of a client or another rank, whose reply goes to out, or passes it on to
// the daemon that owns its key.
func (d *daemon) take(e *transport.Event, out *outbox) error {
	if g := d.delegation; g != nil {
		if owner := g.owner(e.Payload); owner != g.index {
			return d.delegate(e, out, owner)
		}
	}
	d.serveLater(e, out)
	return nil
}

// delegate passes a request on to the daemon that owns its key.
func (d *daemon) delegate(e *transport.Event, out *outbox, owner int) error {
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
func (d *daemon) pollSiblings() (int, error) {
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
			d.serveLater(e, &g.out)
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
