package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// TestReproduce checks that every row of every document has figures, if it needs no hardware that
// is not here.
func TestReproduce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make test-long runs it")
	}
	for _, name := range reproduce.Names(results.Files) {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "copyrpc":
				if err := buildUCXAM(t); err != nil {
					t.Skipf("a row is of ucxam: %v", err)
				}
			case "kvstore":
				require.NoError(t, build("plugins", "transports-libc", "transport-grpc"))
				t.Cleanup(func() { os.Remove(filepath.Join(bin, "plugins", "transport-grpc")) })
			}
			reproduced(t, name)
		})
	}
}

func reproduced(t *testing.T, name string) {
	t.Helper()
	document, err := reproduce.Load(results.Files, name)
	require.NoError(t, err)
	i := command(t, "reproduce", name, "--json", "--repeats", "1", "--duration", "20ms")
	i.cmd.Args = append(i.cmd.Args, "--out", filepath.Join(i.out, "out"))
	if document.Sweep {
		i.cmd.Args = append(i.cmd.Args, "--warmup", "10ms")
	}
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
		if cell.Config["micro"] != "" {
			require.Equal(t, "20ms", cell.Config["duration"])
		}
	}
	require.True(t, statuses[set.Measured] && statuses[set.Published], statuses)
}
