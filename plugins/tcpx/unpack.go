package tcpx

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
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

// hostUnpacker copies with the calling thread, or with threads of its own. Each of
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

// copier is a thread that copies.
type copier struct {
	u     *hostUnpacker
	first int // slot
	step  int
	// asleep is set before the last look at the slots: a launch that comes after
	// that look sees it, and rings the bell, an eventfd.
	asleep atomic.Bool
	bell   int
	stop   atomic.Bool
}

func newHostUnpacker(workers int) (unpacker, error) {
	u := &hostUnpacker{}
	for i := range workers {
		bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("an eventfd for an unpack worker: %w", err), u.close())
		}
		c := &copier{u: u, first: i, step: workers, bell: bell}
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
	var errs []error
	for _, c := range u.copier {
		errs = append(errs, unix.Close(c.bell))
	}
	return errors.Join(errs...)
}

// sleepAfter is how many looks in a row that find nothing a copier takes before it
// sleeps: a few microseconds, less than what a wake-up costs.
const sleepAfter = 2000

// run copies until it is told to stop, and then what was launched before.
func (c *copier) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
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
			var count [8]byte
			_, _ = unix.Read(c.bell, count[:]) // EINTR: one more look is no harm
		}
		c.asleep.Store(false)
	}
}
