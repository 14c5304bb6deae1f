package rank

import (
	"sync/atomic"

	"transportbench/core/base/record"
)

// stage stands alone on its cache lines: it is read in every turn of every
// loop and written a few times a phase.
type stage struct {
	_ [128]byte
	v atomic.Uint32
	_ [124]byte
}

// advance moves to a later stage; it never goes back.
func (s *stage) advance(to record.Stage) {
	for {
		now := s.v.Load()
		if now >= uint32(to) || s.v.CompareAndSwap(now, uint32(to)) {
			return
		}
	}
}

func (s *stage) reset()            { s.v.Store(uint32(record.StageReady)) }
func (s *stage) now() record.Stage { return record.Stage(s.v.Load()) }
func (s *stage) measuring() bool   { return s.now() == record.StageMeasuring }
