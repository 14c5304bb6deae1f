package daemon

import (
	"encoding/binary"
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// proxy is the part of a daemon of mesh-proxied that serves its rank's clients: its end of
// their links, and the calls that it forwards for them.
type proxy struct {
	links  transport.Worker
	events []transport.Event
	out    outbox // responses to clients
	sends  bool   // before each scan, not only at the end of an iteration

	forwards forwards
	// held is true while calls wait for room in the transport. Their payloads lie in the links'
	// memory, which the next scan would release.
	held bool

	traces  []*loop.LinkTrace // by client
	tracing []*loop.LinkTrace // picked up, not flushed yet
}

func newProxy(w wiring.Wiring, links transport.Worker, traces []*loop.LinkTrace) *proxy {
	open := w.Config.Clients * w.Config.InFlight
	return &proxy{
		links: links, events: make([]transport.Event, max(loop.MinBatch, min(open, loop.MaxBatch))),
		out: newOutbox(links, open), sends: w.Config.Interleave == config.InterleaveSendPoll,
		forwards: newForwards(open),
		traces:   traces, tracing: make([]*loop.LinkTrace, 0, len(traces)),
	}
}

// scan polls the links of the rank's clients. It answers requests for keys of this rank and
// forwards the others. With send-poll it first flushes the replies to other ranks.
func (d *Daemon) scan() (int, error) {
	p := d.proxy
	if p.sends {
		if err := d.flushAll(); err != nil {
			return 0, err
		}
	}
	if p.held {
		d.counts.held++
		return 0, nil
	}
	n, err := p.links.Poll(p.events)
	if err != nil {
		return n, fmt.Errorf("poll the clients' links: %w", err)
	}
	for i := range p.events[:n] {
		e := &p.events[i]
		if e.Kind != transport.EventRequest {
			continue // a client has closed its link
		}
		if p.forwards.full() || p.out.full() {
			return n,
				fmt.Errorf("scan: clients have more open requests than the %d that the run allows",
					cap(p.out.ops))
		}
		d.counts.fromClients++
		if key, ok := kv.KeyOf(e.Payload); ok {
			if owner := kv.RankOf(key, d.cfg.Ranks); owner != d.rank {
				d.forward(e, owner)
				if err := d.flushIfImmediate(); err != nil {
					return n, err
				}
				continue
			}
		}
		d.counts.local++
		if err := d.route(e, &p.out); err != nil {
			return n, err
		}
		if err := d.flushIfImmediate(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// forward passes a client's request on to the rank that owns its key. The payload stays in the
// link's memory, so there is no scan until the call is posted.
func (d *Daemon) forward(e *transport.Event, owner int) {
	p := d.proxy
	d.counts.remote++
	f, token := p.forwards.open(e, &p.out)
	if t := p.traces[e.Peer]; t.Traced(binary.LittleEndian.Uint64(e.Payload)) &&
		t.Picked.Load() == 0 {
		t.Picked.Store(d.clock.Now())
		f.trace = t
		p.tracing = append(p.tracing, t)
	}
	call := d.out.add()
	call.Kind = transport.OpCall
	call.Peer = wiring.Wiring{Config: d.cfg, Rank: d.rank}.RankPeer(owner)
	call.Token = token
	call.Payload = e.Payload
}

// flushed stamps the traced requests that were flushed.
func (p *proxy) flushed(clock *machine.Clock) {
	if len(p.tracing) == 0 {
		return
	}
	now := clock.Now()
	for _, t := range p.tracing {
		t.Flushed.Store(now)
	}
	p.tracing = p.tracing[:0]
}

// respond passes the response to a forwarded request on to its client.
func (d *Daemon) respond(e *transport.Event) error {
	f, err := d.proxy.forwards.respond(e)
	if err != nil {
		return err
	}
	d.counts.responses++
	if f.trace != nil {
		f.trace.Completed.Store(d.clock.Now())
	}
	return nil
}
