package conn

import (
	"transportbench/core/fabric/queue"
	"transportbench/core/fabric/sock"
)

// deviceSpans are the parts of a stream that are sent from dmabufs, in the order of the stream,
// until the peer has them. In the staging ring they take room, but their bytes are not there.
type deviceSpans struct {
	sender sock.DeviceSender
	spans  queue.Queue[deviceSpan]
}

type deviceSpan struct {
	position uint64 // in the stream
	size     uint64
	dmabuf   uint32
	offset   uint64 // in the dmabuf
}

// UseDevice lets the stream have up to limit parts from dmabufs, which the sender sends.
func (s *Sender) UseDevice(sender sock.DeviceSender, limit int) {
	s.device = deviceSpans{sender: sender, spans: queue.New[deviceSpan](limit)}
}

// DeviceRoom reports whether WriteDevice may be called.
func (s *Sender) DeviceRoom() bool {
	if s.device.spans.Full() {
		s.FreeAll()
	}
	return !s.device.spans.Full()
}

// WriteDevice appends bytes of a dmabuf, for which there must be room. They must not change while
// [Sender.HoldsDevice].
func (s *Sender) WriteDevice(dmabuf uint32, offset uint64, size int) {
	*s.device.spans.Push() = deviceSpan{position: s.end, size: uint64(size), dmabuf: dmabuf,
		offset: offset}
	s.Skip(size)
}

// HoldsDevice reports whether the stream has bytes that begin in a part of a dmabuf.
func (s *Sender) HoldsDevice(dmabuf uint32, offset uint64, size int) bool {
	spans := &s.device.spans
	if spans.Empty() {
		return false
	}
	s.FreeAll()
	for n := spans.First(); n < spans.Last(); n++ {
		if p := spans.At(n); p.dmabuf == dmabuf && p.offset-offset < uint64(size) {
			return true
		}
	}
	return false
}

// at returns the span that has a position of the stream, or nil, and how many of the size bytes
// from there on are in the same memory.
func (d *deviceSpans) at(position uint64, size int) (*deviceSpan, int) {
	low, high := d.spans.First(), d.spans.Last()
	for low < high { // to the first that ends behind the position
		middle := low + (high-low)/2
		if p := d.spans.At(middle); p.position+p.size <= position {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == d.spans.Last() {
		return nil, size
	}
	p := d.spans.At(low)
	if p.position > position {
		return nil, int(min(uint64(size), p.position-position))
	}
	return p, int(min(uint64(size), p.position+p.size-position))
}

// free frees the spans before a position.
func (d *deviceSpans) free(position uint64) {
	for !d.spans.Empty() && d.spans.Head().position+d.spans.Head().size <= position {
		d.spans.Pop()
	}
}
