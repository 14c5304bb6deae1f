//go:build ibverbs

package rdma

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"transportbench/core/fabric/rdma/internal/ibverbs"
	"transportbench/core/fabric/rdma/internal/objects"
)

type verbsCompletionQueue struct {
	device   *verbsDevice
	cq       *ibverbs.CQ
	notifier *verbsNotifier // nil without a notifier
	pairs    int            // queue pairs made so far
	pending  []Completion   // taken by Wait for the next Poll
	closed   bool
}

// NewCompletionQueue implements [Device].
func (d *verbsDevice) NewCompletionQueue(capacity int) (CompletionQueue, error) {
	if err := d.attributes.CheckCapacity("completion queue", capacity,
		d.attributes.MaxCompletions); err != nil {
		return nil, err
	}
	cq, err := d.context.NewCQ(capacity)
	if err != nil {
		return nil, err
	}
	c := &verbsCompletionQueue{device: d, cq: cq}
	return c, d.Adopt(c, objects.Queues)
}

func (c *verbsCompletionQueue) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	c.device.Disown(c)
	return c.cq.Close()
}

type verbsReceiveQueue struct {
	device *verbsDevice
	srq    *ibverbs.SRQ
	closed bool
}

// NewSharedReceiveQueue implements [Device].
func (d *verbsDevice) NewSharedReceiveQueue(capacity int) (SharedReceiveQueue, error) {
	if err := d.attributes.CheckCapacity("shared receive queue", capacity,
		d.attributes.MaxShared); err != nil {
		return nil, err
	}
	srq, err := d.context.NewSRQ(capacity)
	if err != nil {
		return nil, err
	}
	s := &verbsReceiveQueue{device: d, srq: srq}
	return s, d.Adopt(s, objects.Queues)
}

func (s *verbsReceiveQueue) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.device.Disown(s)
	return s.srq.Close()
}

type verbsQueuePair struct {
	device   *verbsDevice
	pair     *ibverbs.Pair
	config   QueuePairConfig
	sequence uint32
	shared   bool
	ready    bool          // takes requests
	loop     *ibverbs.Loop // nil without one
	closed   bool
}

// NewQueuePair implements [Device].
func (d *verbsDevice) NewQueuePair(c QueuePairConfig) (QueuePair, error) {
	if err := c.Check(d.attributes); err != nil {
		return nil, err
	}
	a := &d.attributes
	cq, ok := c.Completions.(*verbsCompletionQueue)
	if !ok || cq.device != d {
		return nil, Invalid("completion queue of another device")
	}
	o := ibverbs.PairConfig{Datagrams: c.Type == UnreliableDatagram, Atomics: a.Atomics &&
		c.Type != UnreliableDatagram, CQ: cq.cq, Send: c.SendDepth, Receive: c.ReceiveDepth,
		Inline: c.MaxInline, MTU: a.MTU, Port: a.Port, Cookie: c.Cookie, QKey: c.QKey,
		Dynamic: c.Type == DynamicallyConnected, Global: d.port.Ethernet, GIDIndex: a.GIDIndex,
		Reads: a.MaxReadsInFlight}
	if c.Shared != nil {
		srq, ok := c.Shared.(*verbsReceiveQueue)
		if !ok || srq.device != d {
			return nil, Invalid("shared receive queue of another device")
		}
		o.SRQ = srq.srq
	}
	pair, err := d.context.NewPair(o)
	if err != nil && o.Dynamic {
		return nil, Invalid("make DC queue pair on %s: %w", a.Name, err)
	}
	if err != nil {
		return nil, d.explainNoPair(o, err)
	}
	cq.pairs++
	q := &verbsQueuePair{device: d, pair: pair, config: c, sequence: rand.Uint32() & (1<<24 - 1),
		shared: c.Shared != nil, ready: c.Type != ReliableConnected}
	return q, d.Adopt(q, objects.QueuePairs)
}

