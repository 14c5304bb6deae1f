package rank

import (
	"sync/atomic"

	"transportbench/core/base/record"
)

// stage stands alone on its cache lines: it is read in every turn of every
// loop and written a few times a phase.
type state struct {
	_ [128]byte
	v atomic.Uint32
	_ [124]byte
}

// advance moves to a later stage; it never goes back.
func (s *state) advance(to record.State) {
	for {
		now := s.v.Load()
		if now >= uint32(to) || s.v.CompareAndSwap(now, uint32(to)) {
			return
		}
	}
}

func (s *state) reset()            { s.v.Store(uint32(record.StateReady)) }
func (s *state) now() record.State { return record.State(s.v.Load()) }
func (s *state) measuring() bool   { return s.now() == record.StateMeasuring }
