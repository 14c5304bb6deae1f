package rank

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// counted is a worker with a counter that grows by one each time it is read, and a level.
type counted struct {
	transport.Worker
	reads uint64
}

func (w *counted) ReadStats(dst []transport.Stat) []transport.Stat {
	w.reads++
	return append(dst,
		transport.Stat{Name: transport.StatSyscalls, Help: "readings of the counters",
			Value: 1000 + w.reads},
		transport.Stat{Name: transport.StatHelperThreads, Help: "threads", Value: 3, Level: true})
}

// TestWorkOfWindow checks that reports have the growth of counters within each window, levels as
// they are, and the values that the runtime itself copied and checksummed.
func TestWorkOfWindow(t *testing.T) {
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		return &counted{Worker: w}
	}}
	cfg := testConfig()
	cfg.ReadRatio, cfg.VerifyEvery = 0.5, 2
	ranks := cluster(t, driver, cfg, config.IdleYield)
	size := uint64(cfg.ValueSize.Max())
	for reads := uint64(0); reads < 100; { // a busy machine may take several windows
		server, others, err := runAll(t, ranks, record.Window{Duration: 20 * time.Millisecond,
			SampleEvery: 1})
		require.NoError(t, err)
		daemon, client := server.Daemons[0], others[0].Clients[0]
		for _, stats := range [][]transport.Stat{daemon.Transport, client.Transport} {
			require.Len(t, stats, 2)
			require.EqualValues(t, 1, stats[0].Value, "growth from the window's begin to its end")
			require.EqualValues(t, 3, stats[1].Value, "a level")
		}
		require.Equal(t, daemon.Puts*size, daemon.StoredBytes)
		reads += client.Reads
		require.InDelta(t, float64(daemon.Puts)/2*float64(size), float64(daemon.ChecksummedBytes),
			float64(size), "one PUT in two")
		require.Zero(t, client.ChecksummedBytes%size)
		require.GreaterOrEqual(t, client.ChecksummedBytes, client.VerifiedSums*size)
		require.GreaterOrEqual(t, server.Process.Threads, 2)
		require.LessOrEqual(t, server.Process.BusyThreads, server.Process.Threads)
	}
}
