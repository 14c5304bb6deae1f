package rank

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// linkName is the name of the links in errors.
const linkName = "link"

// hotLinks is the number of idle links that a daemon still polls in every iteration; the other
// clients notify it.
const hotLinks = 4

// openLinks opens the links of mesh-proxied: shared memory between each client and each daemon
// of a rank, the same for every transport. The daemons have the first worker indices.
func openLinks(cfg config.Config) (*inbox.Transport, error) {
	return inbox.Open(inbox.Config{
		Name: linkName, Ring: inbox.Auto, Backing: shm.Memfd, HotRings: hotLinks,
		Workers: cfg.Daemons + cfg.Clients, Peers: max(cfg.Daemons, cfg.Clients),
		InFlight: cfg.InFlight, MaxPayload: cfg.LargestMessage(),
	})
}

// connectLinks connects the clients of mesh-proxied to the daemons of their rank.
func (r *Rank) connectLinks(ctx context.Context) error {
	if r.links == nil {
		return nil
	}
	cfg := r.plan.Config
	traces := make([]*trace, cfg.Clients)
	for i := range traces {
		traces[i] = &trace{}
	}
	daemons, clients := r.threads[:cfg.Daemons], r.threads[cfg.Daemons:]
	for i, d := range daemons {
		err := d.do(ctx, func() error {
			worker, err := r.links.NewWorker(i)
			if err != nil {
				return err
			}
			d.daemon.proxy = newProxy(r.wiring(), worker, traces)
			if err := d.daemon.proxy.out.keepFor(cfg); err != nil {
				return err
			}
			for j, c := range clients {
				if err := worker.Connect(ctx, transport.PeerID(j), c.worker.Address()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for j, c := range clients {
		err := c.do(ctx, func() error {
			c.client.trace = traces[j]
			for i, d := range daemons {
				if err := c.worker.Connect(ctx, transport.PeerID(i),
					d.daemon.proxy.links.Address()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

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

	traces  []*trace // by client
	tracing []*trace // picked up, not flushed yet
}

func newProxy(w wiring, links transport.Worker, traces []*trace) *proxy {
	open := w.cfg.Clients * w.cfg.InFlight
	return &proxy{
		links: links, events: make([]transport.Event, max(minPollBatch, min(open, maxPollBatch))),
		out: newOutbox(links, open), sends: w.cfg.Interleave == config.InterleaveSendPoll,
		forwards: newForwards(open),
		traces:   traces, tracing: make([]*trace, 0, len(traces)),
	}
}

// scan polls the links of the rank's clients. It answers requests for keys of this rank and
// forwards the others. With send-poll it first sends what the poll of other ranks brought.
func (d *daemon) scan() (int, error) {
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
		if err := d.take(e, &p.out); err != nil {
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
func (d *daemon) forward(e *transport.Event, owner int) {
	p := d.proxy
	d.counts.remote++
	f, token := p.forwards.open(e, &p.out)
	if t := p.traces[e.Peer]; t.traced(binary.LittleEndian.Uint64(e.Payload)) &&
		t.picked.Load() == 0 {
		t.picked.Store(d.clock.Now())
		f.trace = t
		p.tracing = append(p.tracing, t)
	}
	call := d.out.add()
	call.Kind = transport.OpCall
	call.Peer = wiring{cfg: d.cfg, rank: d.rank}.rankPeer(owner)
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
		t.flushed.Store(now)
	}
	p.tracing = p.tracing[:0]
}

// respond passes the response to a forwarded request on to its client.
func (d *daemon) respond(e *transport.Event) error {
	f, err := d.proxy.forwards.respond(e)
	if err != nil {
		return err
	}
	d.counts.responses++
	if f.trace != nil {
		f.trace.completed.Store(d.clock.Now())
	}
	return nil
}

// trace splits the service time of one remote request at a time into its stages in the
// client's rank. Client and daemon are threads of one process and share no lock or channel, so
// the words are atomic.
type trace struct {
	// word is the first word of the traced request, which has its key and operation; 0 for
	// none. The client stores it before it posts the request, and the daemon loads it after it
	// has polled a request.
	word atomic.Uint64
	// Ticks that the daemon stores before it posts the response, and that the client loads
	// after it has polled it. 0 is not stamped.
	picked, flushed, completed atomic.Uint64
	_                          [96]byte
}

// begin traces the request with that first word.
func (t *trace) begin(word uint64) {
	t.picked.Store(0)
	t.flushed.Store(0)
	t.completed.Store(0)
	t.word.Store(word) // pairs with the daemon's load in traced
}

// traced reports whether the request with that first word is traced.
func (t *trace) traced(word uint64) bool { return t.word.Load() == word }

// end returns the stages of a request that was issued and completed at these ticks. ok is false
// if the daemon has not stamped all of them.
func (t *trace) end(issued, now uint64) (stages [4]uint64, ok bool) {
	at := [5]uint64{issued, t.picked.Load(), t.flushed.Load(), t.completed.Load(), now}
	t.word.Store(0)
	for i := range stages {
		// The daemon may have stamped another request with the same word.
		if at[i+1] < at[i] || at[i+1] == 0 {
			return stages, false
		}
		stages[i] = at[i+1] - at[i]
	}
	return stages, true
}
