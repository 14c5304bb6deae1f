package bounce

import (
	"runtime"
	"sync"
	"sync/atomic"

	"transportbench/core/fabric/doublemap"
)

// States of a slot of [Host].
const (
	slotFree uint32 = iota
	slotLaunched
	slotDone
)

// Host unpacks with processors: on the calling thread, or on goroutines. Goroutine i of n serves
// the slots whose number is i modulo n.
type Host struct {
	bounce  []byte
	slots   [UnpackSlots]hostSlot
	copiers []*copier
	ended   sync.WaitGroup
	closed  bool
}

// hostSlot is one request that is being unpacked. Launch writes the job and then the
// state; the copier reads the state and then the job.
type hostSlot struct {
	state     atomic.Uint32
	fragments []Fragment
	to        []byte
	_         [64]byte
}

// copier is a goroutine that copies.
type copier struct {
	host  *Host
	first int // slot
	step  int
	// asleep is set before the last look at the slots. A launch that comes after that
	// look sees it and fills wakeUps.
	asleep  atomic.Bool
	wakeUps chan struct{}
	stop    atomic.Bool
}

// NewHost returns an unpacker with that many goroutines; with 0 the thread that calls Launch
// copies.
func NewHost(workers int) *Host {
	u := &Host{}
	MoreThreads(workers)
	for i := range workers {
		c := &copier{host: u, first: i, step: workers, wakeUps: make(chan struct{}, 1)}
		u.copiers = append(u.copiers, c)
		u.ended.Go(c.run)
	}
	return u
}

// Register implements [Unpacker].
func (u *Host) Register(bounce []byte) error {
	if !aligned(bounce) {
		return errMisaligned
	}
	u.bounce = bounce
	return nil
}

// Allocate implements [Unpacker].
func (u *Host) Allocate(size int) (Buffer, error) {
	ring, err := doublemap.New("transportbench-tcpx-destination", size)
	return Buffer{Host: ring, Size: len(ring)}, err
}

// Free implements [Unpacker].
func (u *Host) Free(b Buffer) error { return doublemap.Free(b.Host) }

// Close implements [Unpacker].
func (u *Host) Close() error {
	if u.closed {
		return nil
	}
	u.closed = true
	for _, c := range u.copiers {
		c.stop.Store(true)
		c.wake()
	}
	u.ended.Wait()
	MoreThreads(-len(u.copiers))
	return nil
}

// MoreThreads raises GOMAXPROCS by n, or lowers it again if n is negative. The measured runtime
// sets it to one more than its polling threads, which never give theirs up.
func MoreThreads(n int) {
	if n != 0 {
		threads.Lock()
		defer threads.Unlock()
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)+n, 1))
	}
}

var threads sync.Mutex

// sleepAfter is how many looks in a row that find nothing a copier takes before it
// sleeps: a few microseconds, less than a wake-up costs.
const sleepAfter = 500

// run copies until stop is set, and copies everything that was launched before.
func (c *copier) run() {
	for idle := 0; ; {
		stopping := c.stop.Load() // before the look, which then sees every launch before Close
		if c.copyLaunched() {
			idle = 0
			continue
		}
		if stopping {
			return
		}
		if idle++; idle < sleepAfter {
			continue
		}
		idle = 0
		c.asleep.Store(true)
		if !c.copyLaunched() && !c.stop.Load() {
			<-c.wakeUps
		}
		c.asleep.Store(false)
	}
}

// wake wakes a copier that sleeps. One pending wake-up is enough.
func (c *copier) wake() {
	select {
	case c.wakeUps <- struct{}{}:
	default:
	}
}
