package datagram

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// link is the medium between two threads, with nothing on top, for measuring its floors.
type link interface {
	// post sends n datagrams of size bytes that begin with head and returns how many it sent.
	post(head []byte, size, n int) int
	// take receives up to maximum datagrams and returns their number.
	take(maximum int) int
	// head returns the beginning of the i-th of them, probeSize bytes or less.
	head(i int) []byte
}

// The probe's protocol: the initiator sends requests, and the other side answers each one with as
// many datagrams as it asks for, until a farewell. Little-endian: magic u32, kind u8, flags u8 (1
// if datagrams come one at a time, 2 if no more requests are answered together than asked for),
// count of answers u16, size of an answer u32, count of requests to answer together u32, nonce of
// the probe u64, number u64. The nonce tells a probe from an abandoned one.
//
// A message is the payload and a header, in as many datagrams as the MTU requires. Only the last
// datagram of a request asks for answers.
const (
	probeMagic = 0x7462_6471 // "tbdq"
	probeSize  = 32

	probeRequest = 1
	probeAnswer  = 2
	probeOver    = 3
	probeEnded   = 4

	probeAlone = 1 << 0
	probeSplit = 1 << 1
)

const (
	// empty polls: far longer than an answer takes while both sides run
	probeLost = 1 << 16
	// bytes in flight in each direction: more would overrun a socket
	probeStream = 1 << 20
	// bytes of a queue that a short datagram takes, with the kernel's records
	minProbe = 1 << 10
	maxProbe = 64 // datagrams of one call
	// empty polls before fewer requests are answered than asked for
	probeHold      = 32
	probeSlice     = 100 * time.Microsecond // least time for which one way to batch is measured
	probeSlices    = 64                     // of all ways together, if they are not too short
	probePatience  = 2 * time.Millisecond
	probeFarewells = 25 // takes some seconds
	probeEnds      = 3
	// probeMaxPatience is how long datagrams in flight may take to arrive at a limited rate.
	probeMaxPatience = 200 * time.Millisecond
)

// drain takes what an abandoned probe has left in the queue, and no more than fits into one:
// strangers may send without end.
func drain(l link) {
	const datagrams = 4 * udpDefaultBuffer / minProbe
	for taken := 0; taken < datagrams; {
		n := l.take(maxProbe)
		if n == 0 {
			return
		}
		taken += n
	}
}

type probeHead struct {
	kind   byte
	alone  bool
	split  bool
	count  int
	size   int
	group  int
	nonce  uint64
	number uint64
}

func (h *probeHead) put(b []byte) {
	binary.LittleEndian.PutUint32(b, probeMagic)
	b[4], b[5] = h.kind, 0
	if h.alone {
		b[5] |= probeAlone
	}
	if h.split {
		b[5] |= probeSplit
	}
	binary.LittleEndian.PutUint16(b[6:], uint16(h.count))
	binary.LittleEndian.PutUint32(b[8:], uint32(h.size))
	binary.LittleEndian.PutUint32(b[12:], uint32(h.group))
	binary.LittleEndian.PutUint64(b[16:], h.nonce)
	binary.LittleEndian.PutUint64(b[24:], h.number)
}

func (h *probeHead) get(b []byte) bool {
	if len(b) < probeSize || binary.LittleEndian.Uint32(b) != probeMagic {
		return false
	}
	h.kind, h.alone, h.split = b[4], b[5]&probeAlone != 0, b[5]&probeSplit != 0
	h.count = int(binary.LittleEndian.Uint16(b[6:]))
	h.size = int(binary.LittleEndian.Uint32(b[8:]))
	h.group = int(binary.LittleEndian.Uint32(b[12:]))
	h.nonce, h.number = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	return true
}

// probe is one side of a measurement.
type probe struct {
	link    link
	mtu     int
	forth   shape
	back    shape
	nonce   uint64
	number  uint64
	stopped atomic.Bool
	got     int // answers to the ping under way
	out     [probeSize]byte
	wait    spin.Wait
}

