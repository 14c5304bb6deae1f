package rank

import "sync/atomic"

// Stage is how far a phase has come. The control side moves it on and every
// loop looks at it, so that a loop which spins on every core still ends.
type Stage uint32

// The stages, in order.
const (
	StageReady     Stage = iota + 1 // daemons serve uncounted; clients wait
	StageMeasuring                  // calls are issued and counted
	StageDraining                   // clients wait for what is in flight; daemons serve uncounted
	StageStopped                    // all loops end
)

// stage stands alone on its cache lines: it is read in every turn of every
// loop and written a few times a phase.
type stage struct {
	_ [128]byte
	v atomic.Uint32
	_ [124]byte
}

// advance moves to a later stage; it never goes back.
func (s *stage) advance(to Stage) {
	for {
		now := s.v.Load()
		if now >= uint32(to) || s.v.CompareAndSwap(now, uint32(to)) {
			return
		}
	}
}

func (s *stage) reset()          { s.v.Store(uint32(StageReady)) }
func (s *stage) now() Stage      { return Stage(s.v.Load()) }
func (s *stage) measuring() bool { return s.now() == StageMeasuring }
