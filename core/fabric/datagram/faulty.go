package datagram

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Faults are what a bad network does to datagrams, each with a probability from 0
// to 1 and apart from the others, in the order in which they stand here.
type Faults struct {
	Drop      float64 // it never arrives
	Corrupt   float64 // one to four of its bits are turned over
	Duplicate float64 // it arrives twice
	Reorder   float64 // one to eight of those behind it overtake it, or DelayBy passes
	Delay     float64 // it arrives DelayBy later
	// DelayBy is how long datagrams are held back; 0 is a millisecond.
	DelayBy time.Duration
	// Seed makes the choices: the same ones for the same datagrams. What time does
	// to them it does not settle.
	Seed uint64
}

const (
	defaultDelay = time.Millisecond
	maxOvertaken = 8
	maxFlips     = 4
	// heldMost is how many datagrams are held back at once, in each direction; what
	// comes when there are as many passes unharmed, and is counted.
	heldMost = 128
)

// Faulty is a port in a bad network: it does to the datagrams of another port what
// Faults say, on their way out and on their way in. It implements [Port].
type Faulty struct {
	port     Port
	outward  side
	inward   side
	scratch  []byte
	memory   []byte
	lent     []int32 // held datagrams that the last Receive handed out
	isClosed bool
}

var _ Port = (*Faulty)(nil)

// side is one direction.
type side struct {
	faults Faults
	random *rand.Rand
	passed uint64 // datagrams so far
	held   []held // by the time at which they were held
	spare  []int32
	buffer []byte // heldMost times the MTU
	mtu    int
	counts faultCounts
}

// held is a datagram that is held back.
type held struct {
	due    time.Time // when it goes at the latest
	after  uint64    // how many must have passed before it; the largest number where only time counts
	buffer int32
	length int
	to     Remote // outward
	source Source // inward
}

type faultCounts struct{ dropped, corrupted, duplicated, reordered, delayed, spared uint64 }

// NewFaulty puts faults on both sides of a port, which it owns from then on. What
// the other does not hold back it passes on at once; errors, addresses and all else
// are the other's.
func NewFaulty(port Port, send, receive Faults) (*Faulty, error) {
	mtu := port.MTU()
	memory, err := unix.Mmap(-1, 0, (2*heldMost+1)*mtu, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mapping room for %d datagrams: %w", 2*heldMost+1, err)
	}
	f := &Faulty{port: port, memory: memory, scratch: memory[2*heldMost*mtu:], lent: make([]int32, 0, heldMost)}
	f.outward.make(memory[:heldMost*mtu], mtu)
	f.inward.make(memory[heldMost*mtu:2*heldMost*mtu], mtu)
	if err := f.Inject(send, receive); err != nil {
		return nil, errors.Join(err, unix.Munmap(memory))
	}
	return f, nil
}

func (s *side) make(buffer []byte, mtu int) {
	s.buffer, s.mtu = buffer, mtu
	s.held = make([]held, 0, heldMost)
	s.spare = make([]int32, heldMost)
	for i := range s.spare {
		s.spare[i] = int32(i)
	}
}

// Inject changes the faults from the next datagram on. What is held back already
// stays so.
func (f *Faulty) Inject(send, receive Faults) error {
	if err := errors.Join(send.check("send"), receive.check("receive")); err != nil {
		return err
	}
	f.outward.inject(send, 1)
	f.inward.inject(receive, 2)
	return nil
}

func (s *side) inject(faults Faults, stream uint64) {
	if faults.DelayBy == 0 {
		faults.DelayBy = defaultDelay
	}
	s.faults = faults
	s.random = rand.New(rand.NewPCG(faults.Seed, stream))
}

func (f Faults) check(where string) error {
	for name, p := range map[string]float64{"drop": f.Drop, "corrupt": f.Corrupt, "duplicate": f.Duplicate, "reorder": f.Reorder, "delay": f.Delay} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s fault %s: a probability of %v is outside 0 to 1", where, name, p)
		}
	}
	if f.DelayBy < 0 {
		return fmt.Errorf("%s faults: delay of %v", where, f.DelayBy)
	}
	return nil
}

// Address implements [Port].
func (f *Faulty) Address() []byte { return f.port.Address() }

// MTU implements [Port].
func (f *Faulty) MTU() int { return f.port.MTU() }

// Open implements [Port].
func (f *Faulty) Open(address []byte) (Remote, error) { return f.port.Open(address) }

// Release implements [Port]. What was held back for the remote is lost.
func (f *Faulty) Release(r Remote) {
	s := &f.outward
	kept := s.held[:0]
	for _, h := range s.held {
		if h.to == r {
			s.spare = append(s.spare, h.buffer)
		} else {
			kept = append(kept, h)
		}
	}
	s.held = kept
	f.port.Release(r)
}

// Source implements [Port].
func (f *Faulty) Source(r Remote) Source { return f.port.Source(r) }

// Notes implements [Port].
func (f *Faulty) Notes() map[string]string { return f.port.Notes() }

// ReadStats implements [Port]: the counters of the port, which see what was left of
// the faults on the way out and what they have yet to touch on the way in, and those
// of the faults.
func (f *Faulty) ReadStats(dst []transport.Stat) []transport.Stat {
	dst = f.port.ReadStats(dst)
	for _, s := range []struct {
		direction string
		counts    *faultCounts
	}{{"send", &f.outward.counts}, {"receive", &f.inward.counts}} {
		for _, c := range []struct {
			fault, help string
			value       uint64
		}{
			{"dropped", "datagrams dropped on purpose", s.counts.dropped},
			{"corrupted", "datagrams corrupted on purpose", s.counts.corrupted},
			{"duplicated", "datagrams duplicated on purpose", s.counts.duplicated},
			{"reordered", "datagrams let others overtake them on purpose", s.counts.reordered},
			{"delayed", "datagrams delayed on purpose", s.counts.delayed},
			{"spared", "faults left out since too many datagrams were held back", s.counts.spared},
		} {
			dst = append(dst, transport.Stat{Name: "fault_" + s.direction + "_" + c.fault, Help: c.help, Value: c.value})
		}
	}
	return dst
}

// Probe implements [Prober]: the floor of the port has no faults.
func (f *Faulty) Probe(ctx context.Context, to Remote, initiate bool, d time.Duration) (transport.Floor, error) {
	p, ok := f.port.(Prober)
	if !ok {
		return transport.Floor{}, transport.ErrUnsupported
	}
	return p.Probe(ctx, to, initiate, d)
}

// Close implements [Port]. What is held back is lost.
func (f *Faulty) Close() error {
	if f.isClosed {
		return nil
	}
	f.isClosed = true
	return errors.Join(f.port.Close(), unix.Munmap(f.memory))
}

// faultyWaiter is the [Waiter] of a Faulty whose port is one.
type faultyWaiter struct {
	*Faulty
	waiter Waiter
}

// Wait implements [Waiter]: for no longer than something is held back.
func (f faultyWaiter) Wait(timeout time.Duration) error {
	for _, s := range []*side{&f.outward, &f.inward} {
		for i := range s.held {
			if s.held[i].after <= s.passed {
				return nil
			}
			timeout = min(timeout, time.Until(s.held[i].due))
		}
	}
	return f.waiter.Wait(max(timeout, 0))
}

// Wake implements [Waiter].
func (f faultyWaiter) Wake() { f.waiter.Wake() }
