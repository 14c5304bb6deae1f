package files

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const aclName = "system.posix_acl_access"

// grant gives a user all rights to a file by an access control list.
func grant(t *testing.T, path string, user uint32) {
	t.Helper()
	const noID = math.MaxUint32
	// Version 2; rwx for the owner, the user, the group's own r-x, the mask rwx, others r-x.
	list := []byte{2, 0, 0, 0}
	for _, entry := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, noID}, {0x02, 7, user}, {0x04, 5, noID}, {0x10, 7, noID}, {0x20, 5, noID}} {
		list = binary.LittleEndian.AppendUint16(list, entry.tag)
		list = binary.LittleEndian.AppendUint16(list, entry.perm)
		list = binary.LittleEndian.AppendUint32(list, entry.id)
	}
	err := unix.Lsetxattr(path, aclName, list, 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system has no access control lists")
	}
	require.NoError(t, err)
}

// A path is exposed if another user could change what it leads to.
func TestExposedPaths(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		expose func(t *testing.T, path string) (exposed string)
		says   string
	}{
		"owner": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(path, nobody, nobody))
			return path
		}, "file belongs to user nobody, not to you or root: use a directory that only you " +
			"can write"},
		"group": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(path, 0, nobody))
			require.NoError(t, os.Chmod(path, 0o775))
			return path
		}, "file can be written by group nogroup: chmod g-w"},
		"group by a list": {func(t *testing.T, path string) string {
			grant(t, path, nobody)
			return path
		}, "file can be written by group root: chmod g-w"},
		"others": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(path, 0o757))
			return path
		}, "file can be written by every user: chmod o-w"},
		"directory": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
			return path
		}, "above can be written by every user: chmod o-w"},
		"directory of another user": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(filepath.Dir(path), nobody, 0))
			return path
		}, "above belongs to user nobody"},
		"directory above": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777))
			return path
		}, "can be written by every user"},
		"link by a link of another user": {func(t *testing.T, path string) string {
			between := filepath.Join(sharedDir(t, fs.ModeSticky|0o777), "between")
			require.NoError(t, os.Symlink(filepath.Dir(path), between))
			require.NoError(t, os.Lchown(between, nobody, nobody))
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(filepath.Join(between, "file"), link))
			return link
		}, "between belongs to user nobody"},
		"link into a foreign directory": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(filepath.Dir(path), nobody, 0))
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(path, link))
			return link
		}, "above belongs to user nobody"},
		"link of another user in a sticky directory": {func(t *testing.T, path string) string {
			link := filepath.Join(sharedDir(t, fs.ModeSticky|0o777), "link")
			require.NoError(t, os.Symlink(path, link))
			require.NoError(t, os.Lchown(link, nobody, nobody))
			return link
		}, "link belongs to user nobody"},
		"hard link in a sticky directory": {func(t *testing.T, path string) string {
			link := filepath.Join(sharedDir(t, fs.ModeSticky|0o777), "hard")
			require.NoError(t, os.Link(path, link))
			return link
		}, "hard has 2 hard links in a directory that every user may write: use a directory that " +
			"only you can write"},
		"hard link to a link of root": {func(t *testing.T, path string) string {
			link, hard := filepath.Join(t.TempDir(), "link"),
				filepath.Join(sharedDir(t, fs.ModeSticky|0o777), "hard")
			require.NoError(t, os.Symlink(path, link))
			require.NoError(t, os.Link(link, hard))
			return hard
		}, "hard has 2 hard links"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "above", "file")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
			put(t, path, "text", 0o755)
			err := CheckExposed(c.expose(t, path))
			var exposed *ExposedError
			require.ErrorAs(t, err, &exposed)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestTrustedPaths(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "text", 0o755)
	require.NoError(t, CheckExposed(path))
	require.NoError(t, os.Chmod(path, 0o775))
	require.NoError(t, CheckExposed(path), "no other user is in root's group")
	require.NoError(t, os.Link(path, filepath.Join(dir, "hard")))
	require.NoError(t, CheckExposed(path), "only root can have linked it")
	sticky := filepath.Join(sharedDir(t, fs.ModeSticky|0o777), "link")
	require.NoError(t, os.Symlink(path, sticky))
	require.NoError(t, CheckExposed(sticky), "others cannot replace it")
	relative := filepath.Join(dir, "relative")
	require.NoError(t, os.Symlink("../"+filepath.Base(dir)+"/./file", relative))
	require.NoError(t, CheckExposed(relative))
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink(loop, loop))
	require.EqualError(t, CheckExposed(loop), "open "+loop+": too many levels of symbolic links")
	require.ErrorIs(t, CheckExposed(path+"-missing"), fs.ErrNotExist)
}

func TestPrivateGroup(t *testing.T) {
	require.False(t, isPrivateGroup(nobody), "the group of another user")
	require.False(t, isPrivateGroup(4_000_000_000), "no group")
	file := filepath.Join(t.TempDir(), "group")
	require.NoError(t, os.WriteFile(file,
		[]byte("root:x:0:\nann:x:1000:ann\nteam:x:1001:ann,bob\n"), 0o600))
	require.False(t, hasOtherMembers(file, "0", "root"))
	require.False(t, hasOtherMembers(file, "1000", "ann"))
	require.True(t, hasOtherMembers(file, "1001", "ann"))
	require.True(t, hasOtherMembers(file+"-missing", "0", "root"))
	require.NoError(t, os.WriteFile(file,
		[]byte("ann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1000::/home/bob:/bin/sh\n"), 0o600))
	require.True(t, isPrimaryOfOthers(file, "1000", "ann"))
	require.False(t, isPrimaryOfOthers(file, "1001", "bob"))
}
