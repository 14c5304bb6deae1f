package rdma

import (
	"errors"
	"fmt"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
)

// The wire of a UD queue pair has a lane for each sender: a ring that the sender fills and
// the receiver drains. A full lane drops datagrams, as a switch does.
const (
	laneAlgorithm = ring.FastForward
	laneSlots     = 256
	laneArena     = 256 << 10
)

var (
	laneGeometry = ring.Geometry{Slots: laneSlots, Arena: laneArena}
	laneSize     = (laneGeometry.Bytes() + 4095) &^ 4095
)

// laneMemory returns the memory of lane i of a wire.
func laneMemory(wire []byte, i int) []byte {
	return wire[wireHeaderSize+i*laneSize:][:laneSize]
}

// softPeer is a UD queue pair to which this one sends.
type softPeer struct {
	softLink
	qkey uint32 // of the peer's endpoint
	lane *ring.Producer
}

// AddPeer implements [QueuePair]. It claims a lane until the peer's queue pair closes.
func (q *softQueuePair) AddPeer(remote Endpoint) (PeerHandle, error) {
	if q.config.Type != UnreliableDatagram {
		return 0, invalid("AddPeer of a %v queue pair", q.config.Type)
	}
	l, err := q.reach(remote)
	if err != nil {
		return 0, err
	}
	p := softPeer{softLink: l, qkey: remote.QKey}
	if p.lane, err = claimLane(l.segment, l.wire); err != nil {
		return 0, errors.Join(err, q.device.closeLink(&l))
	}
	q.peers = append(q.peers, p)
	return PeerHandle(len(q.peers) - 1), nil
}

func claimLane(segment *shm.Segment, wire words) (*ring.Producer, error) {
	lanes := uint64(wire.load32(wireDepth))
	if uint64(len(segment.Bytes())) != wireHeaderSize+lanes*uint64(laneSize) {
		return nil, fmt.Errorf("%w: its queue pair has %d lanes, which does not fit its size", ErrPeer, lanes)
	}
	for {
		index := wire.load64(wireClaim)
		if index >= lanes {
			return nil, fmt.Errorf("%w: all %d peers of its queue pair are taken", ErrPeer, lanes)
		}
		if wire.swap64(wireClaim, index, index+1) {
			return ring.NewProducer(laneMemory(segment.Bytes(), int(index)), laneAlgorithm, laneGeometry)
		}
	}
}

// A message of a lane is the payload. Its token has the number of the sending queue pair
// and the immediate; its kind tells whether the immediate is valid.
const (
	datagramPlain     = ring.KindA
	datagramImmediate = ring.KindB
)

// datagram sends a datagram. It completes at once.
func (q *softQueuePair) datagram(r *SendRequest, e *softEntry) error {
	switch {
	case r.Opcode != Send && r.Opcode != SendWithImmediate:
		return errOpcode
	case int(r.Peer) >= len(q.peers):
		return errNoPeer
	case r.Length > softMTU:
		return errDatagramLength
	}
	payload, ok := q.payload(r, e)
	if !ok {
		return nil
	}
	p := &q.peers[r.Peer]
	if p.wire.load32(wireQKey) != p.qkey || uint32(p.wire.load64(wireState)) != stateOpen {
		return nil
	}
	kind := datagramPlain
	if r.Opcode == SendWithImmediate {
		kind = datagramImmediate
	}
	// A datagram is dropped if the lane is full or the receiver has damaged it.
	_ = p.lane.Push(kind, uint64(q.number)<<32|uint64(r.Immediate), payload)
	p.notify()
	return nil
}

// receiveDatagrams takes datagrams off the lanes, starting with another lane each time.
func (q *softQueuePair) receiveDatagrams(completions []Completion) (n int) {
	if claimed := q.wire.load64(wireClaim); claimed <= uint64(len(q.lanes)) {
		q.lanesClaimed = int(claimed)
	}
	for i := range q.lanesClaimed {
		at := q.nextLane + i
		if at >= q.lanesClaimed {
			at -= q.lanesClaimed
		}
		lane := q.lanes[at]
		var m ring.Message
		popped := false
		for n < len(completions) {
			// A lane that its sender has damaged delivers nothing more.
			if ok, _ := lane.Pop(&m); !ok {
				break
			}
			popped = true
			n += q.deliver(&m, &completions[n])
		}
		if popped {
			lane.Release()
		}
	}
	if q.nextLane++; q.nextLane >= q.lanesClaimed {
		q.nextLane = 0
	}
	return n
}

// deliver puts a datagram into a receive, or drops it if none is posted. It returns the
// number of completions.
func (q *softQueuePair) deliver(m *ring.Message, c *Completion) int {
	if q.receives.head == q.receives.tail {
		q.device.notReady.Add(1)
		return 0
	}
	r := &q.receives.queue[q.receives.head&uint64(len(q.receives.queue)-1)]
	q.receives.head++
	c.ID = r.ID
	c.QueuePair = q.config.Cookie
	c.Opcode = Receive
	c.Status = StatusOK
	c.Vendor = 0
	c.Length = uint32(GlobalRouteHeaderSize + len(m.Payload))
	c.Source = uint32(m.Token >> 32)
	c.Immediate = uint32(m.Token)
	c.HasImmediate = 0
	if m.Kind == datagramImmediate {
		c.HasImmediate = 1
	}
	if c.Length > r.Length {
		c.Status = StatusLocalLength
		return 1
	}
	target, ok := q.device.localMemory(r.LocalKey, r.Local, c.Length, 0)
	if !ok {
		c.Status = StatusLocalProtection
		return 1
	}
	// The GRH has version 6 and the length; its other fields are zero.
	header := target[:GlobalRouteHeaderSize]
	clear(header)
	header[0] = 6 << 4
	header[4], header[5] = byte(len(m.Payload)>>8), byte(len(m.Payload))
	copy(target[GlobalRouteHeaderSize:], m.Payload)
	return 1
}
