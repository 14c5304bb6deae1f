package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A digest changes with the code that is a transport's own, and with nothing else.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	digests := func(settings string) map[string]string {
		t.Helper()
		cmd := exec.Command("go", "list", "-deps", "-json", "./plugins/...")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		list, err := cmd.Output()
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, write(&out, bytes.NewReader(list), settings))
		of := map[string]string{}
		for part := range strings.SplitSeq(out.String(), ",") {
			name, digest, _ := strings.Cut(part, "=")
			require.Len(t, digest, 64)
			of[name] = digest
		}
		return of
	}
	file("go.mod", "module m\n")
	file("all/all.go", "package all\n")
	file("some/some.go", "package some\n\nfunc f() int { return 1 }\n")
	file("plugins/a/a.go", "package a\n\nimport (\n\t_ \"m/all\"\n\t_ \"m/some\"\n)\n")
	file("plugins/b/b.go", "package b\n\nimport (\n\t_ \"fmt\"\n\t_ \"m/all\"\n"+
		"\t_ \"m/plugins/b/in\"\n)\n")
	file("plugins/b/in/in.go", "package in\n")
	file("plugins/calibration/c.go", "package calibration\n")
	first := digests("go1")
	require.Len(t, first, 3)

	file("all/all.go", "package all\n\nvar X int\n")
	file("some/some.go",
		"// Package some does.\npackage some\n\n// f is 1.\n\nfunc f() int { return 1 }\n")
	file("some/some_test.go", "package some\n")
	require.Equal(t, first, digests("go1"))

	file("some/some.go", "package some\n\n//go:noinline\nfunc f() int { return 1 }\n")
	second := digests("go1")
	require.NotEqual(t, first["a"], second["a"])
	require.Equal(t, first["b"], second["b"])

	file("plugins/b/in/in.s", "// one\n")
	third := digests("go1")
	require.NotEqual(t, second["b"], third["b"])
	require.Equal(t, second["a"], third["a"])
	require.Equal(t, second["calibration"], third["calibration"])
	for name, digest := range digests("go2") {
		require.NotEqual(t, third[name], digest)
	}
}
