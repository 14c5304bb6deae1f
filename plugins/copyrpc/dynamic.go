package copyrpc

import (
	"errors"
	"fmt"

	"transportbench/core/fabric/rdma"
)

// dynamicQueue is the DC queue pair of a worker: one initiator that sends to all peers, and one
// target that they send to. Each [dynamicPeer] is a peer's share of it in the shape of an RC queue
// pair, and a dynamicQueue is the completion queue that tells the peers apart, so nothing else
// distinguishes the two types.
//
// A request carries its peer and a sequence number in its ID. An immediate carries the number that
// the receiver has given the connection, in its upper bits.
//
// A failed request takes the initiator into the error state, which flushes the requests behind it.
// An initiator carries out requests in order and sends to the next peer only once the last one has
// acknowledged everything, so none of those was carried out. Poll restarts the initiator and posts
// again what was for other peers.
type dynamicQueue struct {
	rdma.CompletionQueue
	pair           rdma.QueuePair
	peers          []*dynamicPeer
	open           int                // peers that are not closed yet
	posted         []rdma.SendRequest // a ring of those that may not have completed
	first, next    uint32             // sequence numbers of the oldest of posted and of the next
	unsignaled     int                // requests since the last signaled one
	signalInterval int
}

// restarter is implemented by DC queue pairs.
type restarter interface {
	// Restart takes the initiator back to sending, and drops what it has not completed.
	Restart() error
}

// The bits of a request's ID: a kind, a mark that receives lack, the cookie of the peer, and the
// sequence number.
const (
	dynamicKind     = 1<<7 - 1
	dynamicMark     = 1 << 7
	dynamicCookieAt = 8
	dynamicNumberAt = 32
)

func cookieOf(id uint64) uint32 { return uint32(uint16(id >> dynamicCookieAt)) }

// dynamicUnits are the bits of an immediate that advance the ring or are a notice. The others have
// a number below maxPeers.
const (
	dynamicUnits   = 22
	maxDynamicRing = unit << (dynamicUnits - 1)
)

func newDynamicQueue(w *worker) (*dynamicQueue, error) {
	s := &w.settings
	pair, err := w.endpoint.device.NewQueuePair(rdma.QueuePairConfig{
		Type: rdma.DynamicallyConnected, Completions: w.cq, Shared: w.srq,
		SendDepth: s.sendDepth, MaxInline: s.inline, QKey: uint32(w.nonce), Peers: s.peers})
	if err != nil {
		return nil, err
	}
	return &dynamicQueue{CompletionQueue: w.cq, pair: pair,
		posted: make([]rdma.SendRequest, s.sendDepth), signalInterval: s.signalInterval}, nil
}

// newPeer returns the share of the peer with the next cookie.
func (d *dynamicQueue) newPeer() *dynamicPeer {
	p := &dynamicPeer{queue: d, cookie: uint32(len(d.peers))}
	d.peers = append(d.peers, p)
	d.open++
	return p
}

// post posts requests, each to the peer that it names, and keeps them until they complete.
func (d *dynamicQueue) post(requests []rdma.SendRequest) (int, error) {
	room := len(d.posted) - int(d.next-d.first)
	if room == 0 {
		return 0, rdma.ErrQueueFull
	}
	requests = requests[:min(room, len(requests))]
	for i := range requests {
		r := &requests[i]
		r.ID = r.ID&(1<<dynamicNumberAt-1) | uint64(d.next+uint32(i))<<dynamicNumberAt
		if d.unsignaled++; d.unsignaled >= d.signalInterval {
			r.Flags |= rdma.Signaled
		}
		if r.Flags&rdma.Signaled != 0 {
			d.unsignaled = 0
		}
	}
	n, err := d.pair.PostSend(requests)
	for i := range requests[:n] {
		*d.request(d.next) = requests[i]
		d.next++
	}
	return n, err
}

func (d *dynamicQueue) request(number uint32) *rdma.SendRequest {
	return &d.posted[int(number)%len(d.posted)]
}

