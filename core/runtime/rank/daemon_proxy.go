package rank

import (
	"encoding/binary"
	"fmt"

	"transportbench/core/base/machine"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// proxy is what a daemon of mesh-proxied has for its rank's clients: the far
// end of their links, and the calls that it forwards for them.
type proxy struct {
	links  transport.Worker
	events []transport.Event
	out    outbox // responses to clients

	forwards []forward // by the token of the call over the transport
	free     []uint32  // indices of forwards; a stack
	// held says that calls wait for the transport, whose payloads lie in what
	// the last scan returned.
	held bool

	traces  []*trace // by client
	tracing []*trace // picked up and not flushed yet
}

// forward is a client's request on its way to another rank.
type forward struct {
	client transport.PeerID
	token  transport.Token // the link's
	trace  *trace          // nil for most
	open   bool            // it has no response yet
}

func newProxy(w wiring, links transport.Worker, traces []*trace) *proxy {
	open := w.cfg.Clients * w.cfg.InFlight
	p := &proxy{
		links: links, events: make([]transport.Event, max(pollBatch, min(open, mostPoll))),
		out:      newOutbox(links, open),
		forwards: make([]forward, open), free: make([]uint32, open),
		traces: traces, tracing: make([]*trace, 0, len(traces)),
	}
	for i := range p.free {
		p.free[i] = uint32(open - 1 - i)
	}
	return p
}

// scan takes up what the rank's clients ask for: a key of this rank's is looked
// up, another one forwarded. Only links that are in use are looked at.
func (d *daemon) scan() (int, error) {
	p := d.proxy
	if p.held {
		d.counts.held++
		return 0, nil
	}
	n, err := p.links.Poll(p.events)
	if err != nil {
		return n, fmt.Errorf("polling the clients' links: %w", err)
	}
	for i := range p.events[:n] {
		e := &p.events[i]
		if e.Kind != transport.EventRequest {
			continue // a client that closes its link
		}
		if len(p.free) == 0 || p.out.full() {
			return n, fmt.Errorf("clients have more than the %d requests open that the run allows", len(p.forwards))
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
		d.answer(e, &p.out)
		if err := d.flushIfImmediate(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// forward passes a client's request on to the rank that owns its key. The
// payload lies in the link until the next scan, which waits for it to be
// posted.
func (d *daemon) forward(e *transport.Event, owner int) {
	p := d.proxy
	d.counts.remote++
	last := len(p.free) - 1
	index := p.free[last]
	p.free = p.free[:last]
	f := &p.forwards[index]
	f.client = e.Peer
	f.token = e.Token
	f.trace = nil
	f.open = true
	if t := p.traces[e.Peer]; t.traced(binary.LittleEndian.Uint64(e.Payload)) && t.picked.Load() == 0 {
		t.picked.Store(d.clock.Now())
		f.trace = t
		p.tracing = append(p.tracing, t)
	}
	call := d.out.add()
	call.Kind = transport.OpCall
	call.Peer = wiring{d.cfg, d.rank}.other(owner)
	call.Token = transport.Token(index)
	call.Payload = e.Payload
}

// flushed stamps the traced requests whose doorbell has rung.
func (p *proxy) flushed(clock *machine.Clock) {
	if len(p.tracing) == 0 {
		return
	}
	now := clock.Now()
	for _, t := range p.tracing {
		t.flushed.Store(now)
	}
	p.tracing = p.tracing[:0]
}

// respond hands the response to a forwarded request to its client. One that the
// transport failed goes without a payload, which the client counts as wrong.
func (d *daemon) respond(e *transport.Event) error {
	p := d.proxy
	if e.Token >= transport.Token(len(p.forwards)) || !p.forwards[e.Token].open {
		return fmt.Errorf("daemon was sent a response with token %d, which no call of it has: %w", e.Token, transport.ErrCorrupt)
	}
	d.counts.responses++
	f := &p.forwards[e.Token]
	f.open = false
	if f.trace != nil {
		f.trace.completed.Store(d.clock.Now())
	}
	reply := p.out.add()
	reply.Kind = transport.OpReply
	reply.Peer = f.client
	reply.Token = f.token
	reply.Payload = e.Payload
	p.free = append(p.free, uint32(e.Token))
	return nil
}
