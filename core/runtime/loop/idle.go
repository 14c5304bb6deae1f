package loop

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// Idler applies the idle strategy of a loop after each iteration.
type Idler struct {
	yield  bool
	waiter transport.Waiter // nil unless the strategy is park
	after  uint64           // ticks from the first empty iteration in a row until the loop parks
	since  uint64           // ticks: the first empty iteration in a row
	streak int              // iterations in a row: empty ones, or with yield busy ones
	gaps   *GapWatch        // leaves out the time that the loop gives away
	// turns is set while the loop is one of several of its thread, which yields the core for them.
	// found reports whether the last iteration found work.
	turns, found bool
}

const (
	// ParkAfter is how long a thread finds nothing before it parks. A wake-up costs about as much,
	// so shorter gaps are spun through. It is a time, because an iteration over a socket takes as
	// long as a hundred over memory.
	ParkAfter = 5 * time.Microsecond
	// ParkLimit bounds a wait, so that a thread sees a state that changed between its last look
	// and the wait.
	ParkLimit = time.Millisecond
	// sleepLimit bounds a sleep for the same reason.
	sleepLimit = time.Millisecond
	// SleepMargin is how long before its deadline a sleeper wakes: the time that a wake-up takes
	// to get back to the processor.
	SleepMargin = 100 * time.Microsecond
	// busyYield is the number of busy iterations after which a thread that shares its core
	// yields it. Otherwise the threads that feed it would starve.
	busyYield = 32
)

// NewIdler returns the idle strategy of a loop that polls w.
func NewIdler(strategy string, w transport.Worker, gaps *GapWatch) Idler {
	i := Idler{yield: strategy == config.IdleYield, gaps: gaps}
	if strategy == config.IdlePark {
		i.waiter, _ = w.(transport.Waiter)
		i.after = gaps.clock.Ticks(ParkAfter)
	}
	return i
}

// Share makes the loop park at once. It is for a loop that is a goroutine: parking one is cheap,
// and the transport's goroutines may wait for its processor.
func (i *Idler) Share() {
	i.after = 0
	i.gaps.shared = true
}

// Busy is called after an iteration that found work.
func (i *Idler) Busy() {
	if i.turns {
		i.found = true
	} else if !i.yield {
		i.streak = 0
	} else if i.streak++; i.streak >= busyYield {
		i.YieldCore()
	}
}

// BeginTurn begins an iteration of a loop that is one of several of its thread, which yields the
// core for all of them.
func (i *Idler) BeginTurn() { i.turns, i.found = true, false }

// EndTurn ends an iteration of such a loop, and reports whether it found work.
func (i *Idler) EndTurn() (found bool) {
	i.turns = false
	return i.found
}

// YieldTurn yields the core after a turn of all loops of a thread, unless one of them found work
// lately.
func (i *Idler) YieldTurn(found bool) {
	if i.streak++; !found || i.streak >= busyYield {
		i.YieldCore()
	}
}

// YieldCore lets other threads run on the core. The system call is raw, so that Go's scheduler
// does not hand the thread's P to another goroutine.
func (i *Idler) YieldCore() {
	i.streak = 0
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	i.gaps.Restart()
}

// Pause is called after an empty iteration. Its error is the error of Wait.
func (i *Idler) Pause() error { return i.PauseUntil(ParkLimit + SleepMargin) }

// PauseUntil is pause with a deadline: it returns before left has passed.
func (i *Idler) PauseUntil(left time.Duration) error {
	if i.turns {
		return nil
	}
	if i.yield {
		i.YieldCore()
		return nil
	}
	if i.waiter == nil || left <= SleepMargin {
		// Without the pause the processor looks ahead at lines that the peer is about to write, and
		// takes them away from it. With many calls in flight the next message comes sooner than a
		// pause ends.
		if i.streak++; i.streak > 1 {
			spin.Pause()
		}
		return nil
	}
	now := i.gaps.clock.Now()
	if i.streak++; i.streak == 1 {
		i.since = now
	}
	if now-i.since < i.after {
		return nil
	}
	i.streak = 0
	return i.wait(min(left-SleepMargin, ParkLimit))
}

func (i *Idler) wait(limit time.Duration) error {
	err := i.waiter.Wait(limit)
	i.gaps.parked(limit)
	return err
}

// Sleep passes the time until an operation is due, with no call in flight. It returns before
// the time is over, and the loop spins through the rest. A thread with its own core does not
// sleep at all.
func (i *Idler) Sleep(left time.Duration) error {
	switch {
	case i.turns || !i.yield && i.waiter == nil:
		return nil
	case left <= SleepMargin:
		if i.yield {
			i.YieldCore()
		}
		return nil
	case i.waiter != nil:
		return i.wait(min(left-SleepMargin, sleepLimit))
	}
	t := unix.NsecToTimespec(min(left-SleepMargin, sleepLimit).Nanoseconds())
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // after EINTR the loop looks again
	i.gaps.Restart()
	return nil
}
