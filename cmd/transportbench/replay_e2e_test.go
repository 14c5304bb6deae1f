package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
)

// writeTrace writes 20 seconds of a hundred requests each, and returns the path.
func writeTrace(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("time,op,key,size,client\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "%.2f,%s,k%d,%d,%d\n", float64(i)/100,
			[]string{"read", "write", "lookup", "rmw"}[i%4], i*7%300, i*31%3000, i%16)
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// TestReplay replays a trace over several transports and topologies, at the recorded times and in a
// closed loop.
func TestReplay(t *testing.T) {
	path := writeTrace(t)
	for _, args := range [][]string{
		{"--transport", "shm,sockets,erpc,copyrpc", "--speed", "20", "--from", "2s", "--for",
			"10s"},
		{"--transport", "shm", "--speed", "20", "--from", "2s", "--for", "10s", "--clients", "3",
			"--topology", "mesh-direct", "--daemons", "2"},
		{"--transport", "sockets", "--speed", "20", "--from", "2s", "--for", "10s", "--clients",
			"2", "--topology", "mesh-proxied", "--keys", "20"},
		{"--transport", "shm", "--closed", "--duration", "50ms"},
		{"--transport", "shm", "--speed", "max", "--duration", "50ms"},
	} {
		i := command(t, append([]string{"run", "--replay", path, "--warmup", "20ms",
			"--repeats", "2"}, args...)...)
		require.NoError(t, i.cmd.Start())
		i.wait(t)
		name := strings.Join(args, " ")
		require.Len(t, i.results(t), strings.Count(args[1], ",")+1, "%s: %s", name, &i.stderr)
		a := command(t, "analyze", i.out, "--cell", "sockets")
		if strings.Contains(args[1], ",") {
			require.NoError(t, a.cmd.Start())
			a.wait(t)
			require.Contains(t, a.stdout.String(), "the worst 1.67 s of the trace, from ")
		}
		for _, r := range i.results(t) {
			require.False(t, r.Incomplete, "%s: %s", name, r.IncompleteReason)
			requireVerified(t, r)
			require.True(t, r.Config.Replays())
			require.Regexp(t, "^sha256:[0-9a-f]{16}$", r.Config.Replay)
			require.NotNil(t, r.Replay)
			require.Len(t, r.Config.Mix, 4)
			if r.Config.Duration == config.Duration(50*time.Millisecond) { // without times
				require.False(t, r.Config.Rate.Offers())
				require.EqualValues(t, 2000, r.Replay.Operations)
				require.NotZero(t, r.Summary[result.Throughput].Median)
				continue
			}
			require.EqualValues(t, 1000, r.Replay.Operations)
			require.EqualValues(t, 500*time.Millisecond, r.Config.Duration)
			require.EqualValues(t, 2000, r.Config.Rate)
			require.Equal(t, config.Duration(2*time.Second), r.Config.From)
			for _, repeat := range r.Repeats {
				due, done := uint64(0), uint64(0)
				for _, c := range repeat.Clients() {
					require.Zero(t, c.Starved)
					due += c.Open.Scheduled
					done += c.Ops() + c.Drained
				}
				// A client whose thread begins late does not get to the last requests, which are
				// 0.5 ms apart.
				require.LessOrEqual(t, due, uint64(1000), name)
				require.Greater(t, due, uint64(950), name)
				require.LessOrEqual(t, done, due)
			}
		}
	}
}

// TestReplaysOfOtherPartsDiffer checks that figures of different parts are not compared.
func TestReplaysOfOtherPartsDiffer(t *testing.T) {
	path := writeTrace(t)
	run := func(args ...string) string {
		i := command(t, append([]string{"run", "--replay", path, "--warmup", "0s", "--repeats", "2",
			"--transport", "shm", "--closed", "--duration", "50ms"}, args...)...)
		require.NoError(t, i.cmd.Start())
		i.wait(t)
		require.Len(t, i.results(t), 1, "%s", &i.stderr)
		return i.out
	}
	one, same := run("--for", "5s"), run("--for", "5s")
	for name, other := range map[string]string{
		"length": run("--for", "6s"),
		"begin":  run("--from", "1s", "--for", "5s"),
	} {
		i := command(t, "diff", one, other)
		require.NoError(t, i.cmd.Start())
		require.Equal(t, 5, i.wait(t), "%s: %s%s", name, &i.stdout, &i.stderr)
		require.Contains(t, i.stderr.String(), "they differ in")
	}
	i := command(t, "diff", one, same)
	require.NoError(t, i.cmd.Start())
	require.NotEqual(t, 5, i.wait(t), "%s%s", &i.stdout, &i.stderr)
}