// shape is how a message is divided into datagrams: count of them, all of size bytes but the last.
type shape struct{ count, size, last int }

// shapeOf returns the shape of a message with a payload. A datagram of the probe has at least the
// probe's own header, which is longer than a message's.
func shapeOf(payload, mtu int) shape {
	bytes := max(payload+transport.ProbeHeader, probeSize)
	s := shape{count: (bytes + mtu - 1) / mtu, size: min(bytes, mtu)}
	s.last = max(bytes-(s.count-1)*mtu, probeSize)
	return s
}

// room returns how many bytes a message takes in a queue of datagrams, in which even a short
// datagram takes about minProbe.
func (s shape) room() int { return (s.count-1)*max(s.size, minProbe) + max(s.last, minProbe) }

// measure is one side of [Prober.Probe]. last is the nonce of the last probe that this side
// answered, whose datagrams may still be in flight.
func measure(ctx context.Context, l link, mtu int, asked transport.Probe,
	last *uint64) (f transport.Floor, err error) {
	switch {
	case asked.Kind != transport.ProbeMedium && asked.Kind != transport.ProbeRate:
		return f, transport.ErrUnsupported
	case mtu < probeSize:
		return f, fmt.Errorf("mtu: %d is too small for a probe; use at least %d", mtu, probeSize)
	}
	p := &probe{link: l, mtu: mtu, forth: shapeOf(asked.Forth, mtu), back: shapeOf(asked.Back, mtu)}
	if maximum := probeStream / mtu; asked.Forth < 0 || asked.Back < 0 ||
		max(p.forth.count, p.back.count) > max(maximum, 1) {
		return f, fmt.Errorf("%w: payloads of %d and %d bytes overrun a queue of datagrams",
			transport.ErrUnsupported, asked.Forth, asked.Back)
	}
	defer context.AfterFunc(ctx, func() { p.stopped.Store(true) })()
	if !asked.Initiate {
		if !p.answer(last) {
			err = context.Cause(ctx)
		}
		return f, err
	}
	p.nonce = control.NewNonce()
	if asked.Kind == transport.ProbeMedium {
		pings := floor.PingPong{Medium: pingPong{p}, Wait: &p.wait, LostAfter: probeLost}
		f, err = pings.Run(ctx, true, asked.Duration)
	} else {
		f = p.rate(asked.Duration, max(asked.InFlight, 1))
	}
	switch {
	case err != nil:
		return transport.Floor{}, err
	case p.stopped.Load():
		return transport.Floor{}, context.Cause(ctx)
	}
	p.end()
	return f, nil
}

// polled is called after each poll.
func (p *probe) polled(found bool) {
	if found {
		p.wait.Found()
	} else {
		p.wait.IdleCall()
	}
}

func (p *probe) post(h probeHead, size, n int) int {
	if h.nonce == 0 {
		h.nonce = p.nonce
	}
	h.put(p.out[:])
	return p.link.post(p.out[:], size, n)
}

// request sends n requests, and returns how many it sent in full. A request that is sent in part
// counts as lost.
func (p *probe) request(h probeHead, n int) (sent int) {
	h.kind = probeRequest
	if p.forth.count == 1 {
		h.count = p.back.count
		for sent < n {
			m := p.post(h, p.forth.last, min(n-sent, maxProbe))
			if sent += m; m == 0 {
				break
			}
		}
		return sent
	}
	for ; sent < n; sent++ {
		part := h
		part.count = 0
		for left := p.forth.count - 1; left > 0; {
			m := p.post(part, p.forth.size, min(left, maxProbe))
			if left -= m; m == 0 {
				return sent
			}
		}
		h.count = p.back.count
		if p.post(h, p.forth.last, 1) == 0 {
			return sent
		}
	}
	return sent
}

// maximum returns how many datagrams to receive at once with a number of requests in flight. A
// single one has a cheaper system call, and no look for a second.
func (p *probe) maximum(requests int) int {
	if requests*p.back.count == 1 {
		return 1
	}
	return maxProbe
}

