package tcpx

import (
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/gpu"
)

// deviceSource is the GPU memory of a worker from which it sends payloads.
type deviceSource struct {
	gpu    *bounce.GPU // nil with send-memory=host
	memory bounce.Buffer
	stride int
	sizes  []int // of the payloads, by slot; slots count from 1
}

// has reports whether the slot of an op has its payload.
func (d *deviceSource) has(op *transport.Op) bool {
	slot := int(op.DeviceSlot)
	return slot < len(d.sizes) && len(op.Payload) <= d.sizes[slot]
}

// deviceCopies are the parts of a stream that are on their way from the GPU's memory to the staging
// ring. The GPU copies in the order of the stream.
type deviceCopies struct {
	waiting      []deviceRest // a ring; a call in flight has one at most
	first, count int

	started             [gpu.Requests]deviceCopy // a ring
	firstStarted, begun int
}

// deviceRest is what no copy was started for yet of a payload.
type deviceRest struct {
	from int    // offset in the GPU's memory
	at   uint64 // position in the stream
	size int
}

// deviceCopy is a copy that has not ended, or was not seen to.
type deviceCopy struct {
	number uint64
	at     uint64 // position in the stream
}

// none reports whether the whole stream is in the staging ring.
func (d *deviceCopies) none() bool { return d.count+d.begun == 0 }

// postDevice appends a call whose payload is in a slot of the GPU's memory to the stream if there
// is room for all of it, and starts to copy it to the staging ring.
func (p *peer) postDevice(number uint32, op *transport.Op) bool {
	o, c, source, d := &p.out, p.conn, &p.w.source, &p.out.copies
	size, prefix := source.sizes[op.DeviceSlot], len(op.Payload)
	if d.count == len(d.waiting) || !p.announce(recordCall, number, size) {
		return false
	}
	copy(o.at(o.posted, uint64(prefix)), op.Payload)
	if prefix > 0 {
		c.counters.staged += uint64(prefix)
		c.counters.stagings++
	}
	if size > prefix {
		d.waiting[(d.first+d.count)%len(d.waiting)] = deviceRest{
			from: (int(op.DeviceSlot)-1)*source.stride + prefix, at: o.posted + uint64(prefix),
			size: size - prefix}
		d.count++
	}
	o.posted += uint64(size)
	p.copyOut()
	return true
}

// copyOut takes note of copies that have ended and starts the next ones, of a chunk at most, so
// that a chunk is sent while the next is copied. It returns the position up to which the stream is
// in the staging ring.
func (p *peer) copyOut() uint64 {
	o, c, source, d := &p.out, p.conn, &p.w.source, &p.out.copies
	if d.none() {
		return o.posted
	}
	copied, err := source.gpu.Copied()
	if err != nil {
		_ = c.fail(err) // the next Poll finds it
	}
	for d.begun > 0 && d.started[d.firstStarted].number <= copied {
		d.firstStarted = (d.firstStarted + 1) % len(d.started)
		d.begun--
	}
	for c.err == nil && d.count > 0 && d.begun < len(d.started) {
		r := &d.waiting[d.first]
		// The first of the ring's two mappings is pinned, so no copy crosses its end.
		begin := int(r.at % o.size())
		size := min(r.size, c.settings.chunk, int(o.size())-begin)
		number := source.gpu.CopyOut(o.staging[begin:begin+size], source.memory, r.from)
		if number == 0 {
			break
		}
		d.started[(d.firstStarted+d.begun)%len(d.started)] = deviceCopy{number: number, at: r.at}
		d.begun++
		r.from += size
		r.at += uint64(size)
		if r.size -= size; r.size == 0 {
			d.first = (d.first + 1) % len(d.waiting)
			d.count--
		}
	}
	switch {
	case d.begun > 0:
		return d.started[d.firstStarted].at
	case d.count > 0:
		return d.waiting[d.first].at
	}
	return o.posted
}
