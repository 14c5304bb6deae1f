package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
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
	require.Equal(t, 3, s.queued)
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
	r := s.atEnd.report(clock, s.limit)
	require.EqualValues(t, 5, r.Reads)
	require.Equal(t, clock.Nanos(5*each), r.BusyNS)
	require.Equal(t, clock.Nanos((0+0+1+1+2)*each), r.WaitNS)
	require.Equal(t, 3, r.MostQueued)
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
	require.NoError(t, cfg.Validate())
	s := newStorage(machine.Calibrated(), cfg, 3, 500)
	for i := range 500 {
		s.add(stored{write: i%2 == 0}, 1)
	}
	last := uint64(0)
	for range 500 {
		r, ok := s.next(1 << 62)
		require.True(t, ok)
		require.GreaterOrEqual(t, r.due, last)
		last = r.due
	}
}

// TestStorage runs loads against a storage: every call is answered and verified, reads and writes
// take at least their delays, and lookups take less than a read.
func TestStorage(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"client-server": func(c *config.Config) {},
		"proxied":       func(c *config.Config) { c.Topology = config.TopologyMeshProxied },
		"immediate": func(c *config.Config) {
			c.Flush, c.Topology = config.FlushImmediate,
				config.TopologyMeshDirect
		},
		"sizes vary": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("uniform:1-100"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.ReadDelay, cfg.WriteDelay, cfg.StorageLanes = "300us", "uniform:200us-400us", 4
			require.NoError(t, cfg.Pattern.Set("lookup:7,read:6,write:3"))
			shape(&cfg)
			require.NoError(t, cfg.Validate())
			ranks := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleYield)
			runOnOneThread(t, ranks, 800)
			reads, puts := uint64(0), uint64(0)
			for _, r := range ranks {
				for _, thread := range r.threads {
					if d := thread.daemon; d != nil {
						d.storage.end()
						require.False(t, d.storage.open(), "all are answered")
						reads, puts = reads+d.storage.atEnd.served[0],
							puts+d.storage.atEnd.served[1]
						continue
					}
					c := thread.client
					require.Zero(t, c.counts.lost)
					require.Empty(t, c.failures())
					shortest := func(op workload.Op) float64 {
						return c.byOp[op].Histogram().Quantile(0)
					}
					require.GreaterOrEqual(t, shortest(workload.Read), 295_000.0)
					require.GreaterOrEqual(t, shortest(workload.Write), 195_000.0)
					require.Less(t, shortest(workload.Lookup), 195_000.0,
						"does not wait for the storage")
				}
			}
			require.NotZero(t, reads)
			require.NotZero(t, puts)
		})
	}
}
