package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// TestBridgeToTheLastRelease builds the plugins of the last committed set from its revision, and
// measures them and today's in turns.
func TestBridgeToTheLastRelease(t *testing.T) {
	inLongTests(t)
	const machine = "../../results/v0.8.0/amd-epyc-2core-vm"
	s, err := set.Load(machine)
	require.NoError(t, err)
	revision := s.Tools()[0].Revision
	if exec.CommandContext(t.Context(), "git", "cat-file", "-e", revision).Run() != nil {
		t.Skipf(
			"this checkout has no commit %s, which measured the last release: fetch the history",
			revision)
	}
	build := exec.CommandContext(t.Context(), "../../scripts/old-plugins.sh", revision)
	cache := t.TempDir()
	compiled, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	build.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache,
		"GOCACHE="+strings.TrimSpace(string(compiled)))
	build.Stderr = os.Stderr
	out, err := build.Output()
	require.NoError(t, err)
	old := strings.TrimSpace(string(out))
	require.Equal(t, filepath.Join(cache, "transportbench/plugins", revision[:12]), old)

	i := command(t, "ab", "--transport", "shm", "--a", "plugin-dir="+old, "--b",
		"plugin-dir="+filepath.Join(bin, "plugins"), "--duration", "100ms", "--warmup", "20ms",
		"--repeats", "6", "--max-repeats", "6", "--format", "json")
	i.cmd.Args = append(i.cmd.Args, "--out", i.out)
	require.Contains(t, []int{0, 3, 6}, i.run(t), i.stderr.String())
	var report compare.Report
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &report))
	require.NotNil(t, report.Runtime, "the runtimes differ")
	require.Equal(t, 6, report.Changes[0].Old.N)
	require.Nil(t, report.Changes[0].Control, "sides in turns need none")
}
