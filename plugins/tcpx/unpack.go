package tcpx

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// unpackCPU is the unpacking of mode host: processors copy.
const unpackCPU = "cpu"

// hostMode has pages in memory, and processors that unpack them.
var hostMode = mode{
	name:        "host",
	unpacks:     []string{unpackCPU, unpackNone},
	available:   func(*settings) error { return nil },
	newUnpacker: func(s *settings) (unpacker, error) { return newHostUnpacker(s.unpackWorkers) },
}

// Where a slot of the host's unpacker is.
const (
	slotFree uint32 = iota
	slotLaunched
	slotDone
)

// hostUnpacker copies with the calling thread, or with goroutines of its own. Each of
// these has the slots of its number modulo theirs.
type hostUnpacker struct {
	bounce []byte
	slots  [unpackSlots]hostSlot
	copier []*copier
	ended  sync.WaitGroup
	closed bool
}

// hostSlot is one request that is being unpacked. Who launches writes the job, then
// the state; the copier reads them in the other order, and so the other way around.
type hostSlot struct {
	state       atomic.Uint32
	descriptors []descriptor
	to          []byte
	_           [64]byte
}

// copier is a goroutine that copies.
type copier struct {
	u     *hostUnpacker
	first int // slot
	step  int
	// asleep is set before the last look at the slots: a launch that comes after
	// that look sees it, and rings the bell.
	asleep atomic.Bool
	bell   chan struct{}
	stop   atomic.Bool
}

func newHostUnpacker(workers int) (unpacker, error) {
	u := &hostUnpacker{}
	moreThreads(workers)
	for i := range workers {
		c := &copier{u: u, first: i, step: workers, bell: make(chan struct{}, 1)}
		u.copier = append(u.copier, c)
		u.ended.Go(c.run)
	}
	return u, nil
}

func (u *hostUnpacker) register(bounce []byte) error {
	if !aligned(bounce) {
		return errMisaligned
	}
	u.bounce = bounce
	return nil
}

func (u *hostUnpacker) allocate(size int) (buffer, error) {
	ring, err := newRing("transportbench-tcpx-destination", size)
	return buffer{host: ring, size: len(ring)}, err
}

func (u *hostUnpacker) free(b buffer) error { return freeRing(b.host) }

func (u *hostUnpacker) close() error {
	if u.closed {
		return nil
	}
	u.closed = true
	for _, c := range u.copier {
		c.stop.Store(true)
		c.ring()
	}
	u.ended.Wait()
	moreThreads(-len(u.copier))
	return nil
}

// moreThreads has Go run more threads at once, or fewer again: those that poll never give
// theirs away, and the runtime has as many as poll and one.
func moreThreads(n int) {
	if n != 0 {
		threads.Lock()
		defer threads.Unlock()
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)+n, 1))
	}
}

var threads sync.Mutex

// sleepAfter is how many looks in a row that find nothing a copier takes before it
// sleeps: a few microseconds, less than what a wake-up costs.
const sleepAfter = 500

// run copies until it is told to stop, and then what was launched before.
func (c *copier) run() {
	for idle := 0; ; {
		if c.look() {
			idle = 0
			continue
		}
		if c.stop.Load() {
			return
		}
		if idle++; idle < sleepAfter {
			continue
		}
		idle = 0
		c.asleep.Store(true)
		if !c.look() && !c.stop.Load() {
			<-c.bell
		}
		c.asleep.Store(false)
	}
}
