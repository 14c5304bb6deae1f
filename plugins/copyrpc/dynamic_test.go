package copyrpc

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

// fakeDynamic is a soft device with DC queue pairs, as no device without mlx5 has any.
type fakeDynamic struct{ rdma.Device }

func openDynamic(o rdma.Options) (rdma.Device, error) {
	d, err := devices.Open(o)
	if err != nil {
		return nil, err
	}
	return fakeDynamic{d}, nil
}

func (d fakeDynamic) Attributes() rdma.Attributes {
	a := d.Device.Attributes()
	a.DeliversAfterClose = false // what waits for another peer's acknowledgement is lost
	return a
}

func (d fakeDynamic) NewCompletionQueue(capacity int) (rdma.CompletionQueue, error) {
	q, err := d.Device.NewCompletionQueue(capacity)
	return &fakeQueue{CompletionQueue: q}, err
}

func (d fakeDynamic) NewNotifier(queues ...rdma.CompletionQueue) (rdma.Notifier, error) {
	var soft []rdma.CompletionQueue
	for _, q := range queues {
		soft = append(soft, q.(*fakeQueue).CompletionQueue)
	}
	return d.Device.NewNotifier(soft...)
}

// fakePairs are the DC queue pairs of this process by number.
var fakePairs struct {
	sync.Mutex
	all map[uint32]*fakePair
}

func (d fakeDynamic) NewQueuePair(c rdma.QueuePairConfig) (rdma.QueuePair, error) {
	queue := c.Completions.(*fakeQueue)
	c.Completions = queue.CompletionQueue
	if c.Type != rdma.DynamicallyConnected {
		return d.Device.NewQueuePair(c)
	}
	if c.Shared == nil || queue.pair != nil {
		return nil, errors.New("a DC queue pair without a shared receive queue, or a second one")
	}
	p := &fakePair{queue: queue, depth: c.SendDepth, key: c.QKey, slotOf: map[uint32]int{}}
	queue.pair = p
	c.Type = rdma.ReliableConnected
	for range max(c.Peers, 1) {
		qp, err := d.Device.NewQueuePair(c)
		if err != nil {
			return nil, err
		}
		p.slots, p.endpoints = append(p.slots, qp), append(p.endpoints, qp.Endpoint())
	}
	p.QueuePair = p.slots[0]
	fakePairs.Lock()
	defer fakePairs.Unlock()
	if fakePairs.all == nil {
		fakePairs.all = map[uint32]*fakePair{}
	}
	p.number = uint32(len(fakePairs.all) + 1)
	fakePairs.all[p.number] = p
	return p, nil
}

// fakePair is a DC queue pair over an RC one for each peer. Like an initiator, it carries out its
// requests in order, those to another peer once all before are acknowledged, and fails as a whole.
// It reads the memory of inline requests late, as they may be posted again.
type fakePair struct {
	rdma.QueuePair
	queue       *fakeQueue
	number, key uint32
	depth       int
	slots       []rdma.QueuePair
	endpoints   []rdma.Endpoint // of slots
	slotOf      map[uint32]int  // by the number of a peer; fakePairs guards it
	peers       []int           // slots by handle

	waiting, started []rdma.SendRequest
	posting          [1]rdma.SendRequest
	used, done       int // entries of the send queue: taken, and freed by the next signaled one
	generation       uint64
	failed           bool
	restarts         int
}

func (p *fakePair) Endpoint() rdma.Endpoint {
	e := p.endpoints[0]
	e.Type, e.Number, e.QKey = rdma.DynamicallyConnected, p.number, p.key
	return e
}

func (p *fakePair) Connect(rdma.Endpoint, rdma.ConnectOptions) error {
	return errors.New("Connect of a DC queue pair")
}

// slot returns the slot for a peer. The caller holds fakePairs.
func (p *fakePair) slot(peer uint32) int {
	i, ok := p.slotOf[peer]
	if !ok {
		i = len(p.slotOf)
		p.slotOf[peer] = i
	}
	return i
}

