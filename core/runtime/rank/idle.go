package rank

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/transport"
)

// idler is what a loop does about its processor after a turn.
type idler struct {
	yield  bool
	waiter transport.Waiter // nil unless parking
	turns  int              // in a row: found nothing, or with yield found something
}

const (
	// parkAfter empty turns in a row: short gaps are spun through, since a
	// wake-up costs thousands of turns.
	parkAfter = 200
	// parkLimit bounds a wait, so that a stage that moves on between the look
	// at it and the wait is noticed.
	parkLimit = time.Millisecond
)

func newIdler(strategy string, w transport.Worker) idler {
	i := idler{yield: strategy == config.IdleYield}
	if strategy == config.IdlePark {
		i.waiter, _ = w.(transport.Waiter)
	}
	return i
}

// busyYield is how many turns in a row a thread that shares its core goes on
// because it always finds work. Threads that feed it would starve otherwise.
const busyYield = 32

// busy is called in a turn that found something.
func (i *idler) busy() {
	if !i.yield {
		i.turns = 0
	} else if i.turns++; i.turns >= busyYield {
		i.yieldCore()
	}
}

// yieldCore lets other threads run. The system call is raw, so that Go's
// scheduler does not take the thread's context away.
func (i *idler) yieldCore() {
	i.turns = 0
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// pause is called in a turn that found nothing. The error is the wait's.
func (i *idler) pause() error { return i.pauseUntil(parkLimit + sleepMargin) }

// pauseUntil is pause where something has to be done after the time that is
// left: it is back before that.
func (i *idler) pauseUntil(left time.Duration) error {
	if i.yield {
		i.yieldCore()
		return nil
	}
	if i.waiter == nil || left <= sleepMargin {
		return nil
	}
	if i.turns++; i.turns < parkAfter {
		return nil
	}
	i.turns = 0
	return i.waiter.Wait(min(left-sleepMargin, parkLimit))
}

const (
	// sleepMargin is how long before its time a sleeper gets up: what a wake-up
	// takes to be back on the processor.
	sleepMargin = 100 * time.Microsecond
	// sleepLimit bounds a sleep, so that a stage that moves on is noticed.
	sleepLimit = time.Millisecond
)

// sleep passes the time until an operation is due, with nothing in flight. It
// returns before that; the loop spins through the rest. A thread with a
// processor of its own spins through all of it.
func (i *idler) sleep(left time.Duration) error {
	switch {
	case !i.yield && i.waiter == nil:
		return nil
	case left <= sleepMargin:
		if i.yield {
			i.yieldCore()
		}
		return nil
	case i.waiter != nil:
		return i.waiter.Wait(min(left-sleepMargin, sleepLimit))
	}
	t := unix.NsecToTimespec(min(left-sleepMargin, sleepLimit).Nanoseconds())
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // EINTR: the loop looks again
	return nil
}
