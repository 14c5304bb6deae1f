package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFingerprint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	later := time.Now().Add(time.Hour) // the file is old enough
	require.False(t, fingerprintOf(path, later).same(fingerprintOf(path, later)),
		"there is no file")
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o600))
	require.Zero(t, fingerprintOf(path, time.Now()), "it changed a moment ago")
	first := fingerprintOf(path, later)
	require.True(t, first.same(fingerprintOf(path, later)))

	// A program that puts the same length and time back is found out.
	info, err := os.Stat(path)
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond) // longer than a step of the kernel's clock
	require.NoError(t, os.WriteFile(path, []byte("xyz"), 0o600))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	require.False(t, first.same(fingerprintOf(path, later)))
}

// A file that has not changed is read once, whatever the number of launches.
func TestUnchangedFileIsReadOnce(t *testing.T) {
	p := file(t, "x", "#!/bin/sh\nexit 0\n")
	_, err := p.SHA256()
	require.NoError(t, err)
	r := &pluginRunner{plugin: p, sha256: "00"} // reading it would find another digest
	require.ErrorContains(t, r.verify(), "has changed", "it is too young to trust its fingerprint")
	p.now = func() time.Time { return time.Now().Add(time.Hour) }
	sum, err := p.SHA256()
	require.NoError(t, err)
	require.NoError(t, (&pluginRunner{plugin: p, sha256: sum}).verify(),
		"it reads the file once more")
	require.NoError(t, r.verify(), "and not again")
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, os.WriteFile(p.Path, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	require.ErrorContains(t, r.verify(), "has changed")
}
