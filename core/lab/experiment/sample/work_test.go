package sample

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// stats are counters by name.
func stats(values map[string]uint64) (list []transport.Stat) {
	for name, value := range values {
		list = append(list, transport.Stat{Name: name, Value: value})
	}
	return list
}

func TestWorkPerOperation(t *testing.T) {
	repeat := result.Repeat{Ranks: []record.Report{{
		Clients: []record.ClientReport{{
			Reads: 50, Writes: 50, ElapsedNS: 1000, ChecksummedBytes: 3200,
			Latency: histogram(t, 5),
			Transport: stats(map[string]uint64{
				transport.StatCopies: 100, transport.StatCopiedBytes: 3200,
				transport.StatSyscalls:         7,
				transport.StatChecksummedBytes: 1000, "other": 5,
			}),
		}},
		Process: record.ProcessReport{BusyThreads: 1},
	}, {
		Daemons: []record.DaemonReport{{
			Puts: 50, Gets: 50, StoredBytes: 1600, ChecksummedBytes: 800,
			Transport: stats(map[string]uint64{
				transport.StatCopies: 100, transport.StatCopiedBytes: 4800,
				transport.StatSyscalls:    3,
				transport.StatKernelBytes: 900, transport.StatDoorbells: 20,
			}),
		}},
		Process: record.ProcessReport{BusyThreads: 2},
	}}}
	require.NoError(t, Fill(config.Default(), &repeat))
	for name, want := range map[string]float64{
		result.CopiesPerOp: 2.5, result.CopiedBytesPerOp: 96, result.ChecksummedBytesPerOp: 50,
		result.SyscallsPerOp: 0.1, result.KernelBytesPerOp: 9, result.DoorbellsPerOp: 0.2,
		result.HarnessBytesPerOp: 56, result.Threads: 3,
	} {
		require.InDelta(t, want, repeat.Samples[name], 1e-9, name)
	}

	// Without counters of work, nothing is claimed.
	repeat.Ranks[0].Clients[0].Transport, repeat.Ranks[1].Daemons[0].Transport = nil, nil
	require.NoError(t, Fill(config.Default(), &repeat))
	require.NotContains(t, repeat.Samples, result.CopiesPerOp)
	require.NotContains(t, repeat.Samples, result.HarnessBytesPerOp)
	require.Contains(t, repeat.Samples, result.Threads)
}
