package perf

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
)

func TestC2C(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return text
	}
	c := &Profile{Transport: "shm", Config: config.Default(),
		Throughput: Throughput{Stat: 1e6, C2C: 900e3, Result: 1.1e6}}
	var err error
	c.Threads, err = ParseStat(read("stat.csv"))
	require.NoError(t, err)
	c.Sharing, err = ParseC2C(read("c2c.txt"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, doc.WriteText(&out, c.Doc(), doc.Screen{}))
	want, err := os.ReadFile("testdata/tables.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
	require.NotContains(t, out.String(), "transport-shm",
		"a thread with less than 1% of the cycles")

	out.Reset()
	c.Sharing.Lines = nil
	require.NoError(t, doc.WriteText(&out, c.Doc(), doc.Screen{}))
	require.Contains(t, out.String(), "Load Local HITM")
	require.Contains(t, out.String(), "\nno cache line is shared\n")

	out.Reset()
	c = &Profile{Transport: "shm", Config: config.Default(), NoThreads: "perf stat: no",
		NoSharing: "perf c2c record: no"}
	require.NoError(t, doc.WriteText(&out, c.Doc(), doc.Screen{}))
	require.Contains(t, out.String(),
		"\n\nno counts of threads: perf stat: no\n\nno HITM table: perf c2c record: no\n")
	require.NotContains(t, out.String(), "throughput")
}