// explainNoPair returns the error of a failed NewPair. If the inline size was the cause, it
// finds the largest size that the device grants.
func (d *verbsDevice) explainNoPair(o ibverbs.PairConfig, err error) error {
	err = fmt.Errorf("make queue pair on %s: ibv_create_qp: %w", d.attributes.Name, err)
	wanted := o.Inline
	grants := func(n int) bool {
		o.Inline = n
		pair, err := d.context.NewPair(o)
		if err != nil {
			return false
		}
		return pair.Close() == nil
	}
	if wanted == 0 || !grants(0) {
		return err
	}
	low, high := 0, wanted
	for low+1 < high {
		if middle := (low + high) / 2; grants(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return Invalid("inline size of %d bytes: %s grants %d at most", wanted, d.attributes.Name, low)
}

func (q *verbsQueuePair) MaxInline() int { return q.pair.Inline }

func (q *verbsQueuePair) Endpoint() Endpoint {
	return Endpoint{Provider: Verbs, Type: q.config.Type, Number: q.pair.Number,
		Sequence: q.sequence, QKey: q.config.QKey,
		LID: q.device.port.LID, GID: slices.Clone(q.device.gid[:]), MTU: q.device.attributes.MTU}
}

// path returns the path to a remote queue pair.
func (q *verbsQueuePair) path(remote Endpoint) (ibverbs.Path, error) {
	p := ibverbs.Path{Port: q.device.attributes.Port, GIDIndex: q.device.attributes.GIDIndex,
		LID: remote.LID, Number: remote.Number,
		Sequence: remote.Sequence, Own: q.sequence}
	if q.closed {
		return p, ErrClosed
	}
	if err := q.Endpoint().CheckRemote(remote); err != nil {
		return p, err
	}
	if len(remote.GID) != len(p.GID) {
		return p, fmt.Errorf("%w: its GID has %d bytes, want %d", ErrPeer, len(remote.GID),
			len(p.GID))
	}
	copy(p.GID[:], remote.GID)
	// RoCE always routes by GID; within an InfiniBand subnet the LID suffices.
	p.Global = q.device.port.Ethernet || remote.LID == 0
	return p, nil
}

// Connect implements [QueuePair].
func (q *verbsQueuePair) Connect(remote Endpoint, options ConnectOptions) error {
	if q.config.Type != ReliableConnected {
		return Invalid("Connect of a %v queue pair", q.config.Type)
	}
	if q.ready {
		return Invalid("Connect of a queue pair that is connected")
	}
	o, err := options.Complete(q.Endpoint(), remote)
	if err != nil {
		return err
	}
	p, err := q.path(remote)
	if err != nil {
		return err
	}
	p.MTU, _ = mtuCode(o.MTU)
	p.Timeout, p.Retries, p.NotReadyRetries, p.NotReadyTimer = o.Timeout, o.Retries,
		o.ReceiverNotReadyRetries, o.ReceiverNotReadyTimer
	if p.Reads = o.ReadsInFlight; p.Reads > q.device.attributes.MaxReadsInFlight {
		return Invalid("number of READs in flight of %d: %s has %d at most", p.Reads,
			q.device.attributes.Name, q.device.attributes.MaxReadsInFlight)
	}
	if err := q.pair.Connect(p); err != nil {
		return fmt.Errorf("%w: %w", ErrPeer, err)
	}
	q.ready = true
	return nil
}

// AddPeer implements [QueuePair].
func (q *verbsQueuePair) AddPeer(remote Endpoint) (PeerHandle, error) {
	if q.config.Type == ReliableConnected {
		return 0, Invalid("AddPeer of a %v queue pair", q.config.Type)
	}
	p, err := q.path(remote)
	if err != nil {
		return 0, err
	}
	h, err := q.pair.AddPeer(p, remote.QKey)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	return PeerHandle(h), nil
}

// Restart takes the initiator of a DC queue pair from the error state back to sending. Requests
// that have not completed are dropped.
func (q *verbsQueuePair) Restart() error {
	switch {
	case q.closed:
		return ErrClosed
	case q.config.Type != DynamicallyConnected:
		return Invalid("Restart of a %v queue pair", q.config.Type)
	}
	return q.pair.Restart()
}

// Close implements [QueuePair].
func (q *verbsQueuePair) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	q.device.Disown(q)
	if q.loop != nil {
		q.loop.Close()
	}
	return q.pair.Close()
}
