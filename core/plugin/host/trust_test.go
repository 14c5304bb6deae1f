package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/files"
)

// plant makes a plugin that works in a new directory and returns its path.
func plant(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	path := filepath.Join(shortDir(t), "deep", "plugins", "transport-x")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntouch $0-ran\n"), 0o755))
	return path
}

// A plugin that another user could replace is never executed, and the error has the path and the
// remedy.
func TestExposedPluginIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		expose func(t *testing.T, path string) (run string)
		says   string
	}{
		"owner": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(path, strangerID, strangerID))
			return path
		}, "transport-x belongs to user nobody, not to you or root: use a directory that only " +
			"you can write"},
		"directory above": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777))
			return path
		}, "deep can be written by every user"},
	} {
		t.Run(name, func(t *testing.T) {
			path := plant(t)
			p := newPlugin("x", c.expose(t, path))
			_, err := p.Describe(context.Background())
			require.ErrorContains(t, err, c.says)
			_, launch := p.Launch(context.Background(), LaunchOptions{})
			require.EqualError(t, launch, err.Error())
			var exposed *files.ExposedError
			require.ErrorAs(t, err, &exposed)
			require.NotContains(t, err.Error(), "\n")
			require.NoFileExists(t, path+"-ran")
		})
	}
}
