package loop

import (
	"sync/atomic"

	"transportbench/core/base/record"
)

// State is the record.State of the running window. It has its cache lines to itself, because
// every loop reads it in every iteration and it is written a few times per window.
type State struct {
	_ [128]byte
	v atomic.Uint32
	_ [124]byte
}

// Advance moves to a later state; an earlier one has no effect.
func (s *State) Advance(to record.State) {
	for {
		now := s.v.Load()
		if now >= uint32(to) || s.v.CompareAndSwap(now, uint32(to)) {
			return
		}
	}
}

// Reset returns to the state before a window.
func (s *State) Reset() { s.v.Store(uint32(record.StateReady)) }

// Now returns the state.
func (s *State) Now() record.State { return record.State(s.v.Load()) }

// Measuring reports whether the window measures.
func (s *State) Measuring() bool { return s.Now() == record.StateMeasuring }
