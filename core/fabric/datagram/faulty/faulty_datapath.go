package faulty

import (
	"errors"
	"math"
	"time"

	"transportbench/core/fabric/datagram"
)

// errTooLong is the value that Send panics with.
var errTooLong = errors.New("datagram exceeds the MTU")

// happens draws whether a fault happens.
func (d *direction) happens(probability float64) bool {
	return probability > 0 && d.random.Float64() < probability
}

// corrupt flips bits of a datagram that is not empty.
func (d *direction) corrupt(data []byte) {
	if len(data) == 0 {
		return
	}
	d.counts.corrupted++
	for range 1 + d.random.IntN(maxFlips) {
		data[d.random.IntN(len(data))] ^= 1 << d.random.IntN(8)
	}
}

// shouldHold draws whether to hold a datagram, and until when.
func (d *direction) shouldHold() (h held, ok bool) {
	reorder := d.happens(d.faults.Reorder)
	delay := d.happens(d.faults.Delay)
	if !reorder && !delay {
		return held{}, false
	}
	if len(d.free) == 0 {
		d.counts.spared++
		return held{}, false
	}
	h.due = time.Now().Add(d.faults.DelayBy)
	h.after = math.MaxUint64
	if delay {
		d.counts.delayed++
	} else {
		d.counts.reordered++
		h.after = d.passed + 1 + uint64(d.random.IntN(maxOvertaken))
	}
	return h, true
}

// hold keeps a copy of a datagram.
func (d *direction) hold(h held, head, body []byte) {
	last := len(d.free) - 1
	h.buffer, d.free = d.free[last], d.free[:last]
	data := d.memory[int(h.buffer)*d.mtu:]
	h.length = copy(data, head)
	h.length += copy(data[h.length:], body)
	d.held = append(d.held, h)
}

func (d *direction) data(h *held) []byte {
	start := int(h.buffer) * d.mtu
	end := start + h.length
	return d.memory[start:end:end]
}

// release passes the held datagrams that are due to take, until take returns false.
func (d *direction) release(take func(*held) bool) {
	if len(d.held) == 0 {
		return
	}
	now := time.Now()
	kept, full := d.held[:0], false
	for i := range d.held {
		h := &d.held[i]
		due := h.after <= d.passed || !now.Before(h.due)
		if full = full || due && !take(h); full || !due {
			kept = append(kept, *h)
		}
	}
	d.held = kept
}

// Send implements [datagram.Port].
func (f *port) Send(to datagram.Remote, head, body []byte) bool {
	d := &f.sending
	if f.closed {
		return false
	}
	if len(head)+len(body) > d.mtu {
		panic(errTooLong)
	}
	if d.happens(d.faults.Drop) {
		d.counts.dropped++
		return true
	}
	if d.happens(d.faults.Corrupt) {
		n := copy(f.scratch, head)
		n += copy(f.scratch[n:], body)
		head, body = f.scratch[:n], nil
		d.corrupt(head)
	}
	twice := d.happens(d.faults.Duplicate)
	if h, ok := d.shouldHold(); ok {
		h.to = to
		d.hold(h, head, body)
	} else if !f.Port.Send(to, head, body) {
		return false
	}
	d.passed++
	if twice {
		if f.Port.Send(to, head, body) {
			d.counts.duplicated++
		} else {
			d.counts.spared++
		}
	}
	return true
}

// sendHeld sends the held datagrams that are due.
func (f *port) sendHeld() (sent int) {
	d := &f.sending
	d.release(func(h *held) bool {
		if !f.Port.Send(h.to, d.data(h), nil) {
			return false
		}
		d.free = append(d.free, h.buffer)
		sent++
		return true
	})
	return sent
}

// Flush implements [datagram.Port].
func (f *port) Flush() error {
	if f.closed {
		return datagram.ErrClosed
	}
	f.sendHeld()
	return f.Port.Flush()
}

// Receive implements [datagram.Port]. It puts no bodies into a target. It also sends held datagrams
// that are due, because a caller that waits for an answer to one of them does not flush.
func (f *port) Receive(packets []datagram.Packet, _ datagram.Target) (n int, err error) {
	if f.closed {
		return 0, datagram.ErrClosed
	}
	if f.sendHeld() > 0 {
		if err := f.Port.Flush(); err != nil {
			return 0, err
		}
	}
	d := &f.receiving
	d.free = append(d.free, f.lent...)
	f.lent = f.lent[:0]
	d.release(func(h *held) bool {
		if n == len(packets) {
			return false
		}
		packets[n] = datagram.Packet{Data: d.data(h), Source: h.source}
		f.lent = append(f.lent, h.buffer)
		n++
		return true
	})
	fresh, err := f.Port.Receive(packets[n:], datagram.Target{})
	for _, p := range packets[n : n+fresh] {
		if f.pass(&p) {
			packets[n] = p
			n++
		}
	}
	return n, err
}

// pass injects faults into a received packet and reports whether Receive returns it now.
func (f *port) pass(p *datagram.Packet) bool {
	d := &f.receiving
	if d.happens(d.faults.Drop) {
		d.counts.dropped++
		return false
	}
	if d.happens(d.faults.Corrupt) {
		d.corrupt(p.Data)
	}
	if d.happens(d.faults.Duplicate) {
		// The next Receive returns the duplicate.
		if len(d.free) > 0 {
			d.hold(held{source: p.Source}, p.Data, nil)
			d.counts.duplicated++
		} else {
			d.counts.spared++
		}
	}
	h, ok := d.shouldHold()
	if ok {
		h.source = p.Source
		d.hold(h, p.Data, nil)
	}
	d.passed++
	return !ok
}
