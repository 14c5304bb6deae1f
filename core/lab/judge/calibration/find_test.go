package calibration

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core"
	"transportbench/core/base/machine"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// kept writes a calibration that was made on a day of January 2026.
func kept(t *testing.T, path string, identity machine.Identity, day int, quick bool) *Document {
	t.Helper()
	d := fileDocument()
	d.Environment.Identity, d.StartedAt, d.Quick = identity,
		time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), quick
	d.Tool.Version, d.Plugin.RuntimeDigest = core.Version, core.RuntimeDigest()
	require.NoError(t, Write(path, d))
	return d
}

// The last calibration is the newest full one of the same machine, in the directories or in the
// user's state directory. All others are named with the reason.
func TestFind(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64", Cores: 2, Kernel: "6.2"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	state, err := StatePath(here)
	require.NoError(t, err)
	dir, parent := t.TempDir(), t.TempDir()
	find := func() Found { return new(Finder).Find(identity, dir, parent, dir) }
	require.Equal(t, Found{Identity: identity}, find())

	quick := kept(t, state, here, 1, true)
	f := find()
	require.Equal(t, quick.ID, f.Document.ID)
	require.Equal(t, state, f.Path)
	require.Empty(t, f.Unused)

	full := kept(t, filepath.Join(parent, FileName), here, 2, false)
	kept(t, filepath.Join(dir, FileName), here, 3, true)
	require.Equal(t, full.ID, find().Document.ID, "a quick one does not hide a full one")
	require.Equal(t, filepath.Join(parent, FileName), find().Path)
	full = kept(t, filepath.Join(dir, FileName), here, 4, false)
	require.Equal(t, full.ID, find().Document.ID, "the newest")

	other := here
	other.Cores = 4
	kept(t, filepath.Join(dir, FileName), other, 5, false)
	f = find()
	require.Equal(t, filepath.Join(parent, FileName), f.Path)
	require.Equal(t, []string{filepath.Join(dir, FileName) +
		` is of another machine: cores "4" instead of "2"`}, f.Unused)

	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte("{"), 0o600))
	f = find()
	require.Equal(t, filepath.Join(parent, FileName), f.Path)
	require.Len(t, f.Unused, 1)
	require.Contains(t, f.Unused[0], "reading calibration "+filepath.Join(dir, FileName)+": ")
}

// In the state directory, other machines are no news, but an older kernel of this one is.
func TestFindInASharedStateDirectory(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64", Kernel: "6.2"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	other := here
	other.CPU = "another"
	path, err := StatePath(other)
	require.NoError(t, err)
	kept(t, path, other, 1, false)
	require.Equal(t, Found{Identity: identity}, new(Finder).Find(identity))

	before := here
	before.Kernel = "6.1"
	path, err = StatePath(before)
	require.NoError(t, err)
	kept(t, path, before, 1, false)
	require.Equal(t, []string{path + ` is of another machine: kernel "6.1" instead of "6.2"`},
		new(Finder).Find(identity).Unused)
	path, err = StatePath(here)
	require.NoError(t, err)
	kept(t, path, here, 1, true)
	require.Empty(t, new(Finder).Find(identity).Unused)
}

