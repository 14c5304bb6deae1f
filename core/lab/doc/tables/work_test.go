package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The table of work of the standard comparison fits a terminal of 140 columns.
func TestWorkFitsATerminal(t *testing.T) {
	requireFits(t, 140, Work)
}

func TestWork(t *testing.T) {
	s := set.New()
	add := func(name string, plugin result.Plugin, samples map[string]float64) {
		r := sample(name, "kv", 1e6)
		r.Plugin = plugin
		r.Plugin.Name = name
		r.Repeats = []result.Repeat{{Samples: samples}}
		require.NoError(t, s.Add(r))
	}
	add("shm", result.Plugin{Provider: "memfd", Chosen: map[string]string{"ring": "fastforward"},
		Integrity: "none"}, map[string]float64{
		result.CopiesPerOp: 2.5, result.CopiedBytesPerOp: 80, result.ChecksummedBytesPerOp: 64,
		result.SyscallsPerOp: 0,
		result.BusyPerOp:     78, result.HarnessBytesPerOp: 80, result.KernelBytesPerOp: 0,
		result.DoorbellsPerOp: 0, result.Threads: 2})
	add("ucxam", result.Plugin{Provider: "sysv", Chosen: map[string]string{"tls": "sysv"},
		Integrity: "none", Uncounted: "UCX"}, map[string]float64{
		result.CopiesPerOp: 4.5, result.CopiedBytesPerOp: 144, result.Threads: 4,
		result.ChecksummedBytesPerOp: 530422, result.KernelBytesPerOp: 1208366})
	erpc := result.Plugin{Provider: "udp", Matched: map[string]string{"checksum": "header"}}
	for _, checksum := range []string{"all", "header"} { // its own checks put it on one track only
		r := sample("erpc", "kv", 1e6)
		r.Plugin, r.Config.Options = erpc, map[string]string{"checksum": checksum}
		r.Plugin.Name, r.Plugin.Integrity = "erpc", "CRC-32 of "+checksum
		r.Repeats = []result.Repeat{{Samples: map[string]float64{result.CopiesPerOp: 4,
			result.SyscallsPerOp: 2.25}}}
		if checksum == "header" {
			r.Config.Track = config.TrackMatched
		}
		require.NoError(t, s.Add(r))
	}
	add("outside", result.Plugin{Provider: "magic"}, map[string]float64{result.Threads: 2})
	var out bytes.Buffer
	write(&out, Work(s))
	doctest.Golden(t, "work.txt", out.String())

	// A column that says the same in all rows becomes a word below the table.
	out.Reset()
	write(&out, Work(&set.Set{Cells: s.Cells[2:4]}))
	require.Contains(t, out.String(), "\nin all rows: copies 4.00, system calls 2.25\n")
	require.NotContains(t, out.String(), "copies  ")

	// Without counters there is no table.
	out.Reset()
	write(&out, Work(&set.Set{Cells: s.Cells[4:]}))
	require.Empty(t, out.String())
}

// The time in which threads were busy is that of the common state of the machine.
func TestBusyInCommonState(t *testing.T) {
	s := setOf(t, misleading...)
	for i := range s.Cells {
		c := &s.Cells[i]
		for _, rate := range c.Samples[result.Throughput] {
			c.Samples[result.BusyPerOp] = append(c.Samples[result.BusyPerOp], 1e9/rate)
			c.Samples[result.CopiesPerOp] = append(c.Samples[result.CopiesPerOp], 2)
		}
	}
	var out bytes.Buffer
	write(&out, Work(s))
	require.Regexp(t, `quick +333 ns\n`, out.String())
	require.Regexp(t, `slow +500 ns\n`, out.String())
}
