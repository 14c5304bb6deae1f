package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
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
