package spin

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
)

const (
	// looksPerClock is how many looks at memory pass between two readings of the clock: more than
	// an answer of a thread that runs takes, so that floors of memory are without them. A system
	// call counts as callLooks.
	looksPerClock = 1 << 10
	callLooks     = 32

	// A thread spins for spinTimes its longest recent wait before it sleeps for the first time, at
	// least minSpin and at most maxSpin, and for firstSpin until it knows a wait. Otherwise the
	// sleep would count as part of a long round trip. Later in the same wait it sleeps after each
	// minSpin. The loops in C of UCX and ibverbs have the same constants.
	spinTimes = 4
	minSpin   = 100 * time.Microsecond
	firstSpin = time.Millisecond
	maxSpin   = 2 * time.Millisecond
	rest      = 50 * time.Microsecond

	// spinMemory is for how many times its length the longest wait counts. A window of messages
	// arrives in several parts, and only the first wait of each is a whole round trip.
	spinMemory = 16
)

// Wait is a wait for another thread. The zero value is ready to use. Keep it from one wait to the
// next, because it learns how long they take.
type Wait struct {
	looks int
	// when the thread first read the clock in this wait, on that of package clock; 0 if not yet
	began int64
	sleep int64 // when it sleeps next
	spin  int64 // spinTimes the longest recent wait, in nanoseconds
	until int64 // when spin is out of date; 0 before the first long wait
}

// Idle is called after each look at memory that found nothing.
func (w *Wait) Idle() {
	if w.looks++; w.looks%looksPerClock == 0 {
		w.spun()
	}
}

// IdleCall is Idle after a look that is a system call, or takes as long.
func (w *Wait) IdleCall() {
	w.looks += callLooks - 1
	w.Idle()
}

// Found is called after a look that found something.
func (w *Wait) Found() {
	w.looks = 0
	if w.began != 0 {
		w.learn()
	}
}

// IdleAfter is Idle for a loop that counts its looks since the last arrival in a register, so that
// a floor of memory does not touch the Wait. The first look has number 0.
func (w *Wait) IdleAfter(looks int) {
	if looks%looksPerClock == looksPerClock-1 {
		w.spun()
	}
}

// FoundAfter is Found after IdleAfter. The argument is the number of looks that found nothing.
func (w *Wait) FoundAfter(looks int) {
	if looks >= looksPerClock {
		w.Found()
	}
}

// learn ends a wait that was long enough for the clock to be read.
func (w *Wait) learn() {
	now := clock.Now()
	if took := now - w.began; spinTimes*took > w.spin || now > w.until {
		w.spin = min(spinTimes*took, int64(maxSpin))
		w.until = now + spinMemory*took
	}
	w.began = 0
}

// spun sleeps if the thread has been spinning for long.
func (w *Wait) spun() {
	now := clock.Now()
	switch {
	case w.began == 0:
		if w.until == 0 {
			w.spin, w.until = int64(firstSpin), now+spinMemory*int64(firstSpin)
		} else if now > w.until {
			w.spin = 0
		}
		w.began, w.sleep = now, now+max(w.spin, int64(minSpin))
	case now >= w.sleep:
		t := unix.NsecToTimespec(int64(rest))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // EINTR: it looks again
		w.sleep = clock.Now() + int64(minSpin)
	}
}
