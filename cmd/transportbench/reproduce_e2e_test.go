package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/reproduce"
	"transportbench/core/lab/result/set"
)

// TestReproduce checks that every row of a document has figures, if it needs no hardware that is not here.
// copyrpc and kvstore need transports that are not built for these tests, and shm takes minutes.
func TestReproduce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make test-long runs it")
	}
	for _, name := range []string{"tcpx", "benchkv"} {
		t.Run(name, func(t *testing.T) { reproduced(t, name) })
	}
}

func reproduced(t *testing.T, name string) {
	t.Helper()
	i := command(t, "reproduce", name, "--json", "--repeats", "1", "--duration", "30ms", "--warmup", "20ms")
	i.cmd.Args = append(i.cmd.Args, "--out", filepath.Join(i.out, "out"))
	require.Contains(t, swept, i.run(t), i.stderr.String())
	c := new(reproduce.Comparison)
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), c))
	measured := 0
	for _, table := range c.Tables {
		for _, l := range table.Lines {
			require.NotEqual(t, "not measured", l.Missing, "%s: %s", table.Title, l.Name)
			if l.Ours.Any() {
				measured++
			}
		}
	}
	require.Greater(t, measured, 6)
	s := loadSet(t, filepath.Join(i.out, "out"))
	statuses := map[set.Status]bool{}
	for _, cell := range s.Cells {
		statuses[cell.Status] = true
	}
	require.True(t, statuses[set.Measured] && statuses[set.Published], statuses)
}
