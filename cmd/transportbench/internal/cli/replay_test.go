package cli_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/replay"
)

func TestReplayCheck(t *testing.T) {
	c := &clitest.Command{T: t}
	path := filepath.Join(t.TempDir(), "trace.csv")
	text := "time,op,key,size\n1,read,a,100\n2,write,b,100\n3,read,a,100\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.Equal(t, app.ExitOK, c.Execute("replay", "check", path))
	require.Regexp(t, `requests +3 in 3s`, c.Stdout)
	require.Contains(t, c.Stdout, "read 66.7%, write 33.3%")

	c.Stdin = text
	require.Equal(t, app.ExitOK, c.Execute("replay", "check", "-", "--from", "1s", "--json"))
	var part replay.Part
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &part))
	require.EqualValues(t, 2, part.Operations)

	c.Stdin = "time,op,key,size\n5,read,a,100\n5,write,b,100\n"
	require.Equal(t, app.ExitOK, c.Execute("replay", "check", "-"))
	require.Regexp(t, `requests +2, all at one time`, c.Stdout)
	require.Contains(t, c.Stdout, "replay it with --closed")
	require.NotContains(t, c.Stdout, "op/s")

	require.NoError(t, os.WriteFile(path, []byte("time,op,key,size\n-1,read,a,1\n"), 0o600))
	require.Equal(t, app.ExitUsage, c.Execute("replay", "check", path))
	require.Equal(t, "transportbench: "+path+": line 2: time -1 is negative\n", c.Stderr)
	require.Equal(t, app.ExitUsage, c.Execute("replay", "check", "--model", "llama", path))
	require.Contains(t, c.Stderr, "--model: \"llama\" is not one of llama-3.1-8b")
	require.Equal(t, app.ExitUsage, c.Execute("replay", "check", filepath.Dir(path)))
}

// TestHostileTraces: a trace that cannot be replayed ends in one line, and so does a replay on
// other hosts.
func TestHostileTraces(t *testing.T) {
	c := &clitest.Command{T: t}
	path := filepath.Join(t.TempDir(), "trace.csv")
	var bomb bytes.Buffer
	g := gzip.NewWriter(&bomb)
	_, err := g.Write(make([]byte, 4<<20))
	require.NoError(t, err)
	require.NoError(t, g.Close())
	for text, want := range map[string]string{
		"time,op,key,size\n-1,read,a,1\n":               "line 2: time -1 is negative",
		"time,op,key,size\n1,read,a,1125899906842624\n": "size 1125899906842624 exceeds 1GiB",
		"time,op,key,size\n1,read,a,1\n2,re":            "line 3: it has 2 columns and not 4",
		bomb.String():                                   "line 1: it is longer than 1048576 bytes",
		bomb.String()[:200]:                             "unexpected EOF",
		"\x00\x01\x02\n":                                "it is of no known format",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for begin, args := range map[string][]string{
			"transportbench: ":           {"replay", "check", path},
			"transportbench: --replay: ": {"run", "--transport", "shm", "--replay", path},
		} {
			require.Equal(t, app.ExitUsage, c.Execute(args...), "%.60q", text)
			require.True(t, strings.HasPrefix(c.Stderr, begin+path+": "), c.Stderr)
			require.Contains(t, c.Stderr, want)
			require.Equal(t, 1, strings.Count(c.Stderr, "\n"), c.Stderr)
		}
	}
	sound := "time,op,key,size\n1,read,a,1\n2,read,b,1\n"
	require.NoError(t, os.WriteFile(path, []byte(sound), 0o600))
	require.Equal(t, app.ExitUsage, c.Execute("run", "--hosts", "a,b", "--replay", path))
	alone := "a trace is replayed on one host, where its file is: leave out"
	require.Contains(t, c.Stderr, alone)
	require.Equal(t, app.ExitUsage, c.Execute("run", "--hosts", "a,b", "--replay", "missing.csv"))
	require.Contains(t, c.Stderr, alone, "the trace was not read")
}
