package rank

import (
	"encoding/binary"

	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// prepare draws the next request for a slot and puts the slot aside.
func (c *client) prepare(index uint32) {
	s := &c.slots[index]
	r := &c.request
	c.source.Next(r)
	s.flags = 0
	key := r.Key
	if !c.route.simple() {
		var remote bool
		if key, s.peer, remote = c.route.choose(key); remote {
			s.flags = slotRemote
		}
	}
	s.key = key
	s.written = uint32(r.Size)
	s.op = r.Op
	s.reads, s.wantSize = 0, 0
	switch r.Op {
	case workload.Read:
		s.reads, s.wantSize = 1, c.readSize
		s.requestSize = uint32(len(kv.EncodeGet(s.buffer, key)))
	case workload.Lookup:
		s.requestSize = uint32(len(kv.EncodeLookup(s.buffer, key)))
	case workload.ReadModifyWrite:
		c.prepareRead(s)
	default:
		c.nonce++
		s.requestSize = uint32(len(kv.EncodePut(s.buffer, key, r.Size, c.nonce)))
	}
	if c.cycle != nil {
		c.cycle.draw(index, r.Last)
	}
	c.prepared.push(index)
}

// prepareRead is the first half of a read-modify-write.
func (c *client) prepareRead(s *slot) {
	s.flags |= slotReading
	s.requestSize = uint32(len(kv.EncodeGet(s.buffer, s.key)))
}

// issue lets a prepared call go and returns its slot. There is one for each call that may be in
// flight.
func (c *client) issue(now uint64) (index uint32) {
	index = c.prepared.pop()
	s := &c.slots[index]
	s.busy = true
	s.minVersion = 0
	if seen := &c.seen[s.key&c.seenMask]; seen.key == s.key {
		s.minVersion = seen.version
	}
	c.add(s, index)
	c.inFlight++
	s.started = 0
	if c.sampler.take() {
		s.started = now
		c.timed++
		if c.trace != nil && s.flags&(slotRemote|slotReading) == slotRemote && c.trace.word.Load() == 0 {
			s.flags |= slotTraced
			c.trace.begin(binary.LittleEndian.Uint64(s.buffer))
		}
	}
	if c.cycle != nil {
		c.cycle.issue(index, now)
	}
	return index
}

// add appends a slot's request to what is to be posted. Field by field: a
// literal is built on the stack with narrow stores and copied with wide loads,
// which stall on them.
func (c *client) add(s *slot, index uint32) {
	c.ops = c.ops[:len(c.ops)+1]
	op := &c.ops[len(c.ops)-1]
	op.Kind = transport.OpCall
	op.Peer = s.peer
	op.Token = transport.Token(index)
	op.Payload = s.buffer[:s.requestSize]
}

// issueDue issues what is due, as far as calls are free.
func (c *client) issueDue(now uint64) {
	for c.pace.due <= now && c.inFlight < c.cfg.InFlight {
		due := c.pace.due
		c.pace.next()
		c.open.scheduled++
		index := c.issue(now)
		if c.slots[index].started != 0 {
			c.open.intended[index] = due
			c.open.lag.record(c.clock, now-max(due, c.freed))
		}
	}
}
