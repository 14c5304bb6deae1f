package rank

import (
	"time"

	"transportbench/core/base/machine"
)

// burner spends a known time before each call of a client. It makes a transport
// slower by an amount that is known, so that comparisons can be tested against
// it.
type burner struct {
	clock *machine.Clock
	perOp int64 // ticks
	owed  int64 // ticks; below 0 where the last burn took too long
	most  int64 // ticks that the next burn takes less
}

// mostCredit is longer than any step of a clock. What took longer was the
// machine's doing, such as another thread's turn, and is not to be given back.
const mostCredit = 200 * time.Nanosecond

func newBurner(clock *machine.Clock, perOp time.Duration) burner {
	return burner{clock: clock, perOp: int64(clock.Ticks(perOp)), most: int64(clock.Ticks(mostCredit))}
}

// spend burns the time of n calls. What a burn takes too much, since the
// clock moves in steps, the next one takes less.
func (b *burner) spend(n int) {
	if b.perOp == 0 {
		return
	}
	b.burn(n)
}

func (b *burner) burn(n int) {
	b.owed += b.perOp * int64(n)
	if b.owed <= 0 {
		return
	}
	start := b.clock.Now()
	for {
		if spent := int64(b.clock.Now() - start); spent >= b.owed {
			b.owed = max(b.owed-spent, -b.most)
			return
		}
	}
}
