package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/set"
)

// matrix is a short sweep. A window in which nothing completes fails a check, which its tests
// accept.
var matrix = []string{"sweep", "--transport", "shm", "--in-flight", "1,4,16", "--payload",
	"32,1KiB",
	"--repeats", "2", "--duration", "100ms", "--warmup", "10ms"}

// swept has the exit codes of a complete sweep. On a busy machine a client may not
// run within a short window, which fails a check.
var swept = []int{0, 4}

func loadSet(t *testing.T, dir string) *set.Set {
	t.Helper()
	s, err := set.Load(dir)
	require.NoError(t, err)
	return s
}

func TestSweep(t *testing.T) {
	i := command(t, matrix...)
	i.cmd.Args = append(i.cmd.Args, "--out", i.out)
	require.Contains(t, swept, i.run(t), i.stderr.String())
	s := loadSet(t, i.out)
	require.Len(t, s.Cells, 6)
	processes := map[int]bool{}
	for _, c := range s.Cells {
		require.Len(t, c.Samples["throughput"], 2)
		results, err := s.Results(&c)
		require.NoError(t, err)
		require.Len(t, results[0].Launches, 2)
		for _, l := range results[0].Launches {
			for _, p := range l.Placement {
				processes[p.PID] = true
			}
		}
	}
	require.Len(t, processes, 6*2*2, "each repeat of each cell launches two ranks")

	d := command(t, "diff", i.out, i.out, "--all")
	// Two repeats are too few, and an empty window cannot be compared.
	require.Contains(t, []int{5, 6}, d.run(t), d.stderr.String())
	require.Contains(t, d.stdout.String(), "shm in_flight=16 value_size=1KiB")
	x := command(t, "export", "--format", "hdr", i.out)
	require.Zero(t, x.run(t), x.stderr.String())
	require.Contains(t, x.stdout.String(), "Tag=shm_in_flight=4_value_size=32")
}

// TestResume checks that complete cells are not measured again after the host was
// interrupted or killed.
func TestResume(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"interrupted": syscall.SIGINT,
		"killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			i := command(t, append(matrix, "--order", "sequential")...)
			i.cmd.Args = append(i.cmd.Args, "--out", i.out)
			require.NoError(t, i.cmd.Start())
			require.Eventually(t, func() bool {
				done, err := filepath.Glob(filepath.Join(i.out, "cells", "*.json"))
				require.NoError(t, err)
				return len(done) > 0
			}, 60*time.Second, time.Millisecond)
			require.NoError(t, i.cmd.Process.Signal(signal))
			i.await(t)
			if signal == syscall.SIGINT {
				requireNothingLeft(t, i.tmp)
				require.Contains(t, i.stderr.String(), "repeat the command with --resume --out "+
					i.out)
			}
			before := map[string]time.Time{}
			for _, pattern := range []string{"cells/*.json", "repeats/*/*.json"} {
				paths, err := filepath.Glob(filepath.Join(i.out, pattern))
				require.NoError(t, err)
				for _, path := range paths {
					info, err := os.Stat(path)
					require.NoError(t, err)
					before[path] = info.ModTime()
				}
			}
			loadSet(t, i.out) // an incomplete sweep is readable

			// A host that is killed while it launches plugins leaves a directory, which the next
			// host removes from the same TMPDIR.
			again := command(t, append(matrix, "--order", "sequential", "--resume")...)
			again.tmp = i.tmp
			again.cmd.Env = append(again.cmd.Env, "TMPDIR="+i.tmp)
			again.cmd.Args = append(again.cmd.Args, "--out", i.out)
			require.Contains(t, swept, again.run(t), again.stderr.String())
			require.Regexp(t, `(?s)continuing 6 cells, 2 repeats each \(sequential\), in \S+\n`+
				`.*repeat \d of 2, \S+ left\n`, again.stderr.String())
			require.Len(t, loadSet(t, i.out).Cells, 6)
			for path, written := range before {
				if info, err := os.Stat(path); err == nil && strings.Contains(path, "cells") {
					require.Equal(t, written, info.ModTime(), "%s was measured again", path)
				}
			}
		})
	}
}

