package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/cli"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/files"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// memoryFile is the variable that makes this binary the command. It names the file for the
// command's peak of memory.
const memoryFile = "CLI_TEST_MEMORY_FILE"

// measureMemory runs the command and writes its peak of resident memory in KiB. The kernel's report
// of a process that has ended would include that of the process which started it.
func measureMemory(path string) int {
	os.Unsetenv(memoryFile) // for plugins, which are this binary too
	code := cli.Main(os.Args[1:], os.Stdout, os.Stderr)
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		err = os.WriteFile(path, []byte(strings.Fields(peak)[0]), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// outcome is that of a command that runs in a process of its own, because it may hang or need much
// memory.
type outcome struct {
	code           int
	stdout, stderr string
	memory         int64 // its peak in bytes
}

// separately runs the command line. before may change the process before it starts.
func separately(t *testing.T, before func(*exec.Cmd), args ...string) outcome {
	t.Helper()
	const hangs = 5 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	self, err := os.Executable()
	require.NoError(t, err)
	memory := filepath.Join(t.TempDir(), "memory")
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), memoryFile+"="+memory, "XDG_CONFIG_HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if before != nil {
		before(cmd)
	}
	err = cmd.Run()
	require.NoError(t, ctx.Err(), "%s hangs", strings.Join(args, " "))
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	peak, err := os.ReadFile(memory)
	require.NoError(t, err, stderr.String())
	kib, err := strconv.ParseInt(string(peak), 10, 64)
	require.NoError(t, err)
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), kib << 10}
}

// someSet copies a committed set without its results.
func someSet(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const committed = "../../../../results/v0.8.0/intel-xeon-2core-vm/peers"
	require.NoError(t, os.CopyFS(dir, os.DirFS(committed)))
	return dir
}

// What stands in the place of a file in a set's directory may be a pipe, which has no end, a link
// to a device without one, or a file that only claims to be large.
func TestSpecialFilesAreRefused(t *testing.T) {
	good := someSet(t)
	plugins := clitest.PluginDir(t, "fake")
	readers := func(dir string) [][]string {
		return [][]string{
			{"diff", dir, good}, {"diff", good, dir}, {"analyze", dir},
			{"report", dir, "-o", filepath.Join(t.TempDir(), "r.html")},
			{"export", dir, "--format", "csv"}, {"history", dir},
		}
	}
	for name, c := range map[string]struct {
		file     string
		make     func(path string) error
		commands func(dir string) [][]string
		says     string
	}{
		"pipe as index": {set.IndexName, mkfifo, readers,
			"index.json: it is a pipe, not a regular file"},
		"endless index": {set.IndexName,
			func(path string) error { return os.Symlink("/dev/zero", path) }, readers,
			"index.json: it is a device, not a regular file"},
		"sparse index": {set.IndexName, sparse, readers,
			"index.json: it has more than 2048 MiB, the limit for such a file"},
		"directory as index": {set.IndexName,
			func(path string) error { return os.Mkdir(path, 0o755) }, readers,
			"index.json: is a directory"},
		"pipe as acceptances": {history.BlessedName, mkfifo,
			func(dir string) [][]string {
				return [][]string{{"history", dir}, {"bless", dir, "--why", "x"}}
			}, "blessed.json: it is a pipe, not a regular file"},
		"endless acceptances": {history.BlessedName,
			func(path string) error { return os.Symlink("/dev/zero", path) },
			func(dir string) [][]string { return [][]string{{"history", dir}} },
			"blessed.json: it is a device, not a regular file"},
		"pipe as plan": {"sweep.plan", mkfifo, func(dir string) [][]string {
			return [][]string{{"sweep", "--resume", "--out", dir, "--plugin-dir", plugins,
				"--transport", "fake", "--repeats", "1"}}
		}, "sweep.plan: it is a pipe, not a regular file"},
		"sparse plan": {"sweep.plan", sparse, func(dir string) [][]string {
			return [][]string{{"sweep", "--resume", "--out", dir, "--plugin-dir", plugins,
				"--transport", "fake", "--repeats", "1"}}
		}, "sweep.plan: it has more than 256 MiB, the limit for such a file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := someSet(t)
			path := filepath.Join(dir, c.file)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, c.make(path))
			for _, args := range c.commands(dir) {
				p := separately(t, nil, args...)
				require.Equal(t, app.ExitUsage, p.code, "%v: %s", args, p.stderr)
				require.Contains(t, p.stderr, c.says, args)
				require.Less(t, p.memory, int64(150<<20), args)
			}
		})
	}
}

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// sparse makes a file of 3 GiB without blocks.
func sparse(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(3 << 30)
}

