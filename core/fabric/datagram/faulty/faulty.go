package faulty

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// Faults are the probabilities, from 0 to 1, of each fault of a datagram. They are independent, and
// apply in this order.
type Faults struct {
	Drop      float64 // it never arrives
	Corrupt   float64 // one to four of its bits flip
	Duplicate float64 // it arrives twice
	Reorder   float64 // one to eight later datagrams overtake it, for at most DelayBy
	Delay     float64 // it arrives DelayBy later
	// DelayBy is how long datagrams are held; 0 is a millisecond.
	DelayBy time.Duration
	// Seed determines the choice of faults: the same datagrams meet the same faults. The order that
	// delays cause still depends on time.
	Seed uint64
}

const (
	defaultDelay = time.Millisecond
	maxOvertaken = 8
	maxFlips     = 4
	// maxHeld is how many datagrams are held at once in each direction; others pass unharmed and
	// are counted.
	maxHeld = 128
)

// port is a [datagram.Port] that injects faults into the datagrams of another port, both sent and
// received. It works on every provider, needs no privileges and is reproducible, unlike netem.
type port struct {
	datagram.Port // the other port
	sending       direction
	receiving     direction
	scratch       []byte
	memory        []byte
	lent          []int32 // buffers of held datagrams that the last Receive returned
	closed        bool
}

var _ Port = (*port)(nil)

// direction is the state of one direction.
type direction struct {
	faults Faults
	random *rand.Rand
	passed uint64 // datagrams so far
	held   []held // in the order in which they were held
	free   []int32
	memory []byte // maxHeld buffers of mtu bytes
	mtu    int
	counts faultCounts
}

// held is a datagram that is held back.
type held struct {
	due    time.Time // when it goes at the latest
	after  uint64    // how many datagrams must pass first; math.MaxUint64 if only time counts
	buffer int32
	length int
	to     datagram.Remote // of a sent datagram
	source datagram.Source // of a received one
}

type faultCounts struct{ dropped, corrupted, duplicated, reordered, delayed, spared uint64 }

// Port is the port of [New].
type Port interface {
	datagram.Port
	datagram.Prober
	// Inject changes the faults for all later datagrams. Held datagrams stay held.
	Inject(send, receive Faults) error
}

// New returns a port that injects faults into the datagrams of inner, which it owns from then on.
// It is a [datagram.Waiter] if inner is one.
func New(inner datagram.Port, send, receive Faults) (Port, error) {
	f, err := newPort(inner, send, receive)
	if err != nil {
		return nil, err
	}
	if w, ok := inner.(datagram.Waiter); ok {
		return waitingPort{f, w}, nil
	}
	return f, nil
}

func newPort(inner datagram.Port, send, receive Faults) (*port, error) {
	mtu := inner.MTU()
	memory, err := unix.Mmap(-1, 0, (2*maxHeld+1)*mtu, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mapping buffers for %d datagrams of %d bytes: %w", 2*maxHeld+1,
			mtu, err)
	}
	f := &port{Port: inner, memory: memory, scratch: memory[2*maxHeld*mtu:],
		lent: make([]int32, 0, maxHeld)}
	f.sending.init(memory[:maxHeld*mtu], mtu)
	f.receiving.init(memory[maxHeld*mtu:2*maxHeld*mtu], mtu)
	if err := f.Inject(send, receive); err != nil {
		return nil, errors.Join(err, unix.Munmap(memory))
	}
	return f, nil
}

func (d *direction) init(memory []byte, mtu int) {
	d.memory, d.mtu = memory, mtu
	d.held = make([]held, 0, maxHeld)
	d.free = make([]int32, maxHeld)
	for i := range d.free {
		d.free[i] = int32(i)
	}
}

// Inject implements [Port].
func (f *port) Inject(send, receive Faults) error {
	if err := errors.Join(send.check("send"), receive.check("receive")); err != nil {
		return err
	}
	f.sending.inject(send, 1)
	f.receiving.inject(receive, 2)
	return nil
}

func (d *direction) inject(faults Faults, stream uint64) {
	if faults.DelayBy == 0 {
		faults.DelayBy = defaultDelay
	}
	d.faults = faults
	d.random = rand.New(rand.NewPCG(faults.Seed, stream))
}

func (f Faults) check(direction string) error {
	for fault, p := range map[string]float64{"drop": f.Drop, "corrupt": f.Corrupt,
		"duplicate": f.Duplicate, "reorder": f.Reorder, "delay": f.Delay} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s faults: probability %v of %s is out of range (0 to 1)", direction,
				p, fault)
		}
	}
	if f.DelayBy < 0 {
		return fmt.Errorf("%s faults: delay %v is negative", direction, f.DelayBy)
	}
	return nil
}

// Release implements [datagram.Port]. Held datagrams to the remote are lost.
func (f *port) Release(r datagram.Remote) {
	d := &f.sending
	kept := d.held[:0]
	for _, h := range d.held {
		if h.to == r {
			d.free = append(d.free, h.buffer)
		} else {
			kept = append(kept, h)
		}
	}
	d.held = kept
	f.Port.Release(r)
}

// ReadStats implements [datagram.Port]: the counters of the port inside, which counts sent
// datagrams after the faults and received ones before them, and those of the faults.
func (f *port) ReadStats(dst []transport.Stat) []transport.Stat {
	dst = f.Port.ReadStats(dst)
	for _, d := range []struct {
		name   string
		counts *faultCounts
	}{{"send", &f.sending.counts}, {"receive", &f.receiving.counts}} {
		for _, c := range []struct {
			fault, help string
			value       uint64
		}{
			{"dropped", "datagrams dropped on purpose", d.counts.dropped},
			{"corrupted", "datagrams corrupted on purpose", d.counts.corrupted},
			{"duplicated", "datagrams duplicated on purpose", d.counts.duplicated},
			{"reordered", "datagrams overtaken on purpose", d.counts.reordered},
			{"delayed", "datagrams delayed on purpose", d.counts.delayed},
			{"spared", "faults omitted because too many datagrams were held", d.counts.spared},
		} {
			s := transport.Stat{Name: "fault_" + d.name + "_" + c.fault, Help: c.help,
				Value: c.value}
			if c.fault == "dropped" {
				s.Means = transport.MeansRetransmission
			}
			dst = append(dst, s)
		}
	}
	return dst
}

// Probe implements [datagram.Prober]. The floor has no faults.
func (f *port) Probe(ctx context.Context, to datagram.Remote,
	probe transport.Probe) (transport.Floor, error) {
	p, ok := f.Port.(datagram.Prober)
	if !ok {
		return transport.Floor{}, transport.ErrUnsupported
	}
	return p.Probe(ctx, to, probe)
}

// Close implements [datagram.Port]. Held datagrams are lost.
func (f *port) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(f.Port.Close(), unix.Munmap(f.memory))
}

// waitingPort is a port around a [datagram.Waiter].
type waitingPort struct {
	*port
	waiter datagram.Waiter
}

// Wait implements [datagram.Waiter]. It returns when the first held datagram is due.
func (f waitingPort) Wait(timeout time.Duration) error {
	for _, d := range []*direction{&f.sending, &f.receiving} {
		for i := range d.held {
			if d.held[i].after <= d.passed {
				return nil
			}
			timeout = min(timeout, time.Until(d.held[i].due))
		}
	}
	return f.waiter.Wait(max(timeout, 0))
}

// Wake implements [datagram.Waiter].
func (f waitingPort) Wake() { f.waiter.Wake() }
