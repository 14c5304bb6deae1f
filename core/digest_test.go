package core

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
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
		require.Equal(t, want, digest(with, "go1.26",
			map[string]string{"GOAMD64": "v1", "vcs.revision": "abc"}))
	})
	different := map[string]func() string{
		"a changed byte": func() string {
			other := tree()
			other["rank/a.go"] = file("package ranK")
			return digest(other, "go1.26", plain)
		},
		"a renamed file": func() string {
			return digest(fstest.MapFS{"rank/c.go": file("package rank"),
				"kv/b.go": file("package kv")}, "go1.26", plain)
		},
		"bytes moved between files": func() string {
			return digest(fstest.MapFS{"rank/a.go": file("package ran"),
				"kv/b.go": file("kpackage kv")}, "go1.26", plain)
		},
		"another Go": func() string { return digest(tree(), "go1.27", plain) },
		"another GOAMD64": func() string {
			return digest(tree(), "go1.26", map[string]string{"GOAMD64": "v3"})
		},
		"the race detector": func() string {
			return digest(tree(), "go1.26", map[string]string{"GOAMD64": "v1", "-race": "true"})
		},
	}
	for name, other := range different {
		t.Run(name, func(t *testing.T) { require.NotEqual(t, want, other()) })
	}
}

// TestEverySourceOfTheRuntimeIsEmbedded compares the embedded files with the imports of the
// measured runtime. A file that is missing would let two different runtimes pass as the same.
func TestEverySourceOfTheRuntimeIsEmbedded(t *testing.T) {
	const template = `{{if and .Module (eq .Module.Path "transportbench")}}{{.Dir}}{{end}}`
	list, err := exec.Command("go", "list", "-deps", "-f", template, "./runtime/rank").Output()
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	var want []string
	for _, dir := range strings.Fields(string(list)) {
		dir, err = filepath.Rel(here, dir)
		require.NoError(t, err)
		onDisk, err := filepath.Glob(dir + "/*.[gs]*") // Go and assembly
		require.NoError(t, err)
		for _, name := range onDisk {
			if !strings.HasSuffix(name, "_test.go") {
				want = append(want, filepath.ToSlash(name))
			}
		}
	}
	require.Greater(t, len(want), 50)
	var extra []string
	require.NoError(t, fs.WalkDir(sources, ".",
		func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
				return err
			}
			if at := slices.Index(want, name); at >= 0 {
				want = slices.Delete(want, at, at+1)
			} else {
				extra = append(extra, name)
			}
			return nil
		}))
	require.Empty(t, want,
		"the digest lacks these files: add them to the embed patterns in digest.go")
	require.Empty(t, extra,
		"the runtime does not import these files: remove them from the embed patterns")
}

func TestRuntimeDigestIsStable(t *testing.T) {
	require.Len(t, RuntimeDigest(), 64)
	require.Equal(t, RuntimeDigest(), RuntimeDigest())
}

func TestRevision(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting {
		return debug.BuildSetting{Key: key, Value: value}
	}
	for name, c := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"none": {nil, "unknown"},
		"clean": {[]debug.BuildSetting{setting("vcs.revision", "abc"),
			setting("vcs.modified", "false")}, "abc"},
		"modified": {[]debug.BuildSetting{setting("vcs.modified", "true"),
			setting("vcs.revision", "abc")}, "abc+modified"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, revisionOf(c.settings)) })
	}
	require.NotEmpty(t, BuildRevision())
}

// A binary names the revision of another one only if it is known and differs.
func TestOtherRevision(t *testing.T) {
	require.Equal(t, "abc", OtherRevision("abc"))
	require.Empty(t, OtherRevision(BuildRevision()))
	require.Empty(t, OtherRevision(unknownRevision))
}
