package transporttest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"transportbench/core/transport"
)

// layout is the cluster that a clause needs. Zero values mean two ranks with one worker each, room
// for all workers of the other ranks, and the suite's sizes.
type layout struct {
	ranks, workers, peers int
	inFlight, maxPayload  int
}

func (l layout) complete(t *trial) layout {
	set := func(field *int, standard int) {
		if *field == 0 {
			*field = standard
		}
	}
	set(&l.ranks, 2)
	set(&l.workers, 1)
	set(&l.peers, (l.ranks-1)*l.workers)
	set(&l.inFlight, t.suite.InFlight)
	set(&l.inFlight, 16)
	set(&l.maxPayload, t.suite.MaxPayload)
	set(&l.maxPayload, 64<<10)

	limits := t.traits.info.Limits
	l.maxPayload = min(l.maxPayload, limits.MaxPayload)
	if limits.InFlight > 0 {
		l.inFlight = min(l.inFlight, limits.InFlight)
	}
	return l
}

// cluster has the ranks of one clause, all in this process.
type cluster struct {
	trial     *trial
	layout    layout
	limits    transport.Limits
	endpoints []*endpoint
	nodes     []*node
}

type endpoint struct {
	transport.Transport
	closed bool
}

func (t *trial) openRank(number int, l layout) (transport.Transport, error) {
	options, err := transport.ParseOptions(t.traits.info.Options, t.suite.Options)
	if err != nil {
		return nil, err
	}
	return t.suite.Driver.Open(t.Context(), transport.Config{
		Rank: number, Workers: l.workers, Peers: l.peers,
		InFlight: l.inFlight, MaxPayload: l.maxPayload, HostPrefix: headSize, Options: options,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// open opens the ranks and makes their workers, unconnected. The nodes are ordered by rank and
// worker. Everything is closed after the clause.
func (t *trial) open(l layout) *cluster {
	l = l.complete(t)
	c := &cluster{trial: t, layout: l}
	t.Cleanup(c.close)
	for r := range l.ranks {
		opened, err := t.openRank(r, l)
		if err != nil {
			t.Fatalf("Open of rank %d: %v", r, err)
		}
		c.endpoints = append(c.endpoints, &endpoint{Transport: opened})
		for w := range l.workers {
			c.nodes = append(c.nodes, c.newNode(r, w))
		}
	}
	c.limits = c.endpoints[0].Properties().Limits
	return c
}

func (c *cluster) newNode(r, index int) *node {
	worker, err := c.endpoints[r].NewWorker(index)
	if err != nil {
		c.trial.Fatalf("NewWorker(%d) of rank %d: %v", index, r, err)
	}
	return &node{
		trial: c.trial, cluster: c, endpoint: c.endpoints[r], worker: worker,
		name:    fmt.Sprintf("worker %d of rank %d", index, r),
		events:  make([]transport.Event, 32),
		waiting: map[transport.Token]call{},
		lost:    map[transport.PeerID]bool{},
	}
}

// close closes every transport that is still open, at the end of the clause.
func (c *cluster) close() {
	for i, r := range c.endpoints {
		if !r.closed {
			r.closed = true
			if err := r.Close(); err != nil {
				c.trial.Errorf("Transport.Close of rank %d: %v", i, err)
			}
		}
	}
}

// depth returns the number of calls in flight that a connection must allow.
func (c *cluster) depth() int {
	if c.limits.InFlight > 0 {
		return min(c.layout.inFlight, c.limits.InFlight)
	}
	return c.layout.inFlight
}

// connect connects a to b under a's next free number, one way.
func (c *cluster) connect(a, b *node) transport.PeerID {
	peer := transport.PeerID(len(a.peers))
	c.connectAs(a, b, peer)
	return peer
}

func (c *cluster) connectAs(a, b *node, peer transport.PeerID) {
	for len(a.peers) <= int(peer) {
		a.peers = append(a.peers, nil)
	}
	a.peers[peer] = b
	ctx, cancel := context.WithCancel(c.trial.Context())
	defer cancel()
	if err := a.worker.Connect(ctx, peer, slices.Clone(b.worker.Address())); err != nil {
		c.trial.Fatalf("%s: Connect to %s: %v", a.name, b.name, err)
	}
}

// join connects two nodes both ways and returns the numbers of b at a and of a at b.
func (c *cluster) join(a, b *node) (ab, ba transport.PeerID) {
	return c.connect(a, b), c.connect(b, a)
}

// pair opens two ranks with one worker each, which are peer 0 of each other.
func (t *trial) pair(l layout) (*cluster, *node, *node) {
	c := t.open(l)
	c.join(c.nodes[0], c.nodes[1])
	return c, c.nodes[0], c.nodes[1]
}

// star opens ranks with one worker each. The first is connected to all others, as its peers 0, 1
// and so on, and is peer 0 of each.
func (t *trial) star(ranks int) (*cluster, *node, []*node) {
	c := t.open(layout{ranks: ranks})
	for _, n := range c.nodes[1:] {
		c.join(c.nodes[0], n)
	}
	return c, c.nodes[0], c.nodes[1:]
}

// step lets every open node flush, poll and reply once.
func (c *cluster) step() {
	for _, n := range c.nodes {
		n.step()
	}
}

// until steps the cluster until done returns true.
func (c *cluster) until(what string, done func() bool) {
	for spins := 0; !done(); spins++ {
		c.trial.Pause(spins, "%s", what)
		c.step()
	}
}

// drain waits until every call has its response.
func (c *cluster) drain() {
	c.until("the responses to all calls", func() bool {
		for _, n := range c.nodes {
			if !n.closed && (len(n.waiting) > 0 || len(n.outbox) > 0) {
				return false
			}
		}
		return true
	})
}

// settle checks that nothing else arrives: it makes one more call on every connection, which
// arrives after all earlier messages, and polls some more.
func (c *cluster) settle() {
	for _, n := range c.nodes {
		for peer, other := range n.peers {
			if other != nil && !n.closed && !other.closed {
				n.call(transport.PeerID(peer), nil)
			}
		}
	}
	c.drain()
	for range 100 {
		c.step()
	}
}

// closeRank closes a transport without closing its workers one by one.
func (c *cluster) closeRank(number int) {
	r := c.endpoints[number]
	r.closed = true
	for _, n := range c.nodes {
		if n.endpoint == r {
			n.closed = true
		}
	}
	if err := r.Close(); err != nil {
		c.trial.Fatalf("Transport.Close of rank %d: %v", number, err)
	}
}