// TestSignalAtTheFirstDescribe checks that a plugin that is hit while it says what it is costs a
// sweep nothing, and that one that cannot say it keeps a sweep from going on without it.
func TestSignalAtTheFirstDescribe(t *testing.T) {
	for _, signal := range []string{"TERM", "STOP"} {
		t.Run(signal, func(t *testing.T) {
			dir := t.TempDir()
			script := fmt.Sprintf(`#!/bin/sh
if [ "$1" = describe ] && { [ -e %[1]s/always ] || mkdir %[1]s/once 2>/dev/null; }; then
	kill -%[2]s $$
fi
exec %[3]s "$@"
`, dir, signal, filepath.Join(bin, "plugins", "transport-shm"))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "transport-shm"),
				[]byte(script), 0o755))
			out := filepath.Join(t.TempDir(), "swept")
			sweep := func(more ...string) (int, string) {
				i := command(t, append([]string{"sweep", "--plugin-dir", dir, "--transport",
					"shm,sockets", "--in-flight", "1,4", "--repeats", "1",
					"--duration", "50ms", "--warmup", "10ms", "--out", out}, more...)...)
				return i.run(t), i.stderr.String()
			}
			code, said := sweep()
			require.Contains(t, swept, code, said)
			require.DirExists(t, filepath.Join(dir, "once"), "the first describe was hit")
			s := loadSet(t, out)
			require.Len(t, s.Cells, 4)
			for _, c := range s.Cells {
				require.Equal(t, set.Measured, c.Status, c.Reason)
			}
			code, said = sweep("--resume")
			require.Contains(t, swept, code, said)
			if signal == "STOP" {
				return // it takes 2 s to see that a plugin does not answer
			}
			always := filepath.Join(dir, "always")
			require.NoError(t, os.Mkdir(always, 0o755))
			code, said = sweep("--resume")
			require.Equal(t, 1, code, said)
			require.Regexp(t,
				`^transportbench: plugin shm \(pid \d+\) died: signal: terminated; try again, or name other transports with --transport\n$`, said)
			require.Len(t, loadSet(t, out).Cells, 4, "what was measured stays")
			require.NoError(t, os.Remove(always))
			code, said = sweep("--resume")
			require.Contains(t, swept, code, said)
		})
	}
}

// TestSweepWithKilledPlugin checks that a plugin that dies costs its repeat, which is made once
// more, and that one that dies again fails only its cell.
func TestSweepWithKilledPlugin(t *testing.T) {
	i := command(t, "sweep", "--transport", "shm", "--in-flight", "1,4", "--repeats", "1",
		"--duration", "1s", "--warmup", "10ms")
	i.cmd.Args = append(i.cmd.Args, "--out", i.out)
	i.cmd.Stderr = nil
	stderr, err := i.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, i.cmd.Start())
	killed := 0
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		i.stderr.WriteString(lines.Text() + "\n")
		if killed == 0 && strings.HasPrefix(lines.Text(), "repeat 1 of 1") ||
			strings.Contains(lines.Text(), "is made once more") {
			killed++
			require.Eventually(t, func() bool { return len(plugins()) == 2 }, 30*time.Second,
				time.Millisecond)
			require.NoError(t, syscall.Kill(plugins()[0], syscall.SIGKILL))
		}
	}
	require.Equal(t, 1, i.wait(t), i.stderr.String())
	require.Equal(t, 2, killed)
	counts := map[set.Status]int{}
	for _, c := range loadSet(t, i.out).Cells {
		counts[c.Status]++
	}
	require.Equal(t, map[set.Status]int{set.Measured: 1, set.Failed: 1}, counts, i.stderr.String())
}

// TestStack checks that stack measures every layer, and that its directory is a set that other
// commands read.
func TestStack(t *testing.T) {
	out := filepath.Join(t.TempDir(), "stack")
	i := command(t, "stack", "--transport", "shm", "--repeats", "1", "--duration", "20ms",
		"--warmup", "20ms")
	i.cmd.Args = append(i.cmd.Args, "--out", out)
	require.Zero(t, i.run(t), i.stderr.String())
	for _, layer := range []string{
		"cache-line bounce", "cache-line ping-pong", "ring, between processes",
		"transport, without the runtime", "client-server", "mesh-direct", "mesh-proxied",
	} {
		require.Regexp(t, `(?m)^`+layer+` +[0-9.]+ [num]s +`, i.stdout.String())
	}
	require.Contains(t, i.stdout.String(),
		"shm memfd, 32 calls in flight: the time per operation, and what each layer adds")
	require.Regexp(t,
		`mesh-proxied: transport [0-9.]+ [num]s, request to the own daemon [0-9.]+ [num]s.*, each\s+measured\s+apart`, i.stdout.String())
	s, err := set.Load(out)
	require.NoError(t, err)
	require.Len(t, analyze.StacksOf(s), 2)

	again := command(t, "stack", "--transport", "shm")
	again.cmd.Args = append(again.cmd.Args, "--out", out)
	require.Equal(t, 2, again.run(t))
	require.Regexp(t, `--resume|another --out`, again.stderr.String())
}