// A calibration is found beside a set, above it, and beside the sets that are below a directory.
func TestOfSets(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	root := t.TempDir()
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	path := filepath.Join(root, "machine", FileName)
	d := kept(t, path, here, 1, false)
	r := &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		Argv:        []string{},
		Environment: machine.Environment{Identity: here}, Repeats: make([]result.Repeat, 1),
		Summary: map[string]result.Metric{}, Checks: []result.Finding{},
		Placement: []result.Placement{},
	}
	r.Config.Transport = "shm"
	r.Repeats[0].Samples = map[string]float64{result.Throughput: 1}
	for _, below := range []string{"", "latency"} {
		dir := filepath.Join(root, "machine", below)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "cells"), 0o755))
		file := filepath.Join("cells", "one.json")
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), make([]byte, 9), 0o600))
		s := set.New()
		require.NoError(t, s.Add(r, set.File{Name: file, Bytes: 9}))
		require.NoError(t, s.WriteIndex(dir))
	}
	for _, name := range []string{"machine", "machine/latency", "machine/index.json", "."} {
		s, err := set.Load(filepath.Join(root, name))
		require.NoError(t, err)
		found := new(Finder).OfSets(s, s)
		require.Len(t, found, 1, "one machine")
		require.NotNil(t, found[0].Document, name)
		require.Equal(t, d.ID, found[0].Document.ID)
	}

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(path+".gz", compressed.Bytes(), 0o600))
	require.NoError(t, os.Remove(path))
	packed, err := set.Load(filepath.Join(root, "machine"))
	require.NoError(t, err)
	require.Equal(t, d.ID, new(Finder).OfSets(packed)[0].Document.ID, "a compressed calibration")

	other := here
	other.CPU = "another"
	r.Environment.Identity, r.ID = other, result.NewID()
	dir := filepath.Join(root, "other")
	kept(t, filepath.Join(dir, FileName), other, 1, false)
	of := set.New()
	require.NoError(t, of.Add(r))
	require.NoError(t, of.WriteIndex(dir))
	two := []string{filepath.Join(root, "machine"), dir}
	var sets []*set.Set
	for _, path := range two {
		s, err := set.Load(path)
		require.NoError(t, err)
		sets = append(sets, s)
	}
	found := new(Finder).OfSets(sets...)
	require.Len(t, found, 2)
	for i, f := range found {
		require.Equal(t, filepath.Join(two[i], FileName), f.Path)
		require.Empty(t, f.Unused, "the other machine's calibration is used for it")
	}
	r.Environment.Identity = here

	s := set.New() // not from a file
	require.NoError(t, s.Add(r))
	require.Nil(t, new(Finder).OfSets(s)[0].Document)
	s.Cells[0].Status = set.Published
	require.Empty(t, new(Finder).OfSets(s))
}

// A date in the future would hide every later calibration.
func TestFindIgnoresTheFuture(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	d := kept(t, path, here, 1, false)
	for ahead, counts := range map[time.Duration]bool{23 * time.Hour: true, 25 * time.Hour: false} {
		d.StartedAt = time.Now().Add(ahead)
		require.NoError(t, Write(path, d))
		f := new(Finder).Find(identity, dir)
		require.Equal(t, counts, f.Document != nil)
		if !counts {
			require.Equal(t, []string{path + " does not count: started_at is in the future, " +
				d.StartedAt.UTC().Format(time.DateOnly)}, f.Unused)
		}
	}
}

// A calibration by another version or runtime is used, with its age.
func TestFindTellsAnotherVersion(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	dir := t.TempDir()
	d := kept(t, filepath.Join(dir, FileName), here, 1, false)
	stale := func(version, runtime string) string {
		d.StartedAt, d.Tool.Version, d.Plugin.RuntimeDigest = time.Now().Add(
			-10*24*time.Hour-time.Hour), version, runtime
		require.NoError(t, Write(filepath.Join(dir, FileName), d))
		f := new(Finder).Find(identity, dir)
		require.NotNil(t, f.Document)
		return f.Stale
	}
	require.Empty(t, stale(core.Version, core.RuntimeDigest()))
	require.Equal(t, "10 days old, made with version 0.1.0, and this is "+core.Version,
		stale("0.1.0", core.RuntimeDigest()))
	require.Equal(t, "10 days old, made with runtime 0123456789ab, and this has "+
		core.RuntimeDigest()[:12], stale(core.Version, "0123456789abcdef"))
}

// A file that has not changed is read once, whatever number of machines and sets there are.
func TestFinderReadsAgainAfterAChange(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	first := kept(t, path, here, 1, false)
	finder := new(Finder)
	f := finder.Find(identity, dir)
	require.Equal(t, first.ID, f.Document.ID)
	require.Same(t, f.Document, finder.Find(identity, dir).Document)

	second := kept(t, path, here, 2, false)
	later := time.Now().Add(time.Minute)
	require.NoError(t, os.Chtimes(path, later, later))
	f = finder.Find(identity, dir)
	require.Equal(t, second.ID, f.Document.ID)
	require.NotEqual(t, first.StartedAt, f.Document.StartedAt)
	require.NoError(t, os.Remove(path))
	require.Nil(t, finder.Find(identity, dir).Document)
}
