package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// strangerID is the user and group of nobody.
const strangerID = 65534

// asStranger runs a shell command as another user.
func asStranger(t *testing.T, command string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	shell := exec.Command("/bin/sh", "-ec", command)
	shell.Dir = "/"
	shell.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: strangerID,
		Gid: strangerID}}
	out, err := shell.CombinedOutput()
	require.NoError(t, err, string(out))
}

// sharedDir returns a directory like /tmp.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	require.NoError(t, os.Chmod(dir, os.ModeSticky|0o777))
	return dir
}

func protectedSymlinks(t *testing.T) string {
	text, err := os.ReadFile("/proc/sys/fs/protected_symlinks")
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// A stranger prepares what a killed process of this user could have left: links, directories, with
// and without the marker, and FIFOs. Nothing but what is ours is removed, or waited for.
func TestNothingOfStrangersIsRemoved(t *testing.T) {
	base, victim := sharedDir(t), shortDir(t) // the victim is private, as are ours
	require.NoError(t, os.Mkdir(filepath.Join(victim, "precious"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(victim, "precious", "data"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(victim, marker), nil, 0o600))
	prefix := filepath.Join(base, runDirPrefix())
	asStranger(t, `
		mkdir -p `+prefix+`3/precious
		touch `+prefix+`3/`+marker+`
		chmod 700 `+prefix+`3
		ln -s `+victim+` `+prefix+`1
		ln -s `+victim+` `+strings.TrimSuffix(prefix, "-")+`
		mkfifo `+prefix+`2`)
	own := prefix + "4"
	require.NoError(t, os.MkdirAll(own, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(own, marker), nil, 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(own, "link")))
	require.NoError(t, os.MkdirAll(filepath.Join(own, "plugin-dir1"), 0o700))
	require.NoError(t, os.Symlink(victim+"/precious", filepath.Join(own, "plugin-dir1", "link")))

	removeStale(base)
	require.NoDirExists(t, own, "the only one of ours")
	d, err := newRunDirIn(base)
	require.NoError(t, err)
	d.remove()

	require.FileExists(t, filepath.Join(victim, "precious", "data"))
	require.DirExists(t, prefix+"3/precious")
	for _, name := range []string{"1", "2"} {
		_, err := os.Lstat(prefix + name)
		require.NoError(t, err, "fs.protected_symlinks is %s", protectedSymlinks(t))
	}
}

// The contents are removed through the directory that was made, also if its path leads elsewhere by
// then.
func TestRemoveFollowsTheDirectory(t *testing.T) {
	base := shortDir(t)
	d, err := newRunDirIn(base)
	require.NoError(t, err)
	require.NoError(t, d.root.WriteFile("socket", nil, 0o600))
	victim := shortDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(victim, marker), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(victim, "socket"), 0o700))
	moved := filepath.Join(base, "moved")
	require.NoError(t, os.Rename(d.path, moved))
	require.NoError(t, os.Symlink(victim, d.path))
	d.remove()
	require.FileExists(t, filepath.Join(victim, marker))
	require.DirExists(t, filepath.Join(victim, "socket"))
	left, err := os.ReadDir(moved)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestStaleRunDirs(t *testing.T) {
	base := shortDir(t)
	live, err := newRunDirIn(base)
	require.NoError(t, err)
	require.NoError(t, live.root.Mkdir("plugin-dir1", 0o700))
	dead, err := newRunDirIn(base)
	require.NoError(t, err)
	require.NoError(t, dead.root.WriteFile("socket", nil, 0o600))
	dead.close() // as the kernel does for a process that is killed
	unmarked, empty := filepath.Join(base, runDirPrefix()+"results"),
		filepath.Join(base, runDirPrefix()+"1")
	require.NoError(t, os.Mkdir(unmarked, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(unmarked, "result.json"), nil, 0o600))
	require.NoError(t, os.Mkdir(empty, 0o700))
	open := filepath.Join(base, runDirPrefix()+"2")
	require.NoError(t, os.Mkdir(open, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(open, marker), nil, 0o600))

	removeStale(base)
	require.NoDirExists(t, dead.path)
	require.DirExists(t, empty, "nothing shows that it is ours")
	require.DirExists(t, filepath.Join(live.path, "plugin-dir1"), "its process lives")
	require.FileExists(t, filepath.Join(unmarked, "result.json"), "only its name is like ours")
	require.DirExists(t, open, "not private, so not ours")
	live.remove()
	live.remove()
	require.NoDirExists(t, live.path)
	removeStale(filepath.Join(base, "missing"))
}

// No other user can keep this one from making directories.
func TestNameCannotBeTaken(t *testing.T) {
	base := sharedDir(t)
	asStranger(t, "mkdir "+strings.TrimSuffix(filepath.Join(base, runDirPrefix()), "-"))
	d, err := newRunDirIn(base)
	require.NoError(t, err)
	d.remove()
}

func TestBaseOfRunDirs(t *testing.T) {
	base := func(t *testing.T) string {
		t.Helper()
		d, err := newRunDir()
		require.NoError(t, err)
		d.remove()
		return filepath.Dir(d.path)
	}
	tmp, session := shortDir(t), shortDir(t)
	t.Setenv("TMPDIR", tmp)
	require.Equal(t, tmp, base(t))
	t.Setenv("XDG_RUNTIME_DIR", session)
	require.Equal(t, session, base(t))
	require.NoError(t, os.Chmod(session, 0o755))
	require.Equal(t, tmp, base(t), "others may enter XDG_RUNTIME_DIR")
	require.NoError(t, os.Chmod(session, 0o700))
	link := filepath.Join(tmp, "link")
	require.NoError(t, os.Symlink(session, link))
	t.Setenv("XDG_RUNTIME_DIR", link)
	require.Equal(t, tmp, base(t), "XDG_RUNTIME_DIR is a link")
	t.Setenv("XDG_RUNTIME_DIR", "/nowhere")
	require.Equal(t, tmp, base(t))
	above := shortDir(t)
	session = filepath.Join(above, "session")
	require.NoError(t, os.Mkdir(session, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", session)
	require.Equal(t, session, base(t))
	require.NoError(t, os.Chmod(above, 0o777))
	require.Equal(t, tmp, base(t), "others may replace XDG_RUNTIME_DIR")

	require.NoError(t, os.Chmod(tmp, 0o777))
	_, err := newRunDir()
	require.ErrorContains(t, err, tmp+" can be written by every user: chmod o-w "+tmp+
		", or chmod +t it; set TMPDIR to another directory")
	require.NoError(t, os.Chmod(tmp, 0o700))
	t.Setenv("TMPDIR", filepath.Join(tmp, "missing"))
	_, err = newRunDir()
	require.ErrorContains(t, err, "no such file or directory; set TMPDIR to another directory")
	require.ErrorIs(t, CheckTemp(), unix.ENOENT)
}

// Processes that start at the same time look for what killed ones left, and may see a directory
// that another one is about to lock.
func TestRunDirsOfManyProcesses(t *testing.T) {
	base := shortDir(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				removeStale(base)
				d, err := newRunDirIn(base)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := d.root.Lstat(marker); err != nil {
					t.Error(err)
				}
				d.remove()
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
}
