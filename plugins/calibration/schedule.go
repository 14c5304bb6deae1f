package calibration

import (
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
)

// pace admits calls at a rate. The times at which they are due do not depend on when earlier calls
// were taken, so the rate does not drift. A caller that comes late may take the calls that were due
// in the last credit nanoseconds at once, so that it keeps the rate although its thread shortly
// loses its processor, and loses those before.
type pace struct {
	interval int64 // in picoseconds; 0 for no limit
	due      int64 // of the next call, in picoseconds
}

const (
	picos  = 1000 // in a nanosecond
	credit = 1e6
)

// newPace returns the pace of a rate in calls per second; the first call is due now.
func newPace(rate int, now int64) pace {
	if rate == 0 {
		return pace{}
	}
	return pace{interval: 1e12 / int64(rate), due: now * picos}
}

// left returns the nanoseconds until the next call is due, rounded up, or 0.
func (p *pace) left(now int64) int64 {
	if p.interval == 0 {
		return 0
	}
	return max(0, (p.due-now*picos+picos-1)/picos)
}

// take takes a call that is due.
func (p *pace) take(now int64) {
	p.due = max(p.due, now*picos-max(credit*picos, p.interval)) + p.interval
}

// stall is a stall of the given length at every multiple of a period. Times are in nanoseconds.
type stall struct{ length, every int64 }

// left returns how long a stall still lasts, or 0. now is on CLOCK_MONOTONIC.
func (s *stall) left(now int64) int64 { return max(0, s.length-now%s.every) }

// sinceBoot returns the difference between CLOCK_MONOTONIC, which the processes of a host share,
// and the clock of this process.
func sinceBoot() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano() - clock.Now(), err
}
