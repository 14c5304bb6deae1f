package datagram

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// link is a bare way between two threads, for the probe of its floor: no batching, no
// checks and no state but what the medium has.
type link interface {
	// post sends n datagrams of size bytes that begin with head, and says how many
	// went. A lone one goes by the quickest call for one.
	post(head []byte, size, n int) int
	// take receives up to most datagrams, and says how many there are.
	take(most int) int
	// head is the beginning of the i-th of them; it may be shorter than wanted.
	head(i int) []byte
}

// The probe's protocol: the initiator asks, and the other side answers each request
// with as many datagrams as it says, until it is over. Little-endian: magic u32, kind
// u8, whether datagrams come one at a time u8, count of answers u16, size of an answer
// u32, unused u32, nonce of the probe u64, number u64.
const (
	probeMagic = 0x7462_6470 // "tbdp"
	probeSize  = 32

	probeRequest = 1
	probeAnswer  = 2
	probeOver    = 3
	probeEnded   = 4
)

// What is measured: round trips of one datagram, of many, and answers that are long.
const (
	probePingSize  = 64
	probeRateSize  = 32
	probeInFlight  = 64
	probeTogether  = 8       // round trips that are timed together
	probeLost      = 1 << 16 // looks in vain: far longer than an answer takes where both sides run
	probeYield     = 1 << 12 // looks in vain before the core is given away
	probeStream    = 1 << 20
	probeMost      = 64 // answers to one request
	probePatience  = 2 * time.Millisecond
	probeFarewells = 25 // some seconds
	probeEnds      = 3
	// Under a limited rate it takes so long for what is on its way to arrive.
	probeMostPatience = 200 * time.Millisecond
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

// measure is one side of [Prober.Probe]. last is the nonce of the probe that this
// side answered before, whose remains may still be on their way.
func measure(ctx context.Context, l link, mtu int, initiate bool, d time.Duration, last *uint64) (f transport.Floor, err error) {
	p := &probe{link: l, mtu: mtu}
	defer context.AfterFunc(ctx, func() { p.stopped.Store(true) })()
	if mtu < probePingSize {
		return f, errors.New("the MTU is too small for a probe")
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
	// As many long datagrams on their way as fit into a megabyte.
	window := max(probeStream/mtu, 2)
	count := min(max(window/2, 1), probeMost)
	f.Bandwidth = p.answers(d/4, max(window/count, 2), mtu, count) * float64(mtu)
	if p.stopped.Load() {
		return transport.Floor{}, context.Cause(ctx)
	}
	p.end()
	return f, nil
}

// looked counts looks in vain: a side whose processor the other one waits for gives
// it away now and then.
func (p *probe) looked(found bool) {
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

// answers keeps requests in flight that ask for count answers of size bytes each, and
// returns how many answers come per second.
func (p *probe) answers(d time.Duration, requests, size, count int) float64 {
	p.number++ // tells answers from those of another measurement
	inFlight, got, waiting, patience := 0, 0, 0, probePatience
	start := time.Now()
	from, before, heard := start, 0, start
	for looks := 0; !p.stopped.Load(); looks++ {
		if n := requests - inFlight; n > 0 {
			inFlight += p.post(probeHead{kind: probeRequest, count: count, size: size, number: p.number}, probeRateSize, n)
		}
		n := p.link.take(probeMost)
		p.looked(n > 0)
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
		case now.Sub(heard) > patience: // what is missing was lost, or is late: ask for less
			p.number++
			inFlight, waiting, heard = 0, 0, now
			requests, patience = max(requests/2, 1), min(2*patience, probeMostPatience)
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

// end tells the other side that it is over, again and again: while that one is without a
// processor, what it has to receive first may leave no room for a farewell, and it waits
// for one without end. It may be gone already.
func (p *probe) end() {
	var h probeHead
	patience := probePatience
	for range probeFarewells {
		p.post(probeHead{kind: probeOver, alone: true}, probeSize, 1)
		for sent := time.Now(); !p.stopped.Load() && time.Since(sent) < patience; {
			n := p.link.take(probeMost)
			p.looked(n > 0)
			for i := range n {
				if h.get(p.link.head(i)) && h.kind == probeEnded && h.nonce == p.nonce {
					return
				}
			}
		}
		patience = min(2*patience, probeMostPatience)
	}
}

// answer answers until it is over, or until it is stopped, and says which.
func (p *probe) answer(last *uint64) (over bool) {
	var h probeHead
	most := 1
	for !p.stopped.Load() {
		n := p.link.take(most)
		p.looked(n > 0)
		// Requests for the same come together and are answered together.
		var sum probeHead
		for i := range n {
			if !h.get(p.link.head(i)) || h.kind != probeRequest && h.kind != probeOver || h.nonce == *last ||
				h.size > p.mtu || h.size < probeSize && h.kind == probeRequest || h.count > probeMost {
				continue
			}
			if h.kind == probeOver {
				if h.nonce != p.nonce {
					continue // of a probe that was given up
				}
				*last = p.nonce
				// Some may be lost, and there may be no room yet.
				for tries := 0; tries < 1<<12 && p.post(probeHead{kind: probeEnded}, probeSize, probeEnds) == 0; tries++ {
					p.looked(false)
				}
				return true
			}
			// What a probe left behind that was given up comes before the others.
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
			return // they are lost
		}
		h.count -= n
	}
}
