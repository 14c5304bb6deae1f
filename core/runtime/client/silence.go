package client

import (
	"slices"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
)

const (
	// silenceLimit is the shortest silence that is recorded. TCP waits for this long before it
	// retransmits for the first time.
	silenceLimit = 200 * time.Millisecond
	// A silence is recorded if it is silenceRatio times as long as a call takes or, in an open
	// loop, as the time between two of the client's operations, and if no more than one in
	// silenceRatio operations ended one.
	silenceRatio = 20
	// keptSilences is the number of silences of a window that are recorded.
	keptSilences = 8
)

// silences are the times in a window in which a client with calls in flight got no response, for
// example because a link was down or packets were lost. They begin up to liveEvery late.
type silences struct {
	clock *machine.Clock
	limit uint64 // ticks; noLimit outside of windows
	count uint64
	ticks uint64
	list  []record.Gap // the longest
}

func newSilences(clock *machine.Clock) silences {
	return silences{clock: clock, limit: loop.NoLimit, list: make([]record.Gap, 0, keptSilences)}
}

// begin starts a window in which an operation is due every gap ticks; 0 in a closed loop.
func (s *silences) begin(gap float64) {
	s.count, s.ticks, s.list = 0, 0, s.list[:0]
	s.limit = max(s.clock.Ticks(silenceLimit), uint64(silenceRatio*gap))
}

// add records a silence that has just ended.
func (s *silences) add(ticks uint64) {
	s.count++
	s.ticks += ticks
	length := s.clock.Nanos(ticks)
	gap := record.Gap{AtNS: machine.Monotonic() - length, ForNS: length}
	if len(s.list) < keptSilences {
		s.list = append(s.list, gap)
		return
	}
	shortest := 0
	for i := range s.list {
		if s.list[i].ForNS < s.list[shortest].ForNS {
			shortest = i
		}
	}
	if length > s.list[shortest].ForNS {
		s.list[shortest] = gap
	}
}

// report returns the silences of a window with that many operations and calls in flight.
func (s *silences) report(window, ops uint64, inFlight int) []record.Gap {
	if s.count == 0 || s.count*silenceRatio > ops {
		return nil
	}
	call := s.clock.Nanos(window-min(s.ticks, window)) * uint64(inFlight) / ops
	return slices.DeleteFunc(slices.Clone(s.list),
		func(g record.Gap) bool { return g.ForNS < silenceRatio*call })
}
