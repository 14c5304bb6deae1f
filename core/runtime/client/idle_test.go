package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// waits records the timeouts of Wait.
type waits struct {
	transport.Worker
	asked []time.Duration
}

func (w *waits) Wait(d time.Duration) error { w.asked = append(w.asked, d); return nil }

func (w *waits) Wake() {}

// TestParkingEndsBeforeACallIsDue checks the timeouts with calls in flight and others free.
func TestParkingEndsBeforeACallIsDue(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight, cfg.Rate, cfg.Arrival = 2, 1000, config.ArrivalConstant
	caller, err := New(wiring.Wiring{Config: cfg, Rank: 1}, 0, config.IdleYield, nil)
	require.NoError(t, err)
	w := &waits{}
	caller.idle = loop.NewIdler(config.IdlePark, w, &caller.Gaps)
	rest := func(inFlight int, left time.Duration) []time.Duration {
		w.asked = nil
		caller.inFlight, caller.schedule.due = inFlight, 1+caller.clock.Ticks(left)
		for end := time.Now().Add(2 * loop.ParkAfter); time.Now().Before(end); {
			require.NoError(t, caller.loop.(*openLoop).rest(1))
		}
		return w.asked
	}
	require.Empty(t, rest(1, loop.SleepMargin/2))
	asked := rest(1, 2*loop.SleepMargin)
	require.NotEmpty(t, asked)
	require.LessOrEqual(t, asked[0], loop.SleepMargin)
	require.Equal(t, loop.ParkLimit, rest(1, time.Second)[0])
	require.Equal(t, loop.ParkLimit, rest(2, loop.SleepMargin/2)[0],
		"a full client can only wait for a response")
	require.NoError(t, caller.Close())
}
