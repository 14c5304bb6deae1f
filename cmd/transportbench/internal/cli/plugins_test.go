package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
)

// A plugin that another user could replace ends every command that would run plugins, and is listed
// with the reason.
func TestExposedPlugins(t *testing.T) {
	dir := clitest.PluginDir(t, "fake", "other")
	require.NoError(t, os.Chmod(dir, 0o777))
	for _, args := range [][]string{
		{"run", "--transport", "fake"},
		{"sweep", "--transport", "all", "--dry-run"},
		{"bench", "--dry-run"},
		{"plugins", "show", "fake"},
		{"micro", "fake"},
	} {
		c := &clitest.Command{T: t}
		require.Equal(t, app.ExitUsage, c.Execute(append(args, "--plugin-dir", dir)...), args)
		require.Contains(t, c.Stderr, dir+" can be written by every user: chmod o-w "+dir)
		require.Equal(t, 1, strings.Count(c.Stderr, "\n"))
	}
	c := &clitest.Command{T: t}
	require.Equal(t, app.ExitOK, c.Execute("plugins", "list", "--plugin-dir", dir))
	require.Contains(t, c.Stdout, "can be written by every user")
}
