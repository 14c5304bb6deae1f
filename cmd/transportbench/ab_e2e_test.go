package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// TestTwoBuilds interleaves two builds of a plugin whose runtimes differ, and then compares their
// results as two versions.
func TestTwoBuilds(t *testing.T) {
	a, b := filepath.Join(bin, "plugins"), filepath.Join(bin, "mixed")
	i := command(t, "ab", "--transport", "shm", "--a", "plugin-dir="+a, "--b", "plugin-dir="+b,
		"--duration", "100ms", "--warmup", "20ms", "--repeats", "4", "--max-repeats", "4",
		"--limit", "5m", "--format", "json")
	i.cmd.Args = append(i.cmd.Args, "--out", i.out)
	code := i.run(t)
	require.Contains(t, []int{0, 3, 6}, code, i.stderr.String())
	require.Contains(t, i.stderr.String(), "A: shm ")
	require.Contains(t, i.stderr.String(), "B: shm ")
	var report compare.Report
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &report))
	require.NotNil(t, report.Runtime, "the runtimes differ")
	require.NotNil(t, report.Runtime.OldHarness)
	require.Positive(t, *report.Runtime.NewHarness)
	require.Equal(t, 4, report.Changes[0].Old.N)

	whole, err := set.Load(i.out)
	require.NoError(t, err)
	require.Len(t, whole.Cells, 2)
	require.NotEqual(t, whole.Cells[0].Plugin.SHA256, whole.Cells[1].Plugin.SHA256)
	require.Equal(t, 4, whole.Cells[0].Launches(), "each repeat is a launch")

	files, err := filepath.Glob(filepath.Join(i.out, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, c := range []struct {
		args   []string
		codes  []int
		stdout string
		stderr string
	}{
		{[]string{files[0], files[1]}, []int{0, 3, 6}, "the runtime differs (", ""},
		{[]string{files[0], files[1], "--strict"}, []int{5}, "", "use --across runtime_digest"},
	} {
		d := command(t, append([]string{"diff", "-v"}, c.args...)...)
		require.Contains(t, c.codes, d.run(t), d.stderr.String())
		require.Contains(t, d.stdout.String(), c.stdout)
		require.Contains(t, d.stderr.String(), c.stderr)
	}
	r, err := result.Read(files[0])
	require.NoError(t, err)
	require.Len(t, r.Repeats, 4)

	// A side's plugin comes from its own directory alone.
	empty := t.TempDir()
	i = command(t, "ab", "--transport", "shm", "--b", "plugin-dir="+empty, "--out",
		filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 2, i.run(t))
	require.Contains(t, i.stderr.String(), `there is no plugin "shm" in `+empty)
	_, err = os.Stat(i.out)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestABKeepsItsPairs kills a plugin, or the command, in the fourth pair: the three before it are
// results.
func TestABKeepsItsPairs(t *testing.T) {
	for _, what := range []string{"plugin", "command"} {
		t.Run(what, func(t *testing.T) {
			i := command(t, "ab", "--transport", "shm", "--b", "in-flight=4", "--duration", "100ms",
				"--warmup", "20ms", "--within", "0.0001%", "--limit", "30s")
			i.cmd.Args = append(i.cmd.Args, "--out", i.out)
			i.cmd.Stderr = nil
			stderr, err := i.cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, i.cmd.Start())
			lines := bufio.NewScanner(stderr)
			for lines.Scan() {
				i.stderr.WriteString(lines.Text() + "\n")
				if !strings.HasPrefix(lines.Text(), "after 3 repeats: ") {
					continue
				}
				if what == "command" {
					require.NoError(t, i.cmd.Process.Kill())
					break
				}
				require.Eventually(t, func() bool { return len(plugins()) == 2 }, 30*time.Second,
					time.Millisecond)
				require.NoError(t, syscall.Kill(plugins()[0], syscall.SIGKILL))
			}
			code := i.wait(t)
			said := i.stderr.String()
			ended := "failed after"
			if what == "plugin" {
				require.Equal(t, 1, code, said)
				require.Contains(t, said, "a run failed after 3 repeats of each; results in "+i.out)
				require.Regexp(t, `\ntransportbench: [AB]: rank \d+: .*died: signal: killed`, said)
				require.Contains(t, i.stdout.String(), "throughput")
			} else {
				ended = "the test had not ended after"
			}
			results := i.results(t)
			require.Len(t, results, 2)
			for _, r := range results {
				require.GreaterOrEqual(t, len(r.Repeats), 3)
				require.True(t, r.Incomplete)
				require.Contains(t, r.IncompleteReason, ended)
			}
			d := command(t, "diff", "--along", "in-flight", i.out)
			require.Equal(t, 5, d.run(t), "incomplete results are not compared")
			require.Contains(t, d.stderr.String(), ended)
		})
	}
}
