package soft

import (
	"errors"
	"fmt"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
)

// The wire of a UD queue pair has a datagram ring for each sender, which the sender fills and
// the receiver drains. A full ring drops datagrams, as a switch does.
const (
	datagramRingSlots = 256
	datagramRingArena = 256 << 10
)

var (
	datagramRingGeometry = ring.Geometry{Slots: datagramRingSlots, Arena: datagramRingArena}
	datagramRingSize     = (datagramRingGeometry.Bytes() + 4095) &^ 4095
)

// datagramRingMemory returns the memory of datagram ring i of a wire.
func datagramRingMemory(wire []byte, i int) []byte {
	return wire[wireHeaderSize+i*datagramRingSize:][:datagramRingSize]
}

// datagramPeer is a UD queue pair to which this one sends.
type datagramPeer struct {
	peerLink
	qkey uint32 // of the peer's endpoint
	ring *ring.FastForwardProducer
}

// AddPeer implements [QueuePair]. It claims a datagram ring until the peer's queue pair closes.
func (q *queuePair) AddPeer(remote rdma.Endpoint) (rdma.PeerHandle, error) {
	if q.config.Type != rdma.UnreliableDatagram {
		return 0, rdma.Invalid("AddPeer of a %v queue pair", q.config.Type)
	}
	l, err := q.reach(remote)
	if err != nil {
		return 0, err
	}
	p := datagramPeer{peerLink: l, qkey: remote.QKey}
	if p.ring, err = claimDatagramRing(l.segment, l.wire); err != nil {
		return 0, errors.Join(err, q.device.closeLink(&l))
	}
	q.peers = append(q.peers, p)
	return rdma.PeerHandle(len(q.peers) - 1), nil
}

func claimDatagramRing(segment *shm.Segment, wire words) (*ring.FastForwardProducer, error) {
	rings := uint64(wire.load32(wireDepth))
	if uint64(len(segment.Bytes())) != wireHeaderSize+rings*uint64(datagramRingSize) {
		return nil,
			fmt.Errorf("%w: its queue pair has %d datagram rings, which does not fit its size",
				rdma.ErrPeer, rings)
	}
	for {
		index := wire.load64(wireClaim)
		if index >= rings {
			return nil, fmt.Errorf("%w: all %d peers of its queue pair are taken",
				rdma.ErrPeer, rings)
		}
		if wire.swap64(wireClaim, index, index+1) {
			return ring.NewFastForwardProducer(datagramRingMemory(segment.Bytes(), int(index)),
				datagramRingGeometry)
		}
	}
}

// A message of a datagram ring is the payload. Its token holds the number of the sending queue pair
// and the immediate; its kind tells whether the immediate is valid.
const (
	datagramPlain     = ring.KindA
	datagramImmediate = ring.KindB
)

// datagram sends a datagram. It completes at once.
func (q *queuePair) datagram(r *rdma.SendRequest, e *sendEntry) error {
	switch {
	case r.Opcode != rdma.Send && r.Opcode != rdma.SendWithImmediate:
		return rdma.ErrOpcode
	case int(r.Peer) >= len(q.peers):
		return rdma.ErrNoPeer
	case r.Length > mtu:
		return rdma.ErrDatagramLength
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
	if r.Opcode == rdma.SendWithImmediate {
		kind = datagramImmediate
	}
	// A datagram is dropped if the ring is full or the receiver has damaged it.
	_ = p.ring.Push(kind, uint64(q.number)<<32|uint64(r.Immediate), payload)
	q.copied(len(payload))
	q.syscalls += p.notify()
	return nil
}

// receiveDatagrams takes datagrams off the rings, starting with another one each time.
func (q *queuePair) receiveDatagrams(completions []rdma.Completion) (n int) {
	if claimed := q.wire.load64(wireClaim); claimed <= uint64(len(q.rings)) {
		q.ringsClaimed = int(claimed)
	}
	for i := range q.ringsClaimed {
		at := q.nextRing + i
		if at >= q.ringsClaimed {
			at -= q.ringsClaimed
		}
		from := q.rings[at]
		var m ring.Message
		popped := false
		for n < len(completions) {
			// A ring that its sender has damaged delivers nothing more.
			if ok, _ := from.Pop(&m); !ok {
				break
			}
			popped = true
			n += q.deliver(&m, &completions[n])
		}
		if popped {
			from.Release()
		}
	}
	if q.nextRing++; q.nextRing >= q.ringsClaimed {
		q.nextRing = 0
	}
	return n
}

// deliver puts a datagram into a receive, or drops it if none is posted. It returns the
// number of completions.
func (q *queuePair) deliver(m *ring.Message, c *rdma.Completion) int {
	if q.receives.head == q.receives.tail {
		q.device.notReady.Add(1)
		return 0
	}
	r := &q.receives.queue[q.receives.head&uint64(len(q.receives.queue)-1)]
	q.receives.head++
	c.ID = r.ID
	c.QueuePair = q.config.Cookie
	c.Opcode = rdma.Receive
	c.Status = rdma.StatusOK
	c.Vendor = 0
	c.Length = uint32(rdma.GlobalRouteHeaderSize + len(m.Payload))
	c.Source = uint32(m.Token >> 32)
	c.Immediate = uint32(m.Token)
	c.HasImmediate = 0
	if m.Kind == datagramImmediate {
		c.HasImmediate = 1
	}
	if c.Length > r.Length {
		c.Status = rdma.StatusLocalLength
		return 1
	}
	target, ok := q.device.localMemory(r.LocalKey, r.Local, c.Length, 0)
	if !ok {
		c.Status = rdma.StatusLocalProtection
		return 1
	}
	// The GRH has version 6 and the length; its other fields are zero.
	header := target[:rdma.GlobalRouteHeaderSize]
	clear(header)
	header[0] = 6 << 4
	header[4], header[5] = byte(len(m.Payload)>>8), byte(len(m.Payload))
	copy(target[rdma.GlobalRouteHeaderSize:], m.Payload)
	q.copied(len(m.Payload))
	return 1
}
