package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A plugin that another user could replace ends every command that would run plugins, and is listed
// with the reason.
func TestExposedPlugins(t *testing.T) {
	dir := pluginDir(t, "fake", "other")
	require.NoError(t, os.Chmod(dir, 0o777))
	for _, args := range [][]string{
		{"run", "--transport", "fake"},
		{"sweep", "--transport", "all", "--dry-run"},
		{"bench", "--dry-run"},
		{"plugins", "show", "fake"},
		{"micro", "fake"},
	} {
		c := &command{T: t}
		require.Equal(t, ExitUsage, c.execute(append(args, "--plugin-dir", dir)...), args)
		require.Contains(t, c.stderr, dir+" can be written by every user: chmod o-w "+dir)
		require.Equal(t, 1, strings.Count(c.stderr, "\n"))
	}
	c := &command{T: t}
	require.Equal(t, ExitOK, c.execute("plugins", "list", "--plugin-dir", dir))
	require.Contains(t, c.stdout, "can be written by every user")
}
