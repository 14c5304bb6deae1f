package host

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// noID is the identifier of an entry of an access control list that is for no certain user or group.
const noID = math.MaxUint32

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
		}, "transport-x belongs to user nobody, not to you or root: chown"},
		"group": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(path, 0, strangerID))
			require.NoError(t, os.Chmod(path, 0o775))
			return path
		}, "transport-x can be written by group nogroup: chmod g-w"},
		"group by a list": {func(t *testing.T, path string) string {
			// Version 2; rwx for the owner, user 65534, the group's own r-x, the mask rwx, others r-x.
			list := []byte{2, 0, 0, 0}
			for _, entry := range []struct {
				tag, perm uint16
				id        uint32
			}{{0x01, 7, noID}, {0x02, 7, strangerID}, {0x04, 5, noID}, {0x10, 7, noID}, {0x20, 5, noID}} {
				list = binary.LittleEndian.AppendUint16(list, entry.tag)
				list = binary.LittleEndian.AppendUint16(list, entry.perm)
				list = binary.LittleEndian.AppendUint32(list, entry.id)
			}
			err := unix.Lsetxattr(path, "system.posix_acl_access", list, 0)
			if errors.Is(err, unix.ENOTSUP) {
				t.Skip("the file system has no access control lists")
			}
			require.NoError(t, err)
			return path
		}, "transport-x can be written by group root: chmod g-w"},
		"others": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(path, 0o757))
			return path
		}, "transport-x can be written by every user: chmod o-w"},
		"directory": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
			return path
		}, "plugins can be written by every user: chmod o-w"},
		"directory of another user": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(filepath.Dir(path), strangerID, 0))
			return path
		}, "plugins belongs to user nobody"},
		"directory above": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777))
			return path
		}, "deep can be written by every user"},
		"link into a foreign directory": {func(t *testing.T, path string) string {
			require.NoError(t, os.Chown(filepath.Dir(path), strangerID, 0))
			link := filepath.Join(shortDir(t), "transport-x")
			require.NoError(t, os.Symlink(path, link))
			return link
		}, "plugins belongs to user nobody"},
		"link of another user in a sticky directory": {func(t *testing.T, path string) string {
			link := filepath.Join(sharedDir(t), "transport-x")
			asStranger(t, "ln -s "+path+" "+link)
			return link
		}, "transport-x belongs to user nobody"},
		"link by a link of another user": {func(t *testing.T, path string) string {
			between := filepath.Join(sharedDir(t), "between")
			asStranger(t, "ln -s "+filepath.Dir(path)+" "+between)
			link := filepath.Join(shortDir(t), "transport-x")
			require.NoError(t, os.Symlink(filepath.Join(between, "transport-x"), link))
			return link
		}, "between belongs to user nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			path := plant(t)
			p := newPlugin("x", c.expose(t, path))
			_, err := p.Describe(context.Background())
			require.ErrorContains(t, err, c.says)
			_, launch := p.Launch(context.Background(), LaunchOptions{})
			require.EqualError(t, launch, err.Error())
			var exposed *ExposedError
			require.ErrorAs(t, err, &exposed)
			require.NotContains(t, err.Error(), "\n")
			require.NoFileExists(t, path+"-ran")
		})
	}
}

func TestTrustedPaths(t *testing.T) {
	path := plant(t)
	require.NoError(t, checkExposed(path))
	require.NoError(t, os.Chmod(path, 0o775))
	require.NoError(t, checkExposed(path), "no other user is in root's group")
	sticky := filepath.Join(sharedDir(t), "transport-x")
	require.NoError(t, os.Symlink(path, sticky))
	require.NoError(t, checkExposed(sticky), "others cannot replace it")
	relative := filepath.Join(filepath.Dir(path), "transport-y")
	require.NoError(t, os.Symlink("../plugins/./transport-x", relative))
	require.NoError(t, checkExposed(relative))
	loop := filepath.Join(filepath.Dir(path), "transport-loop")
	require.NoError(t, os.Symlink(loop, loop))
	require.ErrorContains(t, checkExposed(loop), "too many levels of symbolic links")
	require.ErrorIs(t, checkExposed(path+"-missing"), os.ErrNotExist)
}

func TestPrivateGroup(t *testing.T) {
	require.False(t, isPrivateGroup(strangerID), "the group of another user")
	require.False(t, isPrivateGroup(4_000_000_000), "no group")
	file := filepath.Join(t.TempDir(), "group")
	require.NoError(t, os.WriteFile(file, []byte("root:x:0:\nann:x:1000:ann\nteam:x:1001:ann,bob\n"), 0o600))
	require.False(t, hasOtherMembers(file, "0", "root"))
	require.False(t, hasOtherMembers(file, "1000", "ann"))
	require.True(t, hasOtherMembers(file, "1001", "ann"))
	require.True(t, hasOtherMembers(file+"-missing", "0", "root"))
	require.NoError(t, os.WriteFile(file, []byte("ann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1000::/home/bob:/bin/sh\n"), 0o600))
	require.True(t, isPrimaryOfOthers(file, "1000", "ann"))
	require.False(t, isPrimaryOfOthers(file, "1001", "bob"))
}
