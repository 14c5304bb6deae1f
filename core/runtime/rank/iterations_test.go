package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
)

// TestIterationsEndInAnyOrder has one call that takes as long as a hundred others. Each call is an
// iteration.
func TestIterationsEndInAnyOrder(t *testing.T) {
	const calls, others = 4, 100
	cfg := testConfig()
	require.NoError(t, cfg.Pattern.Set(config.OpWrite+":1"))
	clock := machine.Calibrated()
	c := newIterations(cfg, calls)
	c.issue(0, 1)
	for i := range uint64(others) {
		call := uint32(1 + i%(calls-1))
		c.issue(call, 1_000_000*i+1)
		c.complete(clock, call, 1_000_000*i+2, true)
	}
	require.EqualValues(t, others, c.times.samples)
	require.EqualValues(t, others, c.times.sum)
	c.complete(clock, 0, 1_000_000*others+1, true)
	require.EqualValues(t, others+1, c.times.samples)
	require.EqualValues(t, others+1_000_000*others, c.times.sum)
}