// The user may name a pipe, such as the output of another command.
func TestArgumentsMayBePipes(t *testing.T) {
	good := someSet(t)
	index, err := files.Read(filepath.Join(good, set.IndexName+".gz"), 1<<20)
	require.NoError(t, err)
	p := separately(t, func(cmd *exec.Cmd) { cmd.Stdin = bytes.NewReader(index) }, "diff",
		"/dev/stdin", good)
	require.Zero(t, p.code, p.stderr)
	p = separately(t, func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader("throughput<100%\n") },
		"diff", good, good, "--fail-on-file", "/dev/stdin")
	require.NotEqual(t, app.ExitUsage, p.code, p.stderr)

	calibration, err := files.Read(
		"../../../../results/v0.6.0/amd-epyc-2core-vm/calibration.json.gz", 1<<20)
	require.NoError(t, err)
	p = separately(t, func(cmd *exec.Cmd) { cmd.Stdin = bytes.NewReader(calibration) }, "calibrate",
		"show", "/dev/stdin")
	require.Zero(t, p.code, p.stderr)

	// No process writes to this one.
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	require.NoError(t, mkfifo(pipe))
	for _, args := range [][]string{
		{"diff", pipe, good}, {"diff", good, good, "--fail-on-file", pipe},
		{"sweep", pipe, "--dry-run"},
		{"calibrate", "show", pipe},
		{"run", "--config", pipe}, {"run", "--value-size", "file:" + pipe},
		{"run", "--hostfile", pipe},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel() // each waits for a writer
			p := separately(t, nil, args...)
			require.Equal(t, app.ExitUsage, p.code, "%v: %s", args, p.stderr)
			require.Contains(t, p.stderr, "it is a pipe to which no process writes", args)
			require.Equal(t, 1, strings.Count(p.stderr, "\n"), p.stderr)
		})
	}
}

// The parser of TOML overflows the stack.
func TestDeepTOML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep.toml")
	require.NoError(t, os.WriteFile(path, []byte("a="+strings.Repeat("[", 1<<20-100)), 0o600))
	for _, args := range [][]string{{"sweep", path, "--dry-run"}, {"run", "--config", path}} {
		p := separately(t, nil, args...)
		require.Equal(t, app.ExitUsage, p.code, p.stderr)
		require.Contains(t, p.stderr, "it has more than 16 KiB, the limit for TOML; use YAML")
	}
}

// Levels of keys take time and memory for more than their square.
func TestDeepSettings(t *testing.T) {
	const levels = 8000
	for name, text := range map[string]string{
		"dotted.toml": strings.Repeat("a.", levels) + "a=1",
		"table.toml":  "[" + strings.Repeat("a.", levels) + "a]\nb=1",
		"inline.toml": "a=" + strings.Repeat("{a=", 4000) + "1" + strings.Repeat("}", 4000),
		"nested.json": strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels),
		"nested.yaml": strings.Repeat("{a: ", levels) + "1" + strings.Repeat("}", levels),
		"lists.yaml":  "a: " + strings.Repeat("[", levels) + strings.Repeat("]", levels),
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for _, args := range [][]string{{"sweep", path, "--dry-run"}, {"run", "--config", path}} {
			p := separately(t, nil, args...)
			require.Equal(t, app.ExitUsage, p.code, "%v: %s", args, p.stderr)
			require.Regexp(t, "it has more than 32 levels|nested more than 64 deep", p.stderr)
			require.Less(t, p.memory, int64(200<<20), args)
		}
	}
}

