package datagram

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// link is the medium between two threads, with nothing on top, for measuring its floor.
type link interface {
	// post sends n datagrams of size bytes that begin with head and returns how many it sent. A
	// single datagram takes the fastest call for one.
	post(head []byte, size, n int) int
	// take receives up to most datagrams and returns their number.
	take(most int) int
	// head returns the beginning of the i-th of them, probeSize bytes or less.
	head(i int) []byte
}

// The probe's protocol: the initiator sends requests, and the other side answers each one with as
// many datagrams as it asks for, until a farewell. Little-endian: magic u32, kind u8, alone u8 (1
// if datagrams come one at a time), count of answers u16, size of an answer u32, unused u32, nonce
// of the probe u64, number u64. The nonce tells a probe from an abandoned one.
const (
	probeMagic = 0x7462_6470 // "tbdp"
	probeSize  = 32

	probeRequest = 1
	probeAnswer  = 2
	probeOver    = 3
	probeEnded   = 4
)

// The probe measures round trips of one datagram, of many, and long answers.
const (
	probePingSize  = 64
	probeRateSize  = 32
	probeInFlight  = 64
	probeTogether  = 8       // round trips timed together
	probeLost      = 1 << 16 // empty polls: far longer than an answer takes while both sides run
	probeYield     = 1 << 12 // empty polls before the thread yields its core
	probeStream    = 1 << 20 // bytes in flight
	probeMost      = 64      // answers to one request
	probePatience  = 2 * time.Millisecond
	probeFarewells = 25 // takes some seconds
	probeEnds      = 3
	// probeMaxPatience is how long datagrams in flight may take to arrive at a limited rate.
	probeMaxPatience = 200 * time.Millisecond
)

type probeHead struct {
	kind   byte
	alone  bool
	count  int
	size   int
	nonce  uint64
	number uint64
}

func (h *probeHead) put(b []byte) {
	binary.LittleEndian.PutUint32(b, probeMagic)
	b[4], b[5] = h.kind, 0
	if h.alone {
		b[5] = 1
	}
	binary.LittleEndian.PutUint16(b[6:], uint16(h.count))
	binary.LittleEndian.PutUint32(b[8:], uint32(h.size))
	binary.LittleEndian.PutUint64(b[16:], h.nonce)
	binary.LittleEndian.PutUint64(b[24:], h.number)
}

func (h *probeHead) get(b []byte) bool {
	if len(b) < probeSize || binary.LittleEndian.Uint32(b) != probeMagic {
		return false
	}
	h.kind, h.alone = b[4], b[5] != 0
	h.count = int(binary.LittleEndian.Uint16(b[6:]))
	h.size = int(binary.LittleEndian.Uint32(b[8:]))
	h.nonce, h.number = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	return true
}

// probe is one side of a measurement.
type probe struct {
	link    link
	mtu     int
	nonce   uint64
	number  uint64
	stopped atomic.Bool
	out     [probeSize]byte
	idle    int
}

// measure is one side of [Prober.Probe]. last is the nonce of the last probe that this side
// answered, whose datagrams may still be in flight.
func measure(ctx context.Context, l link, mtu int, asked transport.Probe,
	last *uint64) (f transport.Floor, err error) {
	if asked.Kind != transport.ProbeMedium {
		return f, transport.ErrUnsupported
	}
	initiate, d := asked.Initiate, asked.Duration
	p := &probe{link: l, mtu: mtu}
	defer context.AfterFunc(ctx, func() { p.stopped.Store(true) })()
	if mtu < probePingSize {
		return f, fmt.Errorf("mtu: %d is too small for a probe; use at least %d", mtu, probePingSize)
	}
	if !initiate {
		if !p.answer(last) {
			err = context.Cause(ctx)
		}
		return f, err
	}
	p.nonce = rand.Uint64()
	pings := floor.PingPong{Medium: pingPong{p}, Batch: probeTogether, YieldAfter: probeYield, LostAfter: probeLost}
	if f, err = pings.Run(ctx, true, d/2); err != nil {
		return f, err
	}
	f.Rate = p.answers(d/4, probeInFlight, probeRateSize, 1)
	// Keep as many long datagrams in flight as fit into a megabyte.
	window := max(probeStream/mtu, 2)
	count := min(max(window/2, 1), probeMost)
	f.Bandwidth = p.answers(d/4, max(window/count, 2), mtu, count) * float64(mtu)
	if p.stopped.Load() {
		return transport.Floor{}, context.Cause(ctx)
	}
	p.end()
	return f, nil
}