func (p *fakePair) AddPeer(remote rdma.Endpoint) (rdma.PeerHandle, error) {
	fakePairs.Lock()
	there := fakePairs.all[remote.Number]
	here, endpoint := p.slot(remote.Number), there.endpoints[there.slot(p.number)]
	fakePairs.Unlock()
	if remote.Type != rdma.DynamicallyConnected || remote.QKey != there.key {
		return 0, errors.New("no endpoint of a DC queue pair")
	}
	p.peers = append(p.peers, here)
	return rdma.PeerHandle(len(p.peers) - 1), p.slots[here].Connect(endpoint, rdma.ConnectOptions{})
}

func (p *fakePair) PostSend(requests []rdma.SendRequest) (int, error) {
	for i, r := range requests {
		switch {
		case int(r.Peer) >= len(p.peers):
			return i, rdma.ErrNoPeer
		case p.used == p.depth:
			p.start()
			return i, rdma.ErrQueueFull
		}
		p.used++
		p.waiting = append(p.waiting, r)
		if p.failed {
			p.flush()
		}
	}
	p.start()
	return len(requests), nil
}

// fakeMark is in the IDs of what a fakePair starts.
const fakeMark = 1 << 63

func (p *fakePair) start() {
	for !p.failed && len(p.waiting) > 0 &&
		(len(p.started) == 0 || p.started[0].Peer == p.waiting[0].Peer) {
		r := p.waiting[0]
		r.ID, r.Flags = fakeMark|p.generation, rdma.Signaled
		p.posting[0] = r
		if n, _ := p.slots[p.peers[r.Peer]].PostSend(p.posting[:]); n == 0 {
			return
		}
		p.started, p.waiting = append(p.started, p.waiting[0]), slices.Delete(p.waiting, 0, 1)
	}
}

// complete takes the completion of the first request that is started.
func (p *fakePair) complete(c rdma.Completion) {
	if c.ID != fakeMark|p.generation || p.failed {
		return
	}
	r := p.started[0]
	p.started = slices.Delete(p.started, 0, 1)
	c.ID = r.ID
	if p.done++; r.Flags&rdma.Signaled != 0 || c.Status != rdma.StatusOK {
		p.used -= p.done
		p.done = 0
		p.queue.ready = append(p.queue.ready, c)
	}
	if p.failed = c.Status != rdma.StatusOK; p.failed {
		p.flush()
	}
}

// flush completes all requests, as a queue pair in the error state does.
func (p *fakePair) flush() {
	for _, r := range slices.Concat(p.started, p.waiting) {
		p.queue.ready = append(p.queue.ready, rdma.Completion{ID: r.ID, Status: rdma.StatusFlushed})
	}
	p.started, p.waiting = p.started[:0], p.waiting[:0]
}

// Restart leaves the completions in the queue, as a device may.
func (p *fakePair) Restart() error {
	p.generation++
	p.restarts++
	p.started, p.waiting, p.used, p.done, p.failed = p.started[:0], p.waiting[:0], 0, 0, false
	return nil
}

func (p *fakePair) Close() (err error) {
	for _, s := range p.slots {
		err = errors.Join(err, s.Close())
	}
	return err
}

// fakeQueue is the completion queue of a fakePair, or of other queue pairs.
type fakeQueue struct {
	rdma.CompletionQueue
	pair  *fakePair
	ready []rdma.Completion
	found [16]rdma.Completion
}

func (q *fakeQueue) Poll(completions []rdma.Completion) (int, error) {
	n, err := q.CompletionQueue.Poll(q.found[:])
	if err != nil {
		return 0, err
	}
	for _, c := range q.found[:n] {
		if c.ID&fakeMark != 0 {
			q.pair.complete(c)
		} else {
			q.ready = append(q.ready, c)
		}
	}
	if q.pair != nil {
		q.pair.start()
	}
	n = copy(completions, q.ready)
	q.ready = slices.Delete(q.ready, 0, n)
	return n, nil
}

// useDynamic makes transports open a device with DC queue pairs.
func useDynamic(t *testing.T) {
	openDevice = openDynamic
	t.Cleanup(func() { openDevice = devices.Open })
}

