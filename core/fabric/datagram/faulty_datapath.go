package datagram

import (
	"math"
	"time"
)

// happens draws whether a fault does.
func (s *side) happens(probability float64) bool {
	return probability > 0 && s.random.Float64() < probability
}

// corrupt turns over bits of a datagram that has any.
func (s *side) corrupt(data []byte) {
	if len(data) == 0 {
		return
	}
	s.counts.corrupted++
	for range 1 + s.random.IntN(maxFlips) {
		data[s.random.IntN(len(data))] ^= 1 << s.random.IntN(8)
	}
}

// holds decides whether a datagram is held back, and until when.
func (s *side) holds() (h held, ok bool) {
	reorder := s.happens(s.faults.Reorder)
	delay := s.happens(s.faults.Delay)
	if !reorder && !delay {
		return held{}, false
	}
	if len(s.spare) == 0 {
		s.counts.spared++
		return held{}, false
	}
	h.due = time.Now().Add(s.faults.DelayBy)
	h.after = math.MaxUint64
	if delay {
		s.counts.delayed++
	} else {
		s.counts.reordered++
		h.after = s.passed + 1 + uint64(s.random.IntN(maxOvertaken))
	}
	return h, true
}

// hold keeps a copy of a datagram.
func (s *side) hold(h held, head, body []byte) {
	last := len(s.spare) - 1
	h.buffer, s.spare = s.spare[last], s.spare[:last]
	data := s.buffer[int(h.buffer)*s.mtu:]
	h.length = copy(data, head)
	h.length += copy(data[h.length:], body)
	s.held = append(s.held, h)
}

func (s *side) data(h *held) []byte {
	start := int(h.buffer) * s.mtu
	end := start + h.length
	return s.buffer[start:end:end]
}

// release takes those that have been held for long enough, as long as take does.
func (s *side) release(take func(*held) bool) {
	if len(s.held) == 0 {
		return
	}
	now := time.Now()
	kept, full := s.held[:0], false
	for i := range s.held {
		h := &s.held[i]
		due := h.after <= s.passed || !now.Before(h.due)
		if full = full || due && !take(h); full || !due {
			kept = append(kept, *h)
		}
	}
	s.held = kept
}

// Send implements [Port].
func (f *Faulty) Send(to Remote, head, body []byte) bool {
	s := &f.outward
	if f.isClosed {
		return false
	}
	if len(head)+len(body) > s.mtu {
		panic(errMisuse)
	}
	if s.happens(s.faults.Drop) {
		s.counts.dropped++
		return true
	}
	if s.happens(s.faults.Corrupt) {
		n := copy(f.scratch, head)
		n += copy(f.scratch[n:], body)
		head, body = f.scratch[:n], nil
		s.corrupt(head)
	}
	twice := s.happens(s.faults.Duplicate)
	if h, ok := s.holds(); ok {
		h.to = to
		s.hold(h, head, body)
	} else if !f.port.Send(to, head, body) {
		return false
	}
	s.passed++
	if twice {
		if f.port.Send(to, head, body) {
			s.counts.duplicated++
		} else {
			s.counts.spared++
		}
	}
	return true
}

// sendHeld sends what has been held back for long enough.
func (f *Faulty) sendHeld() (sent int) {
	s := &f.outward
	s.release(func(h *held) bool {
		if !f.port.Send(h.to, s.data(h), nil) {
			return false
		}
		s.spare = append(s.spare, h.buffer)
		sent++
		return true
	})
	return sent
}

// Flush implements [Port].
func (f *Faulty) Flush() error {
	if f.isClosed {
		return ErrClosed
	}
	f.sendHeld()
	return f.port.Flush()
}

// Receive implements [Port]. It also sends what has been held back for long enough:
// nobody may flush for as long as they wait for it.
func (f *Faulty) Receive(packets []Packet) (n int, err error) {
	if f.isClosed {
		return 0, ErrClosed
	}
	if f.sendHeld() > 0 {
		if err := f.port.Flush(); err != nil {
			return 0, err
		}
	}
	s := &f.inward
	s.spare = append(s.spare, f.lent...)
	f.lent = f.lent[:0]
	s.release(func(h *held) bool {
		if n == len(packets) {
			return false
		}
		packets[n] = Packet{Data: s.data(h), Source: h.source}
		f.lent = append(f.lent, h.buffer)
		n++
		return true
	})
	fresh, err := f.port.Receive(packets[n:])
	for _, p := range packets[n : n+fresh] {
		if f.admit(&p) {
			packets[n] = p
			n++
		}
	}
	return n, err
}

// admit does to a packet what the faults say, and says whether to hand it out now.
func (f *Faulty) admit(p *Packet) bool {
	s := &f.inward
	if s.happens(s.faults.Drop) {
		s.counts.dropped++
		return false
	}
	if s.happens(s.faults.Corrupt) {
		s.corrupt(p.Data)
	}
	if s.happens(s.faults.Duplicate) {
		// The other one is handed out by the next Receive.
		if len(s.spare) > 0 {
			s.hold(held{source: p.Source}, p.Data, nil)
			s.counts.duplicated++
		} else {
			s.counts.spared++
		}
	}
	h, ok := s.holds()
	if ok {
		h.source = p.Source
		s.hold(h, p.Data, nil)
	}
	s.passed++
	return !ok
}