func TestEndlessArguments(t *testing.T) {
	good := someSet(t)
	endless := filepath.Join(t.TempDir(), "zero.yaml")
	require.NoError(t, os.Symlink("/dev/zero", endless))
	for _, args := range [][]string{
		{"sweep", "/dev/zero", "--dry-run"}, {"sweep", endless, "--dry-run"},
		{"diff", good, good, "--fail-on-file", "/dev/zero"},
		{"run", "--config", endless}, {"run", "--value-size", "file:/dev/zero"},
		{"run", "--hostfile", "/dev/zero"},
	} {
		p := separately(t, nil, args...)
		require.Equal(t, app.ExitUsage, p.code, "%v: %s", args, p.stderr)
		require.Contains(t, p.stderr, "it has more than 1 MiB, the limit for such a file", args)
		require.Equal(t, 1, strings.Count(p.stderr, "\n"), p.stderr)
		require.Less(t, p.memory, int64(150<<20), args)
	}
}

// TestMemoryIsBounded: what a file takes in memory is at most four times its size and 100 MiB.
func TestMemoryIsBounded(t *testing.T) {
	const size = 20 << 20
	set := func(cell string) string { return manyItems("2.0.0", "set", "cells", cell, size) }
	// Another decoder reads files of schema 1, before they are migrated.
	old := func(repeat string) string { return manyItems("1.0.0", "run", "repeats", repeat, size) }
	const tooMany = "too many items: a file of 20 MiB may take 104 MiB of memory, and the part " +
		"before this one takes more"
	for name, c := range map[string]struct {
		text string
		code int
		says string
	}{
		"empty cells": {set(`{}`), app.ExitUsage, tooMany},
		"escaped name": {strings.Replace(set(`{}`), `"cells"`, `"cell\u0073"`, 1), app.ExitUsage,
			tooMany},
		"long s": {strings.Replace(set(`{}`), `"cells"`, `"cellſ"`, 1), app.ExitUsage,
			tooMany},
		"smallest": {set(`{"config":{"transport":"a"},"status":"failed"}`), app.ExitUsage,
			tooMany},
		"empty repeats": {manyItems("2.0.0", "run", "repeats", `{}`, size), app.ExitUsage,
			"is missing from the object that begins here"},
		"old, empty": {old(`{}`), app.ExitUsage, tooMany},
		"old, small": {old(`{"b":1}`), app.ExitUsage, tooMany},
		"old, valid": {manyRepeats(t, "v0.4.0", size), app.ExitOK, ""},
		"zeros": {strings.Repeat("\x00", size), app.ExitUsage,
			"line 1 column 1: invalid character"},
		"many repeats": {manyRepeats(t, "v0.5.0", size), app.ExitOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.json")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			p := separately(t, nil, "history", path)
			require.Equal(t, c.code, p.code, p.stderr)
			require.Contains(t, p.stderr, c.says)
			require.Less(t, p.memory, int64(4*len(c.text)+100<<20))
		})
	}
}

// A file of parts that are just not too many, but lack what every result has, takes little.
func TestMemoryOfManyPartsIsBounded(t *testing.T) {
	text := manyItems("1.0.0", "run", "repeats", `{"b":"`+strings.Repeat("x", 48)+`"}`, 8<<20)
	path := filepath.Join(t.TempDir(), "file.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	p := separately(t, nil, "history", path)
	require.Equal(t, app.ExitUsage, p.code, p.stderr)
	require.Contains(t, p.stderr, "is missing from the object")
	require.Less(t, p.memory, int64(16*len(text)+500<<20))
}

// manyItems returns a document with a list of so many items that it has that size.
func manyItems(version, kind, list, item string, size int) string {
	return fmt.Sprintf(
		`{"schema_version":%q,"kind":%q,"created_at":"2026-01-01T00:00:00Z","environments":[],%q:[%s%s]}`,
		version, kind, list, strings.Repeat(item+",", size/(len(item)+1)), item)
}

// manyRepeats returns a committed result of a release with so many repeats that it has that size.
func manyRepeats(t *testing.T, release string, size int) string {
	t.Helper()
	paths, err := filepath.Glob("../../../../results/" + release + "/*/cells/copyrpc-*.json*")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	text, err := files.Read(paths[0], result.MaxSize)
	require.NoError(t, err)
	var document map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &document))
	var repeats []json.RawMessage
	require.NoError(t, json.Unmarshal(document["repeats"], &repeats))
	all := slices.Repeat(repeats, 1+size/len(document["repeats"]))
	document["repeats"], err = json.Marshal(all)
	require.NoError(t, err)
	text, err = json.Marshal(document)
	require.NoError(t, err)
	return string(text)
}