// The soft device has no DC, and what sets up connections is not for it.
func TestDynamicRefused(t *testing.T) {
	open := func(more ...string) error {
		v, err := transport.ParseOptions(schema, soft(append(more, "queue-pairs", "dc")...))
		require.NoError(t, err)
		tr, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 1,
			MaxPayload: 64, Options: v})
		if err == nil {
			require.NoError(t, tr.Close())
		}
		return err
	}
	require.ErrorIs(t, open(), transport.ErrUnavailable)
	require.ErrorContains(t, open(), "the soft device has no dynamically connected queue pairs")
	useDynamic(t)
	require.NoError(t, open())
	require.ErrorContains(t, open("timeout", "10"), "leave them out with dc")
}

// dynamicMesh returns workers that are connected to each other, in the order of their peer IDs.
func dynamicMesh(t *testing.T, n int) []*worker {
	useDynamic(t)
	options, err := transport.ParseOptions(schema, soft("queue-pairs", "dc", "send-depth", "8",
		"signal-interval", "4"))
	require.NoError(t, err)
	var workers []*worker
	for range n {
		tr, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: n - 1,
			InFlight: 32, MaxPayload: 64, Options: options})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(t, err)
		workers = append(workers, w.(*worker))
	}
	for _, w := range workers {
		for id, peer := range workers {
			if peer != w {
				require.NoError(t, w.Connect(t.Context(), transport.PeerID(id), peer.Address()))
			}
		}
	}
	var none [1]transport.Event
	connecting := func(w *worker) bool { return w.manager.pending > 0 }
	for slices.ContainsFunc(workers, connecting) {
		for _, w := range workers {
			n, err := w.Poll(none[:])
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
	return workers
}

// TestDynamicRestart posts calls to a peer that has died and, behind them, to one that lives. Each
// of those arrives once.
func TestDynamicRestart(t *testing.T) {
	workers := dynamicMesh(t, 3)
	a, alive, dead := workers[0], workers[1], workers[2]
	pair := a.dynamic.pair.(*fakePair)
	require.Len(t, pair.peers, 2, "one queue pair for all peers")
	closeQueuePairs(dead.endpoint)
	served, answered := map[byte]int{}, map[transport.Token]int{}
	lost := 0
	var events [64]transport.Event
	for next := 0; lost == 0 || len(answered) < 200; {
		for _, to := range []transport.PeerID{2, 1} {
			n, err := a.Post([]transport.Op{{Kind: transport.OpCall, Peer: to,
				Token: transport.Token(next), Payload: []byte{byte(next)}}})
			if to == 2 {
				continue
			}
			require.NoError(t, err)
			if next < 200 {
				next += n
			}
			require.NoError(t, a.Flush())
		}
		n, err := alive.Poll(events[:])
		require.NoError(t, err)
		for _, e := range events[:n] {
			if e.Kind == transport.EventRequest {
				served[e.Payload[0]]++
				_, err := alive.Post([]transport.Op{
					{Kind: transport.OpReply, Peer: 0, Token: e.Token}})
				require.NoError(t, err)
			}
		}
		require.NoError(t, alive.Flush())
		n, err = a.Poll(events[:])
		require.NoError(t, err)
		for _, e := range events[:n] {
			switch e.Kind {
			case transport.EventResponse:
				answered[e.Token]++
			case transport.EventPeerLost:
				require.EqualValues(t, 2, e.Peer)
				lost++
			}
		}
	}
	require.Equal(t, 1, lost)
	require.Equal(t, 1, pair.restarts)
	for i := range byte(200) {
		require.Equal(t, 1, served[i], "request %d", i)
		require.Equal(t, 1, answered[transport.Token(i)], "response %d", i)
	}
}

// An immediate for a connection that does not exist consumes a receive and does nothing else.
func TestDynamicStranger(t *testing.T) {
	workers := dynamicMesh(t, 2)
	a, b := workers[0], workers[1]
	p, receives := a.byCookie[0], b.receivesPosted
	_, err := a.dynamic.pair.PostSend([]rdma.SendRequest{{Opcode: rdma.WriteWithImmediate,
		Remote: p.remoteControl, RemoteKey: p.remoteKey, Immediate: 9<<dynamicUnits | 1}})
	require.NoError(t, err)
	var none [1]transport.Event
	for b.receivesPosted == receives {
		for _, w := range workers {
			n, err := w.Poll(none[:])
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
	require.Equal(t, receives-1, b.receivesPosted)
	require.Equal(t, up, b.byCookie[0].state)
}
