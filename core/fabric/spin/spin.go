package spin

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
)

const (
	// looksPerClock is how many vain looks at memory pass between two readings of the clock: more than
	// an answer of a thread that runs takes, so that floors of memory are without them. A system call
	// counts as callLooks.
	looksPerClock = 1 << 10
	callLooks     = 32
	// longest is how long a thread spins at a stretch, and rest how long it sleeps then. A thread that
	// runs answers sooner.
	longest = 100 * time.Microsecond
	rest    = 50 * time.Microsecond
)

// Wait is a wait for another thread. The zero value is ready to use.
type Wait struct {
	looks int
	began int64 // when the thread began to spin, on the clock of package clock; 0 if not known
}

// Vain is called after each look at memory that found nothing.
func (w *Wait) Vain() {
	if w.looks++; w.looks%looksPerClock == 0 {
		w.spun()
	}
}

// VainCall is Vain after a look that is a system call, or takes as long.
func (w *Wait) VainCall() {
	w.looks += callLooks - 1
	w.Vain()
}

// Found is called after a look that found something.
func (w *Wait) Found() { *w = Wait{} }

// spun sleeps if the thread has been spinning for long.
func (w *Wait) spun() {
	now := clock.Now()
	switch {
	case w.began == 0:
		w.began = now
	case now-w.began >= int64(longest):
		t := unix.NsecToTimespec(int64(rest))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // EINTR: it looks again
		w.began = 0
	}
}
