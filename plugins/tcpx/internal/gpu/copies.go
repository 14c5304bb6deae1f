package gpu

import (
	"sync/atomic"
	"time"

	"transportbench/plugins/tcpx/internal/cuda"
)

// copies are the copies from GPU memory to the host. They have a stream of their own, so they end
// in the order of CopyOut, and their numbers tell which have ended.
type copies struct {
	submitted uint64        // used by CopyOut only
	copied    atomic.Uint64 // written by the launcher

	// Used by the launcher only.
	events   [Requests]cuda.Event // by number modulo Requests
	times    [Requests]time.Time  // of launches
	sizes    [Requests]int
	launched uint64
}

// idle reports whether no copy is launched that has not ended.
func (c *copies) idle() bool { return c.launched == c.copied.Load() }

// Pin pins host memory for CopyOut. It is page aligned and not on Go's heap.
func (u *Unpacker) Pin(memory []byte) error {
	return u.call(func() error {
		_, err := u.device.Register(memory)
		return err
	})
}

// Unpin waits for all copies and undoes Pin.
func (u *Unpacker) Unpin(memory []byte) error {
	return u.call(func() error { return u.device.Unregister(memory) })
}

// CopyOut starts to copy from GPU memory to a part of pinned memory, which must not be read before
// Copied returns the copy's number. Numbers count from 1. It returns 0 if [Requests] copies have
// not ended. Like Submit it is on the data path, and does not block or allocate.
func (u *Unpacker) CopyOut(to []byte, from cuda.Address) (number uint64) {
	c := &u.copies
	if c.submitted-c.copied.Load() >= Requests {
		return 0
	}
	select {
	case u.jobs <- job{out: to, from: from}:
	default: // a fault filled the channel
		return 0
	}
	c.submitted++
	return c.submitted
}

// Copied returns the number of the last copy that has ended; all earlier ones have ended too. It
// does not call the driver.
func (u *Unpacker) Copied() (number uint64, err error) {
	// Pairs with the launcher's store, which comes after the GPU's writes. A failed copy counts as
	// ended, so the failure is read afterwards.
	number = u.copies.copied.Load()
	if failure := u.failure.Load(); failure != nil {
		return 0, *failure
	}
	if u.config.Fault == EarlySend {
		return u.copies.submitted, nil
	}
	return number, nil
}

// launchCopy starts a copy to the host and records its event. If the device fails, it counts as
// launched, and queryCopies as ended.
func (u *Unpacker) launchCopy(j *job) {
	c, stream := &u.copies, u.streams[streams]
	at := c.launched % Requests
	c.times[at], c.sizes[at] = time.Now(), len(j.out)
	c.launched++
	if !u.fail(u.device.CopyOut(stream, j.out, j.from)) {
		u.fail(u.device.Record(c.events[at], stream))
	}
}

// queryCopies queries the events of copies to the host, oldest first, until one is not ready. It
// reports whether any was ready.
func (u *Unpacker) queryCopies() (any bool) {
	c := &u.copies
	for !c.idle() {
		at := c.copied.Load() % Requests
		if u.failure.Load() == nil {
			ready, err := u.device.Query(c.events[at])
			if !u.fail(err) && !ready {
				break
			}
		}
		u.counts.sends.Add(1)
		u.counts.sendBytes.Add(uint64(c.sizes[at]))
		u.counts.sending.Add(uint64(time.Since(c.times[at])))
		c.copied.Add(1) // pairs with the load in Copied
		any = true
	}
	return any
}
