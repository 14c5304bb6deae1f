package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
)

// Over many calls a burn takes its time, though the clock moves in steps that
// may be longer. It cannot take less; how much more is up to the machine.
func TestBurnTakesItsTime(t *testing.T) {
	clock := machine.Calibrated()
	b := newBurner(clock, 30*time.Nanosecond)
	const calls = 100_000
	start := clock.Now()
	for range calls {
		b.spend(1)
	}
	spent := clock.Nanos(clock.Now() - start)
	// What the calls outside of the spinning take counts as well.
	require.GreaterOrEqual(t, spent, uint64(calls*30*95/100))
	require.LessOrEqual(t, b.owed, int64(0))

	var none burner
	none.spend(1) // which has no clock to look at
}
