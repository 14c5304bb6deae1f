package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/transport"
)

// countedWaits counts the calls of Wait.
type countedWaits struct {
	transport.Worker
	waits int
}

func (w *countedWaits) Wait(time.Duration) error { w.waits++; return nil }

func (w *countedWaits) Wake() {}

// TestParksAfterATime: a loop whose iterations are long, as with system calls, parks as soon as one
// whose iterations are short.
func TestParksAfterATime(t *testing.T) {
	for _, iteration := range []time.Duration{0, ParkAfter / 2, ParkAfter} {
		w := &countedWaits{}
		i := NewIdler(config.IdlePark, w, fakeGaps())
		for range 3 {
			i.Busy()
			began, pauses := time.Now(), 1
			require.NoError(t, i.Pause())
			require.Zero(t, w.waits, "it found something just before")
			for ; w.waits == 0; pauses++ {
				spinFor(iteration)
				require.NoError(t, i.Pause())
			}
			require.GreaterOrEqual(t, time.Since(began), ParkAfter)
			if iteration > 0 {
				require.LessOrEqual(t, pauses, 1+int(ParkAfter/iteration))
			}
			w.waits = 0
		}
	}
	w := &countedWaits{}
	i := NewIdler(config.IdlePark, w, fakeGaps())
	i.Share()
	require.NoError(t, i.Pause())
	require.Equal(t, 1, w.waits, "a goroutine parks at once")
}