// polled counts empty polls and yields the core now and then, because the other side may be waiting
// for it.
func (p *probe) polled(found bool) {
	if p.idle++; found {
		p.idle = 0
	}
	if p.idle%probeYield == probeYield-1 {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

func (p *probe) post(h probeHead, size, n int) int {
	if h.nonce == 0 {
		h.nonce = p.nonce
	}
	h.put(p.out[:])
	return p.link.post(p.out[:], size, n)
}

// pingPong is the [floor.Medium] of a probe: one datagram at a time.
type pingPong struct{ *probe }

func (m pingPong) Post(number uint64) error {
	m.number = number
	m.post(probeHead{kind: probeRequest, alone: true, count: 1, size: probePingSize, number: number}, probePingSize, 1)
	return nil
}

func (m pingPong) Take() (number uint64, ok bool, err error) {
	var h probeHead
	ok = m.link.take(1) > 0 && h.get(m.link.head(0)) && h.kind == probeAnswer && h.nonce == m.nonce
	return h.number, ok, nil
}

// answers keeps requests in flight that ask for count answers of size bytes each, and returns the
// answers per second.
func (p *probe) answers(d time.Duration, requests, size, count int) float64 {
	p.number++ // answers to earlier requests do not count
	inFlight, got, waiting, patience := 0, 0, 0, probePatience
	start := time.Now()
	from, before, heard := start, 0, start
	for looks := 0; !p.stopped.Load(); looks++ {
		if n := requests - inFlight; n > 0 {
			h := probeHead{kind: probeRequest, count: count, size: size, number: p.number}
			inFlight += p.post(h, probeRateSize, n)
		}
		n := p.link.take(probeMost)
		p.polled(n > 0)
		var h probeHead
		for i := range n {
			if h.get(p.link.head(i)) && h.kind == probeAnswer && h.number == p.number && h.nonce == p.nonce {
				got++
				if waiting++; waiting == count {
					waiting = 0
					inFlight = max(inFlight-1, 0)
				}
			}
		}
		if looks%16 != 0 {
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
		}
		if before == 0 && now.Sub(start) > d/5 {
			from, before = now, got
		}
		if before > 0 && got > before && now.Sub(from) >= d*4/5 {
			return float64(got-before) / now.Sub(from).Seconds()
		}
	}
	return 0
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
			n := p.link.take(probeMost)
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
	var h probeHead
	most := 1
	for !p.stopped.Load() {
		n := p.link.take(most)
		p.polled(n > 0)
		// Answer requests for the same measurement together.
		var sum probeHead
		for i := range n {
			if !h.get(p.link.head(i)) || h.kind != probeRequest && h.kind != probeOver || h.nonce == *last ||
				h.size > p.mtu || h.size < probeSize && h.kind == probeRequest || h.count > probeMost {
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
			switch {
			case sum.size == h.size && sum.number == h.number && sum.nonce == h.nonce:
				sum.count += h.count
			default:
				p.reply(&sum)
				sum = h
			}
			most = probeMost
			if h.alone {
				most = 1
			}
		}
		p.reply(&sum)
	}
	return false
}

// reply sends the answers to requests.
func (p *probe) reply(h *probeHead) {
	for h.count > 0 {
		n := p.post(probeHead{kind: probeAnswer, nonce: h.nonce, number: h.number}, h.size, min(h.count, probeMost))
		if n == 0 {
			return // the answers count as lost
		}
		h.count -= n
	}
}
