package perf

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
)

func TestC2C(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return text
	}
	c := &Profile{Transport: "shm", Config: config.Default(),
		Throughput: Throughput{Unwatched: 1e6, C2C: 900e3, Result: 1.1e6}}
	counted := result.Repeat{Ranks: make([]record.Report, 2)}
	counted.Ranks[0].Daemons = []record.DaemonReport{{Thread: record.ThreadReport{
		Counters: map[string]uint64{"cycles": 8024691356, "instructions": 4413580245,
			"l1d_loads": 2e9, "l1d_load_misses": 82e5, "llc_loads": 26e5,
			"llc_load_misses": 40040, "cache_references": 41e5}}}}
	counted.Ranks[1].Rank = 1
	counted.Ranks[1].Clients = []record.ClientReport{{}, {Thread: record.ThreadReport{
		Counters: map[string]uint64{"cycles": 4012345678, "instructions": 6018518517,
			"l1d_loads": 15e8, "l1d_load_misses": 3585e4, "llc_loads": 5e6,
			"llc_load_misses": 245e4, "cache_references": 9e6, "cache_misses": 18e5}}}}
	c.Threads = threadsOf(&counted)
	var err error
	c.Sharing, err = ParseC2C(read("c2c.txt"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, doc.WriteText(&out, c.Doc(), doc.Screen{}))
	want, err := os.ReadFile("testdata/tables.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())

	out.Reset()
	c.Sharing.Lines = nil
	require.NoError(t, doc.WriteText(&out, c.Doc(), doc.Screen{}))
	require.Contains(t, out.String(), "Load Local HITM")
	require.Contains(t, out.String(), "\nno cache line is shared\n")

	out.Reset()
	c = &Profile{Transport: "shm", Config: config.Default(), NoThreads: noThreads(&result.Repeat{
		Ranks: []record.Report{{}, {Process: record.ProcessReport{NoCounters: "no unit"}}}}),
		NoSharing: "perf c2c record: no"}
	require.NoError(t, doc.WriteText(&out, c.Doc(), doc.Screen{}))
	require.Contains(t, out.String(),
		"\n\nno counts of threads: no unit\n\nno HITM table: perf c2c record: no\n")
	require.NotContains(t, out.String(), "throughput")
}