// pingPong is the [floor.Medium] of a probe: one message at a time.
type pingPong struct{ *probe }

func (m pingPong) Post(number uint64) error {
	m.number = number
	m.probe.got = 0
	m.request(probeHead{alone: m.forth.count == 1, number: number, size: m.back.last}, 1)
	return nil
}

func (m pingPong) Take() (number uint64, ok bool, err error) {
	var h probeHead
	n := m.link.take(m.maximum(1))
	if n > 0 {
		m.wait.Found()
	}
	for i := range n {
		if h.get(m.link.head(i)) && h.kind == probeAnswer && h.nonce == m.nonce &&
			h.number == m.number {
			m.probe.got++
		}
	}
	return m.number, m.probe.got >= m.back.count, nil
}

// batching is a way to send requests and answers: once group of them may be sent, all of them
// together, or, if split, no more than group together. Split batches keep both sides at work at the
// same time, with more system calls: on an AMD EPYC, 16 datagrams of 16 KB in flight take 4.7 us
// each in halves and 9.7 us all together, whereas 32 of 64 bytes take the same.
type batching struct {
	group int
	split bool
}

// batchings returns the ways to send with inFlight requests in flight.
func batchings(inFlight int) []batching {
	ways := []batching{{group: 1}}
	if inFlight > 1 {
		ways = append(ways, batching{group: inFlight}, batching{inFlight / 2, true})
	}
	if inFlight > 4 {
		ways = append(ways, batching{inFlight / 4, true})
	}
	return ways
}

// rate measures the time per message with up to inFlight of them under way. It tries several sizes
// of batches and returns the fastest: which that is depends on what a system call costs next to a
// datagram.
func (p *probe) rate(d time.Duration, inFlight int) transport.Floor {
	inFlight = min(inFlight, max(probeStream/max(p.forth.room(), p.back.room()), 1))
	ways := batchings(inFlight)
	times := make([][]float64, len(ways))
	slice := max(d/probeSlices, probeSlice)
	total := 0
	// The first waits for the other side and warms up.
	p.slice(probeSlice, inFlight, batching{group: 1})
	for start, turn := time.Now(), 0; !p.stopped.Load() &&
		floor.Another(turn, len(ways), time.Since(start), d); turn++ {
		way := turn % len(ways)
		n, elapsed := p.slice(slice, inFlight, ways[way])
		if n > 0 {
			times[way] = append(times[way], float64(elapsed)/float64(n))
		}
		total += n
	}
	return transport.Floor{PerOp: floor.MinMedian(times), Samples: total}
}

// slice keeps requests in flight for about d and returns how many were answered in which time.
func (p *probe) slice(d time.Duration, requests int, way batching) (ops int,
	elapsed time.Duration) {
	p.number++ // answers to earlier requests do not count
	inFlight, got, waiting, patience := 0, 0, 0, probePatience
	start := time.Now()
	heard := start
	first := -1 // requests that were answered when the clock began
	maximum := p.maximum(requests)
	for looks := 0; !p.stopped.Load(); looks++ {
		for n := requests - inFlight; n >= way.group; n = requests - inFlight {
			if way.split {
				n = way.group
			}
			request := probeHead{
				alone: requests == 1 && p.forth.count == 1, split: way.split,
				number: p.number, size: p.back.last, group: way.group,
			}
			sent := p.request(request, n)
			if inFlight += sent; sent < n {
				break
			}
		}
		n := p.link.take(maximum)
		p.polled(n > 0)
		var h probeHead
		for i := range n {
			if h.get(p.link.head(i)) && h.kind == probeAnswer && h.number == p.number &&
				h.nonce == p.nonce {
				if waiting++; waiting == p.back.count {
					waiting = 0
					got++
					inFlight = max(inFlight-1, 0)
				}
			}
		}
		if n == 0 && looks%64 != 0 {
			continue
		}
		now := time.Now()
		switch {
		case n > 0:
			heard = now
		case now.Sub(heard) > patience: // the rest is lost or late: ask for less
			p.number++
			inFlight, waiting, heard = 0, 0, now
			requests, patience = max(requests/2, 1), min(2*patience, probeMaxPatience)
			way.group, maximum = min(way.group, requests), p.maximum(requests)
		}
		switch {
		case first < 0 && got >= requests:
			first, start = got, now
		case first >= 0 && got > first && now.Sub(start) >= d:
			return got - first, now.Sub(start)
		}
	}
	return 0, 0
}

