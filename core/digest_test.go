package core

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestDigestTellsRuntimesApart(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tree := func() fstest.MapFS {
		return fstest.MapFS{"rank/a.go": file("package rank"), "kv/b.go": file("package kv")}
	}
	plain := map[string]string{"GOAMD64": "v1"}
	want := digest(tree(), "go1.26", plain)
	require.Len(t, want, 64)
	require.Equal(t, want, digest(tree(), "go1.26", plain))

	t.Run("tests and other settings do not count", func(t *testing.T) {
		with := tree()
		with["rank/a_test.go"] = file("package rank")
		require.Equal(t, want, digest(with, "go1.26", map[string]string{"GOAMD64": "v1", "vcs.revision": "abc"}))
	})
	different := map[string]func() string{
		"a changed byte": func() string {
			other := tree()
			other["rank/a.go"] = file("package ranK")
			return digest(other, "go1.26", plain)
		},
		"a renamed file": func() string {
			return digest(fstest.MapFS{"rank/c.go": file("package rank"), "kv/b.go": file("package kv")}, "go1.26", plain)
		},
		"bytes moved between files": func() string {
			return digest(fstest.MapFS{"rank/a.go": file("package ran"), "kv/b.go": file("kpackage kv")}, "go1.26", plain)
		},
		"another Go":      func() string { return digest(tree(), "go1.27", plain) },
		"another GOAMD64": func() string { return digest(tree(), "go1.26", map[string]string{"GOAMD64": "v3"}) },
		"the race detector": func() string {
			return digest(tree(), "go1.26", map[string]string{"GOAMD64": "v1", "-race": "true"})
		},
	}
	for name, other := range different {
		t.Run(name, func(t *testing.T) { require.NotEqual(t, want, other()) })
	}
}

// A source file that the embed pattern misses would let two runtimes pass for
// the same.
func TestEverySourceOfTheRuntimeIsEmbedded(t *testing.T) {
	for _, dir := range []string{
		"base/config", "base/machine", "base/record", "fabric/shm", "fabric/shm/inbox", "fabric/shm/ring",
		"runtime/kv", "runtime/rank", "runtime/workload", "transport",
	} {
		onDisk, err := filepath.Glob(dir + "/*.[gs]*")
		require.NoError(t, err)
		require.NotEmpty(t, onDisk, "core/%s has no sources", dir)
		for _, name := range onDisk {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			got, err := sources.ReadFile(filepath.ToSlash(name))
			require.NoError(t, err, "%s is not in the digest: mend the embed pattern", name)
			require.Equal(t, want, got)
		}
	}
}

func TestRuntimeDigestIsStable(t *testing.T) {
	require.Len(t, RuntimeDigest(), 64)
	require.Equal(t, RuntimeDigest(), RuntimeDigest())
}

func TestRevision(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for name, c := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"none":     {nil, "unknown"},
		"clean":    {[]debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.modified", "false")}, "abc"},
		"modified": {[]debug.BuildSetting{setting("vcs.modified", "true"), setting("vcs.revision", "abc")}, "abc+modified"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, revisionOf(c.settings)) })
	}
	require.NotEmpty(t, BuildRevision())
}
