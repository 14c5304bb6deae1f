package client

import (
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/workload"
)

// buffer returns the memory for the request of a call.
func (c *Client) buffer(index int) []byte {
	at := index * c.stride
	return c.buffers[at : at+c.stride : at+c.stride]
}

// prepare draws and encodes the next request of a call, and queues the call unless the client
// repeats its requests.
func (c *Client) prepare(index int) {
	call, request := &c.calls[index], &c.requests[index]
	r := &c.request
	c.generator.Next(r)
	call.flags = 0
	key := r.Key
	if !c.route.single() {
		var owner uint64
		if key, owner, request.Peer = c.route.choose(key); c.route.remote(owner) {
			call.flags = callRemote
		}
		if c.peers != nil {
			c.peers.of[index] = c.peers.groups[owner]
		}
	}
	call.key = key
	call.written = uint32(r.Size)
	call.op = r.Op
	call.reads, call.wantSize = 0, 0
	switch c.service {
	case loop.ServiceStore:
		c.prepareStore(call, index)
	case loop.ServiceEcho:
		c.nonce++
		call.op = workload.Read
		request.Payload = kv.EncodeEcho(c.buffer(index), key, r.Size, c.nonce)
	case loop.ServiceSink:
		c.nonce++
		call.op = workload.Write
		request.Payload = kv.EncodePut(c.buffer(index), key, r.Size, c.nonce)
	}
	if c.drawn != nil {
		c.drawn.push(index)
	}
}

// prepareStore encodes a request of the store.
func (c *Client) prepareStore(call *call, index int) {
	switch call.op {
	case workload.Read:
		call.reads, call.wantSize = 1, c.readSize
		c.requests[index].Payload = kv.EncodeGet(c.buffer(index), call.key)
	case workload.Lookup:
		c.requests[index].Payload = kv.EncodeLookup(c.buffer(index), call.key)
	case workload.ReadModifyWrite:
		c.prepareRead(call, index)
	default:
		c.nonce++
		c.counts.summed += uint64(call.written)
		c.requests[index].Payload = kv.EncodePut(c.buffer(index), call.key, int(call.written),
			c.nonce)
	}
}

// prepareRead encodes the read of a read-modify-write.
func (c *Client) prepareRead(call *call, index int) {
	call.flags |= callReading
	c.requests[index].Payload = kv.EncodeGet(c.buffer(index), call.key)
}
