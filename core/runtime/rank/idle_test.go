package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// waits records the timeouts of Wait.
type waits struct {
	transport.Worker
	asked []time.Duration
}

func (w *waits) Wait(d time.Duration) error { w.asked = append(w.asked, d); return nil }
func (w *waits) Wake()                      {}

// TestParkingEndsBeforeACallIsDue checks the timeouts with calls in flight and others free.
func TestParkingEndsBeforeACallIsDue(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight, cfg.Rate, cfg.Arrival = 2, 1000, config.ArrivalConstant
	client := cluster(t, transporttest.NewMemoryDriver(), cfg,
		config.IdleYield)[1].threads[0].client
	w := &waits{}
	client.idle = newIdler(config.IdlePark, w, &client.gaps)
	rest := func(inFlight int, left time.Duration) []time.Duration {
		w.asked = nil
		client.inFlight, client.schedule.due = inFlight, 1+client.clock.Ticks(left)
		for range 2 * parkAfter {
			require.NoError(t, client.loop.(*openLoop).rest(1))
		}
		return w.asked
	}
	require.Empty(t, rest(1, sleepMargin/2))
	asked := rest(1, 2*sleepMargin)
	require.NotEmpty(t, asked)
	require.LessOrEqual(t, asked[0], sleepMargin)
	require.Equal(t, parkLimit, rest(1, time.Second)[0])
	require.Equal(t, parkLimit, rest(2, sleepMargin/2)[0],
		"a full client can only wait for a response")
	client.inFlight = 0
}
