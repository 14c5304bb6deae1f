package measure_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
)

// A dry run prints what the options are and where from, and writes nothing.
func TestRunDry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("clients: 3\nset:\n  ring: onesided\n"), 0o600))
	t.Setenv("TRANSPORTBENCH_VALUE_SIZE", "4KiB")
	c := &clitest.Command{T: t}
	args := []string{"run", "--transport", "fake,other", "--profile", "kv", "--config", file,
		"--in-flight", "8", "--dry-run"}
	require.Zero(t, c.Execute(args...), c.Stderr)
	for _, row := range []string{"transport +fake +--transport", "transport +other +--transport",
		"profile +kv +--profile", "in-flight +8 +--in-flight", "clients +3 +clients in " + file,
		"value-size +4KiB +TRANSPORTBENCH_VALUE_SIZE", `read-ratio +0\.5 +profile kv`,
		"fake ring +onesided +set in " + file} {
		require.Regexp(t, "(?m)^"+row+"$", c.Stdout)
	}
	require.Regexp(t, `\n\d+ options more with defaults: -v lists them\n`+
		"2 runs, about .*; results go to "+c.Out+"\n$", c.Stdout)
	require.NotContains(t, c.Stdout, "repeats")
	require.Empty(t, c.Results())

	require.Zero(t, c.Execute(append(args, "-v")...), c.Stderr)
	require.Regexp(t, `(?m)^repeats +\d+ +default$`, c.Stdout)
	require.Equal(t, app.ExitUsage, c.Execute(append(args, "--json")...))
	require.Equal(t, app.ExitUsage, c.Execute(append(args, "--in-flight", "0")...))
	require.Equal(t, app.ExitUsage, c.Execute(append(args, "--hosts", "h1,h2", "--map",
		"h1 rnig=lamport,h2")...))
	require.Contains(t, c.Stderr, `host h1: option "rnig": unknown; did you mean "ring"?`)
}
