package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/transport"
)

// TestStorageLanes computes by hand when two lanes have served five values of 10 ms that arrive at
// once.
func TestStorageLanes(t *testing.T) {
	clock := machine.Calibrated()
	cfg := testConfig()
	cfg.ReadDelay, cfg.StorageLanes = "10ms", 2
	require.NoError(t, cfg.Validate())
	s := newStorage(clock, cfg, 0, 8)
	begin, each := uint64(1_000_000), clock.Ticks(10*time.Millisecond)
	for i := range 5 {
		s.add(stored{token: transport.Token(i)}, begin)
	}
	require.Equal(t, 3, s.counts.maxQueued)
	_, ok := s.next(begin + each - 1)
	require.False(t, ok, "not before its time")
	for round, n := range []int{2, 2, 1} {
		for range n {
			r, ok := s.next(begin + 100*each) // the daemon looks late: due times do not move
			require.True(t, ok)
			require.Equal(t, begin+uint64(round+1)*each, r.due)
		}
	}
	require.False(t, s.open())
	s.end()
	r := s.report(&cfg)
	require.EqualValues(t, 5, r.Reads)
	require.Equal(t, clock.Nanos(5*each), r.BusyNS)
	require.Equal(t, clock.Nanos((0+0+1+1+2)*each), r.WaitNS)
	require.Equal(t, 3, r.MaxQueued)
}

// TestStorageLateLook adds a value after its lane is free, but before the daemon has looked: its
// time begins when it comes.
func TestStorageLateLook(t *testing.T) {
	clock := machine.Calibrated()
	cfg := testConfig()
	cfg.ReadDelay, cfg.StorageLanes = "10ms", 1
	s := newStorage(clock, cfg, 0, 2)
	each := clock.Ticks(10 * time.Millisecond)
	s.add(stored{}, 1)
	s.add(stored{}, 1+5*each)
	_, ok := s.next(1 + 5*each)
	require.True(t, ok)
	second, ok := s.next(1 + 6*each)
	require.True(t, ok)
	require.Equal(t, 1+6*each, second.due)
	require.Zero(t, s.counts.wait)
}

// TestStorageOrder completes values in the order in which they are due.
func TestStorageOrder(t *testing.T) {
	cfg := testConfig()
	cfg.ReadDelay, cfg.WriteDelay = "lognormal:1ms-5ms", "exponential:2ms"
	cfg.LookupDelay, cfg.StorageLanes, cfg.WriteLanes = "3ms", 2, 3
	require.NoError(t, cfg.Validate())
	s := newStorage(machine.Calibrated(), cfg, 3, 500)
	for i := range 500 {
		s.add(stored{kind: uint8(i % storageKinds)}, 1)
	}
	last := uint64(0)
	for range 500 {
		r, ok := s.next(1 << 62)
		require.True(t, ok)
		require.GreaterOrEqual(t, r.due, last)
		last = r.due
	}
}
