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
	c := newIterations(cfg, calls, 0)
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

// TestIterationBegunInThePattern does not time the part that a client has of its first iteration
// if it begins in the middle of the pattern.
func TestIterationBegunInThePattern(t *testing.T) {
	cfg := testConfig()
	require.NoError(t, cfg.Pattern.Set(config.OpRead+":3"))
	clock := machine.Calibrated()
	c := newIterations(cfg, 1, 2)
	for i := range uint64(4) {
		require.Equal(t, i%3 == 0, c.issue(0, 100+10*i))
		c.complete(clock, 0, 101+10*i, true)
	}
	require.EqualValues(t, 1, c.times.Samples)
	require.EqualValues(t, 131-110, c.times.Sum)
	require.EqualValues(t, 1, c.firsts.Sum)
}

// TestFirstParts times three parts whose responses come out of order, of an iteration in the window
// and of one that began before it.
func TestFirstParts(t *testing.T) {
	cfg := testConfig()
	require.NoError(t, cfg.Pattern.Set(config.OpRead+":3"))
	clock := machine.Calibrated()
	c := newIterations(cfg, 6, 0)
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

// TestFirstLayer has hand-offs of two layers of three pages. A layer is there once all of its pages
// are, and not when as many of any layer are.
func TestFirstLayer(t *testing.T) {
	cfg := testConfig()
	cfg.Handoff, cfg.Model = "push:3", "layers=2,latent=1,bytes=1"
	cfg.TokensPerBlock, cfg.BytesPerToken = 1, 1
	clock := machine.Calibrated()
	c := newIterations(cfg, 6, 0)
	for i := range uint32(6) {
		require.Equal(t, i == 5, c.issue(i, uint64(100+i)))
	}
	for i, call := range []uint32{0, 1, 5, 4, 2, 3} {
		c.complete(clock, call, uint64(200+10*i), true)
	}
	require.EqualValues(t, 1, c.firsts.Samples)
	require.EqualValues(t, 240-100, c.firsts.Sum)
	require.EqualValues(t, 1, c.times.Samples)
	require.EqualValues(t, 250-100, c.times.Sum)

	c.issue(0, 300) // of the next hand-off, which is dropped
	c.restart()
	for i := range uint32(6) {
		require.Equal(t, i == 5, c.issue(i, 400))
	}
}
