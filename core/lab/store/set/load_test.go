package set

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/files"
	"transportbench/core/lab/store/result"
)

// A loader returns the same as Load, each time a new set, and notices files that were added,
// changed or removed.
func TestLoaderFollowsADirectory(t *testing.T) {
	dir := t.TempDir()
	paths := write(t, dir, run(1, 1, 2), run(2, 3))
	var l Loader
	same := func() *Set {
		t.Helper()
		want, err := Load(dir)
		require.NoError(t, err)
		got, err := l.Load(dir)
		require.NoError(t, err)
		require.Equal(t, want.Cells, got.Cells)
		return got
	}
	before, err := Fingerprint(dir)
	require.NoError(t, err)
	first := same()
	first.Cells[0].Samples[result.Throughput][0] = 99 // it is the caller's
	first.Cells[0].Files[0].Name = "changed"
	same()
	require.Len(t, l.known, 2)

	write(t, dir, run(1, 7)) // more repeats of a known cell
	after, err := Fingerprint(dir)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	same()
	same()
	require.Len(t, l.known, 3)

	require.NoError(t, os.Remove(paths[1]))
	same()
	require.Len(t, l.known, 2)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), []byte("{"), 0o600))
	_, err = l.Load(dir)
	require.ErrorContains(t, err, "x.json")
	_, err = Fingerprint(filepath.Join(dir, "none"))
	require.NoError(t, err)
}

// A set whose result files gzip has compressed is the same set, and a file of it is the same
// result.
func TestPackedSets(t *testing.T) {
	const committed = "../../../../results/v0.2.0/amd-epyc-2core-vm"
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(committed)))
	pack := func(args ...string) {
		t.Helper()
		out, err := exec.Command("gzip", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	load := func(path string) *Set {
		s, err := Load(path)
		require.NoError(t, err)
		for i := range s.Cells {
			_, err := s.Results(&s.Cells[i])
			require.NoError(t, err)
			s.Cells[i].Files = nil // loose files have other names
		}
		return s
	}
	pack("--decompress", "--recursive", dir)
	plain := load(dir)
	cells, err := filepath.Glob(filepath.Join(dir, "cells", "*.json"))
	require.NoError(t, err)
	alone := load(cells[0])
	pack(cells...)
	require.Equal(t, plain.Cells, load(dir).Cells)
	require.Equal(t, alone.Cells, load(cells[0]).Cells)
	require.Equal(t, alone.Cells, load(cells[0]+".gz").Cells)
	before, err := Fingerprint(dir)
	require.NoError(t, err)

	index := filepath.Join(dir, IndexName)
	pack(index)
	require.Equal(t, plain.Cells, load(dir).Cells)
	require.NoError(t, os.Remove(index+".gz"))
	pack(filepath.Join(dir, "remote-share", IndexName))
	require.Equal(t, 9, len(load(dir).Cells), "with those of the set below")
	require.NoError(t, os.Remove(cells[0]+".gz"))
	after, err := Fingerprint(dir)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
}

// An index of schema 1.x is completed from its files, and what meant something else is renamed or
// dropped.
func TestSetsOfSchema1(t *testing.T) {
	const dir = "../../../../results/v0.4.0/amd-epyc-2core-vm"
	text, err := files.Read(filepath.Join(dir, IndexName+".gz"), 1<<20)
	require.NoError(t, err)
	require.Contains(t, string(text), `"schema_version": "1.0.0"`)
	check := func(s *Set, windows bool) {
		t.Helper()
		require.Equal(t, SchemaVersion, s.SchemaVersion)
		require.Len(t, s.Cells, 10)
		for i := range s.Cells {
			c := &s.Cells[i]
			require.True(t, strings.HasPrefix(c.Schema, "1."), c.Schema)
			require.NotContains(t, c.Samples, result.OpTimeRatio)
			name, other := result.Floor, result.Library
			if c.Transport() == "ucxam" {
				name, other = other, name
			}
			require.Len(t, c.Samples[name], 10)
			require.NotContains(t, c.Samples, other)
			if !windows {
				require.Zero(t, c.Launches())
				continue
			}
			require.Len(t, c.Windows, 10)
			require.Equal(t, 10, c.Launches(), "each repeat of a sweep was a run")
			require.Positive(t, c.ClockStep)
			require.Len(t, c.Samples[result.HarnessOverhead], 1)
			memory := c.Transport() == "shm" || c.Transport() == "copyrpc"
			require.Equal(t, memory, c.Windows[0].DistanceBefore > 0, c.Transport())
		}
	}
	s, err := Load(dir)
	require.NoError(t, err)
	check(s, true)
	again, err := Load(filepath.Join(dir, IndexName))
	require.NoError(t, err)
	require.Equal(t, s.Cells, again.Cells)

	alone := filepath.Join(t.TempDir(), IndexName)
	require.NoError(t, os.WriteFile(alone, text, 0o600))
	s, err = Load(alone)
	require.NoError(t, err)
	check(s, false)

	// A single file with old results inside.
	whole := strings.Replace(string(text), `"files":[`, `"results":[`, 1)
	begin := strings.Index(whole, `"results":[`) + len(`"results":[`)
	end := begin + strings.Index(whole[begin:], "]")
	inner, err := files.Read(filepath.Join(dir, again.Cells[0].Files[0].Name+".gz"), 1<<20)
	require.NoError(t, err)
	s, err = Parse([]byte(whole[:begin]+string(inner)+whole[end:]), "whole")
	require.NoError(t, err)
	require.Len(t, s.Cells[0].Results, 1)
	require.Equal(t, again.Cells[0].Windows, s.Cells[0].Windows)
	_, err = Parse([]byte(whole[:begin]+"{}"+whole[end:]), "whole")
	require.ErrorContains(t, err, "cells[0]: not a result")
}

func TestMergedWindowsKeepTheirLaunches(t *testing.T) {
	s := New()
	require.NoError(t, s.Add(run(1, 1, 2)))
	require.Equal(t, 1, s.Cells[0].Launches())
	for range 2 {
		more := New()
		require.NoError(t, more.Add(run(1, 3)))
		s.Include(more)
	}
	require.Len(t, s.Cells, 1)
	require.Len(t, s.Cells[0].Windows, 4)
	require.Equal(t, 3, s.Cells[0].Launches())

	unknown := New()
	require.NoError(t, unknown.Add(run(1, 4)))
	unknown.Cells[0].Windows = nil
	s.Include(unknown)
	require.Len(t, s.Cells[0].Samples[result.Throughput], 5)
	require.Empty(t, s.Cells[0].Windows, "they would not belong to the samples")
}