// end repeats a farewell until the other side answers it or for some seconds. The other side waits
// for a farewell forever; while it is preempted its receive queue may be too full for one. It may
// also have left already.
func (p *probe) end() {
	var h probeHead
	patience := probePatience
	for range probeFarewells {
		p.post(probeHead{kind: probeOver, alone: true}, probeSize, 1)
		for sent := time.Now(); !p.stopped.Load() && time.Since(sent) < patience; {
			n := p.link.take(maxProbe)
			p.polled(n > 0)
			for i := range n {
				if h.get(p.link.head(i)) && h.kind == probeEnded && h.nonce == p.nonce {
					return
				}
			}
		}
		patience = min(2*patience, probeMaxPatience)
	}
}

// answer answers requests until a farewell. It returns false if it was stopped before.
func (p *probe) answer(last *uint64) (over bool) {
	// sum has the requests that are answered together, and their answers in count
	var h, sum probeHead
	maximum, requests, held := 1, 0, 0
	for !p.stopped.Load() {
		n := p.link.take(maximum)
		p.polled(n > 0)
		for i := range n {
			if !h.get(p.link.head(i)) || h.kind != probeRequest && h.kind != probeOver ||
				h.nonce == *last ||
				// a forged one must not ask for more
				h.kind == probeRequest && (h.size != p.back.last || h.count != 0 &&
					h.count != p.back.count) {
				continue
			}
			if h.kind == probeOver {
				if h.nonce != p.nonce {
					continue // of an abandoned probe
				}
				*last = p.nonce
				// Send several, because some may get lost; the device may have no room yet.
				ended := probeHead{kind: probeEnded}
				for tries := 0; tries < 1<<12 && p.post(ended, probeSize, probeEnds) == 0; tries++ {
					p.polled(false)
				}
				return true
			}
			// Requests of an abandoned probe arrive before those of the current one.
			p.nonce = h.nonce
			if maximum = maxProbe; h.alone {
				maximum = 1
			}
			switch {
			case h.count == 0: // the rest of the request follows
			case sum.size == h.size && sum.number == h.number && sum.nonce == h.nonce:
				sum.count += h.count
				requests++
			default:
				p.reply(&sum)
				sum, requests = h, 1
			}
			if sum.split && requests >= sum.group {
				p.reply(&sum)
				sum, requests = probeHead{}, 0
			}
		}
		if held++; n > 0 {
			held = 0
		}
		if requests > 0 && (requests >= sum.group || held >= probeHold) {
			p.reply(&sum)
			sum, requests = probeHead{}, 0
		}
	}
	return false
}

// reply sends the answers to requests. The datagrams of an answer have the MTU, except the last.
func (p *probe) reply(h *probeHead) {
	answer := probeHead{kind: probeAnswer, nonce: h.nonce, number: h.number}
	for h.count > 0 {
		size, n := h.size, min(h.count, maxProbe)
		if p.back.count > 1 {
			// An answer's long datagrams, then its last.
			size, n = p.back.size, min(h.count%p.back.count, maxProbe)
			if n == 0 {
				n = p.back.count
			}
			if n > 1 {
				n = min(n-1, maxProbe)
			} else {
				size = p.back.last
			}
		}
		sent := p.post(answer, size, n)
		if sent == 0 {
			return // the answers count as lost
		}
		h.count -= sent
	}
}
