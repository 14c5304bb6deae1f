package client

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
	require.EqualValues(t, others, c.times.Samples)
	require.EqualValues(t, others, c.times.Sum)
	c.complete(clock, 0, 1_000_000*others+1, true)
	require.EqualValues(t, others+1, c.times.Samples)
	require.EqualValues(t, others+1_000_000*others, c.times.Sum)
	require.Equal(t, []uint64{c.times.Sum, c.times.Samples},
		[]uint64{c.firsts.Sum, c.firsts.Samples}, "of one call each")
}

// TestFirstParts times three parts whose responses come out of order, of an iteration in the window
// and of one that began before it.
func TestFirstParts(t *testing.T) {
	cfg := testConfig()
	require.NoError(t, cfg.Pattern.Set(config.OpRead+":3"))
	clock := machine.Calibrated()
	c := newIterations(cfg, 6)
	for i := range uint32(6) {
		c.issue(i, uint64(100+i))
		if i == 2 {
			c.begin()
		}
	}
	for i, call := range []uint32{5, 0, 4, 1, 2, 3} {
		c.complete(clock, call, uint64(200+10*i), true)
	}
	require.EqualValues(t, 1, c.firsts.Samples)
	require.EqualValues(t, 200-103, c.firsts.Sum)
	require.EqualValues(t, 1, c.times.Samples)
	require.EqualValues(t, 250-103, c.times.Sum)
}
