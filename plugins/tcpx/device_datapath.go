package tcpx

import (
	"transportbench/core/fabric/queue"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

// deviceSource is the GPU memory of a worker from which it sends payloads.
type deviceSource struct {
	gpu    *bounce.GPU    // nil with send-memory=host
	nic    *bounce.Dmabuf // that sends from places; nil in mode gpu
	memory bounce.Buffer  // of the places in mode gpu
	stride int
	sizes  []int         // of the payloads, by slot; slots count from 1
	places []devicePlace // of slots 1 and up, and then spare ones
}

// devicePlace is where the payload of a slot is.
type devicePlace struct {
	memory bounce.Buffer
	dmabuf uint32 // that has the memory in mode devmem
	offset uint64 // in the dmabuf
}

// has reports whether the slot of an op has its payload.
func (d *deviceSource) has(op *transport.Op) bool {
	slot := int(op.DeviceSlot)
	return slot < len(d.sizes) && len(op.Payload) <= d.sizes[slot]
}

// deviceCopies are the parts of a stream that are on their way from the GPU's memory to the staging
// ring. The GPU copies in the order of the stream.
type deviceCopies struct {
	peer    *peer
	waiting queue.Queue[deviceRest] // a call in flight has one at most
	started queue.Queue[deviceCopy]
}

// deviceRest is the part of a payload for which no copy was started yet.
type deviceRest struct {
	from bounce.Buffer
	at   uint64 // position in the stream
}

// deviceCopy is a copy that is not known to have ended.
type deviceCopy struct {
	number uint64
	at     uint64 // position in the stream
}

func newDeviceCopies(p *peer) deviceCopies {
	return deviceCopies{peer: p, waiting: queue.New[deviceRest](p.w.settings.inFlight),
		started: queue.New[deviceCopy](bounce.MaxCopies)}
}

// post appends a call whose payload is in a slot of the GPU's memory to the stream if there is room
// for all of it, and starts to copy it to the staging ring.
func (d *deviceCopies) post(number uint32, op *transport.Op) bool {
	c, source := d.peer.conn, &d.peer.w.source
	size, prefix := source.sizes[op.DeviceSlot], len(op.Payload)
	if d.waiting.Full() || !c.Announce(conn.Call, number, size) {
		return false
	}
	c.Out.Copy(op.Payload)
	if size > prefix {
		*d.waiting.Push() = deviceRest{at: c.Out.End(),
			from: source.places[op.DeviceSlot-1].memory.Slice(prefix, size-prefix)}
		c.Out.Skip(size - prefix)
	}
	d.advance()
	return true
}

// postDevice appends a call to the stream if there is room for all of it. Its payload is in a slot
// of the GPU's memory, from which the NIC sends it.
func (p *peer) postDevice(number uint32, op *transport.Op) bool {
	out, source := &p.conn.Out, &p.w.source
	size, prefix := source.sizes[op.DeviceSlot], len(op.Payload)
	if !out.DeviceRoom() || !p.conn.Announce(conn.Call, number, size) {
		return false
	}
	out.Copy(op.Payload)
	if size > prefix {
		place := &source.places[op.DeviceSlot-1]
		out.WriteDevice(place.dmabuf, place.offset+uint64(prefix), size-prefix)
	}
	return true
}

// advance takes note of copies that have ended and starts the next ones, of a chunk at most, so
// that a chunk is sent while the next is copied. It returns the position up to which the stream is
// in the staging ring.
func (d *deviceCopies) advance() uint64 {
	out, settings, source := &d.peer.conn.Out, d.peer.w.settings, &d.peer.w.source
	if d.waiting.Empty() && d.started.Empty() {
		return out.End()
	}
	copied, err := source.gpu.Copied()
	if err != nil {
		d.peer.conn.Fail(err) // the next Poll finds it
	}
	for !d.started.Empty() && d.started.Head().number <= copied {
		d.started.Pop()
	}
	for d.peer.conn.Err == nil && !d.waiting.Empty() && !d.started.Full() {
		r := d.waiting.Head()
		// The first of the ring's two mappings is pinned, so no copy crosses its end.
		ring := len(d.peer.staging) / 2
		begin := int(out.Offset(r.at))
		size := min(r.from.Size, settings.chunk, ring-begin)
		number := source.gpu.CopyOut(d.peer.staging[begin:begin+size], r.from)
		if number == 0 {
			break
		}
		*d.started.Push() = deviceCopy{number: number, at: r.at}
		r.from = r.from.Slice(size, r.from.Size-size)
		r.at += uint64(size)
		if r.from.Size == 0 {
			d.waiting.Pop()
		}
	}
	switch {
	case !d.started.Empty():
		return d.started.Head().at
	case !d.waiting.Empty():
		return d.waiting.Head().at
	}
	return out.End()
}