// Poll implements [rdma.CompletionQueue].
func (d *dynamicQueue) Poll(completions []rdma.Completion) (n int, err error) {
	found, err := d.CompletionQueue.Poll(completions)
	if err != nil {
		return 0, err
	}
	for i := range completions[:found] {
		c := &completions[i]
		switch {
		case c.ID&dynamicMark != 0:
			number := uint32(c.ID >> dynamicNumberAt)
			if number-d.first >= d.next-d.first {
				continue // from before a restart
			}
			d.first = number + 1
			c.QueuePair = cookieOf(c.ID)
			c.ID &= dynamicKind
			if c.Status != rdma.StatusOK {
				if err := d.restart(d.peers[c.QueuePair]); err != nil {
					return n, err
				}
			}
		case c.Status != rdma.StatusOK:
			continue // a receive that Close flushed
		default:
			c.QueuePair = c.Immediate >> dynamicUnits
			c.Immediate = uint32(int32(c.Immediate<<(32-dynamicUnits)) >> (32 - dynamicUnits))
			if int(c.QueuePair) >= len(d.peers) {
				c.QueuePair, c.Immediate = 0, noPeer
			}
		}
		completions[n] = *c
		n++
	}
	return n, nil
}

// noPeer is an immediate of which collect counts the receive and no more: that of a probe.
const noPeer = 1 << 31

// restart posts what has not completed again, but for what was sent to a peer that is lost.
func (d *dynamicQueue) restart(lost *dynamicPeer) error {
	lost.lost = true
	r, ok := d.pair.(restarter)
	if !ok {
		return errors.New("a DC queue pair that cannot restart")
	}
	if err := r.Restart(); err != nil {
		return fmt.Errorf("restart of the DC queue pair: %w", err)
	}
	var again []rdma.SendRequest
	for ; d.first != d.next; d.first++ {
		r := d.request(d.first)
		if !d.peers[cookieOf(r.ID)].lost {
			again = append(again, *r)
		}
	}
	d.unsignaled = 0
	_, err := d.post(again)
	return err
}

// dynamicPeer is a peer's share of a dynamicQueue.
type dynamicPeer struct {
	queue  *dynamicQueue
	cookie uint32
	remote uint32 // cookie that the peer has given this side
	handle rdma.PeerHandle
	known  bool // AddPeer has succeeded
	lost   bool // a request to it has failed, or Close was called
	closed bool
}

// Endpoint implements [rdma.QueuePair]. DC agrees on no packet sequence number, so the field has
// the cookie.
func (p *dynamicPeer) Endpoint() rdma.Endpoint {
	e := p.queue.pair.Endpoint()
	e.Sequence = p.cookie
	return e
}

// MaxInline implements [rdma.QueuePair].
func (p *dynamicPeer) MaxInline() int { return p.queue.pair.MaxInline() }

// Connect implements [rdma.QueuePair].
func (p *dynamicPeer) Connect(remote rdma.Endpoint, _ rdma.ConnectOptions) (err error) {
	if remote.Sequence >= maxPeers {
		return fmt.Errorf("%w: connection %d of %d at most", rdma.ErrPeer, remote.Sequence,
			maxPeers)
	}
	p.remote = remote.Sequence
	p.handle, err = p.queue.pair.AddPeer(remote)
	p.known = err == nil
	return err
}

// AddPeer implements [rdma.QueuePair].
func (p *dynamicPeer) AddPeer(remote rdma.Endpoint) (rdma.PeerHandle, error) {
	return 0, rdma.Invalid("AddPeer of a peer")
}

// PostSend implements [rdma.QueuePair]. It changes the requests.
func (p *dynamicPeer) PostSend(requests []rdma.SendRequest) (int, error) {
	switch {
	case p.lost:
		return 0, rdma.ErrClosed
	case !p.known:
		return 0, rdma.ErrNotConnected
	}
	for i := range requests {
		r := &requests[i]
		r.Peer = p.handle
		r.ID = r.ID&dynamicKind | dynamicMark | uint64(p.cookie)<<dynamicCookieAt
		r.Immediate = r.Immediate&(1<<dynamicUnits-1) | p.remote<<dynamicUnits
	}
	return p.queue.post(requests)
}

// PostReceive implements [rdma.QueuePair].
func (p *dynamicPeer) PostReceive([]rdma.ReceiveRequest) (int, error) {
	return 0, rdma.ErrSharedReceives
}

// Close implements [rdma.QueuePair]. The last Close closes the queue pair of all.
func (p *dynamicPeer) Close() error {
	if p.closed {
		return nil
	}
	p.closed, p.lost = true, true
	if p.queue.open--; p.queue.open > 0 {
		return nil
	}
	return p.queue.pair.Close()
}
