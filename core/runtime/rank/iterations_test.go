package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
)

// TestIterationsEndInAnyOrder: one call takes as long as a hundred others, each
// of which is an iteration of its own.
func TestIterationsEndInAnyOrder(t *testing.T) {
	const slots, others = 4, 100
	cfg := testConfig()
	require.NoError(t, cfg.Pattern.Set(config.OpWrite+":1"))
	clock := machine.Calibrated()
	c := newIterations(cfg, slots)
	for slot := range uint32(slots) {
		c.draw(slot, true)
	}
	c.issue(0, 1)
	for i := range uint64(others) {
		slot := uint32(1 + i%(slots-1))
		c.issue(slot, 1_000_000*i+1)
		c.complete(clock, slot, 1_000_000*i+2, true)
		c.draw(slot, true)
	}
	require.EqualValues(t, others, c.times.samples)
	require.EqualValues(t, others, c.times.sum)
	c.complete(clock, 0, 1_000_000*others+1, true)
	require.EqualValues(t, others+1, c.times.samples)
	require.EqualValues(t, others+1_000_000*others, c.times.sum)
}
