package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
)

// A directory that cannot be written, and a TMPDIR that is missing, are said before the command
// waits for other hosts or describes a plugin.
func TestChecksBeforeHostsJoin(t *testing.T) {
	for _, command := range [][]string{{"run"},
		{"ab", "--a", "in-flight=1", "--b", "in-flight=2"}} {
		listen := append(command, "--listen", "127.0.0.1:0", "--agents", "2",
			"--join-timeout", "1s")
		c := &clitest.Command{T: t}
		require.Equal(t, app.ExitUsage, c.Execute(append(listen, "--out", "/proc/none")...),
			c.Stderr)
		require.Contains(t, c.Stderr, "checking the results directory: /proc/none")
		require.NotContains(t, c.Stderr, "waiting for")
	}
	c := &clitest.Command{T: t}
	t.Setenv("TMPDIR", "/nonexistent/tmp")
	require.Equal(t, app.ExitUsage, c.Execute("run", "--transport", "all", "--out", "/proc"),
		c.Stderr)
	require.NotContains(t, c.Stderr, "can run here")
}
