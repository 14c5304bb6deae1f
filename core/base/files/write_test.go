package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// asUser is the variable with the path that a process of another user writes.
const asUser = "TRANSPORTBENCH_TEST_WRITE"

func TestMain(m *testing.M) {
	if path := os.Getenv(asUser); path != "" {
		if err := Write(context.Background(), path, text("new")); err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// nobody is the user and the group of a process without rights.
const nobody = 65534

// writeAsNobody writes "new" to path as another user, and returns the text of the error.
func writeAsNobody(t *testing.T, path string) string {
	t.Helper()
	needRoot(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{asUser + "=" + path, "TMPDIR=/tmp"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody,
		Gid: nobody}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(out)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may act as another user")
	}
}

// sharedDir makes a directory in which every user may work as far as mode allows.
func sharedDir(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != filepath.Dir(os.TempDir()) && at != "/"; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o001 == 0 {
			require.NoError(t, os.Chmod(at, info.Mode()|0o011))
		}
	}
	require.NoError(t, os.Chmod(dir, mode))
	return dir
}

// text returns a function that writes s in two parts.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, part := range []string{s[:1], s[1:]} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		return nil
	}
}

func write(path, s string) error { return Write(context.Background(), path, text(s)) }

func put(t *testing.T, path, s string, mode fs.FileMode) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(s), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func requireFile(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, mode, info.Mode(), path)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// requireOnly fails if dir has other entries than names, such as a temporary file.
func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Uid
}

func TestNewFileHasTheModeOfTheUmask(t *testing.T) {
	for umask, mode := range map[int]fs.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664} {
		dir := t.TempDir()
		old := syscall.Umask(umask)
		err := errors.Join(write(filepath.Join(dir, "new"), "text"),
			Replace(filepath.Join(dir, "replaced"), text("text")),
			Create(filepath.Join(dir, "created"), text("text")))
		syscall.Umask(old)
		require.NoError(t, err)
		for _, name := range []string{"new", "replaced", "created"} {
			requireFile(t, filepath.Join(dir, name), "text", mode)
		}
		requireOnly(t, dir, "new", "replaced", "created")
	}
}

func TestRegularFileKeepsItsMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o666, 0o755} {
		dir := t.TempDir()
		path := put(t, filepath.Join(dir, "file"), "a longer old text", mode)
		before := inode(t, path)
		require.NoError(t, write(path, "new"))
		requireFile(t, path, "new", mode)
		require.NotEqual(t, before, inode(t, path), "a reader of the old file must keep its text")
		requireOnly(t, dir, "file")
	}
}

func TestLinksAreFollowed(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	target := put(t, filepath.Join(far, "target"), "old", 0o640)
	require.NoError(t, os.Symlink(far, filepath.Join(dir, "directory")))
	require.NoError(t, os.Symlink("directory/../"+filepath.Base(far)+"/target",
		filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("link", filepath.Join(dir, "chain")))
	for i, name := range []string{"link", "chain", "directory/target", "../" + filepath.Base(dir) +
		"/chain"} {
		want := fmt.Sprint("new", i)
		require.NoError(t, write(dir+"/"+name, want))
		requireFile(t, target, want, 0o640)
	}
	t.Chdir(dir)
	require.NoError(t, write("./chain", "relative"))
	requireFile(t, target, "relative", 0o640)
	requireOnly(t, dir, "directory", "link", "chain")
	requireOnly(t, far, "target")

	dangling := filepath.Join(dir, "dangling")
	require.NoError(t, os.Symlink(filepath.Join(far, "made"), dangling))
	require.NoError(t, Replace(dangling, text("new")))
	requireFile(t, filepath.Join(far, "made"), "new", 0o644)

	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.EqualError(t, write(filepath.Join(dir, "loop"), "new"), "write "+dir+
		"/loop: too many levels of symbolic links")
}

func TestHardLinksStay(t *testing.T) {
	dir := t.TempDir()
	a, b := put(t, filepath.Join(dir, "a"), "a longer old text", 0o640), filepath.Join(dir, "b")
	require.NoError(t, os.Link(a, b))
	require.NoError(t, write(a, "new"))
	requireFile(t, a, "new", 0o640)
	requireFile(t, b, "new", 0o640)
	requireOnly(t, dir, "a", "b")

	// What cannot be written is known before the old text is touched.
	failure := errors.New("no text")
	require.ErrorIs(t, Write(context.Background(), a, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, failure)
	}), failure)
	requireFile(t, b, "new", 0o640)
}

func TestOldFileStaysAfterAnError(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old", 0o600)
	failure := errors.New("no text")
	fail := func(w io.Writer) error { return errors.Join(text("new")(w), failure) }
	require.Equal(t, failure.Error(), Write(context.Background(), path, fail).Error())
	requireFile(t, path, "old", 0o600)
	require.ErrorIs(t, Create(filepath.Join(dir, "none"), fail), failure)
	requireOnly(t, dir, "file")
}

func TestCreateReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old", 0o600)
	require.NoError(t, os.Symlink("none", filepath.Join(dir, "dangling")))
	for _, name := range []string{"file", "dangling"} {
		require.ErrorIs(t, Create(filepath.Join(dir, name), text("new")), fs.ErrExist)
	}
	requireFile(t, path, "old", 0o600)
	requireOnly(t, dir, "file", "dangling")
}

// device makes a device with the numbers of one of /dev. That of the machine must never be at risk.
func device(t *testing.T, name string, major, minor uint32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
		t.Skipf("making a device: %v", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("opening a device that the test has made (a nodev mount?): %v", err)
	}
	f.Close()
	return path
}

func TestDeviceStays(t *testing.T) {
	null := device(t, "null", 1, 3)
	before := inode(t, null)
	require.NoError(t, write(null, "new"))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(null, link))
	require.NoError(t, write(link, "new"))
	info, err := os.Lstat(null)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDevice|fs.ModeCharDevice, info.Mode().Type())
	require.Equal(t, before, inode(t, null))
	requireOnly(t, filepath.Dir(null), "null")

	require.EqualError(t, Replace(null, text("new")), "write "+null+
		": not a regular file; remove it")
}

func TestFullDeviceIsNamed(t *testing.T) {
	full := device(t, "full", 1, 7)
	err := write(full, "new")
	require.EqualError(t, err, "write "+full+": no space left on device; free some space")
	require.ErrorIs(t, err, unix.ENOSPC)
	requireOnly(t, filepath.Dir(full), "full")
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	return path
}

func TestPipeGetsAllBytes(t *testing.T) {
	path := pipe(t)
	want := strings.Repeat("many bytes, more than a pipe holds. ", 10_000)
	written := make(chan error)
	go func() { written <- write(path, want) }() // waits for a reader
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	got, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, <-written)
	require.Equal(t, want, string(got))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeNamedPipe, info.Mode().Type())
	requireOnly(t, filepath.Dir(path), "pipe")
}

func TestPipeIsInterrupted(t *testing.T) {
	path := pipe(t)
	interrupted := func(write func(io.Writer) error) error {
		ctx, cancel := context.WithCancel(context.Background())
		written := make(chan error)
		go func() { written <- Write(ctx, path, write) }()
		cancel()
		return <-written
	}
	require.ErrorIs(t, interrupted(text("new")), context.Canceled, "no reader")

	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	require.ErrorIs(t, interrupted(func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return err
	}), context.Canceled, "a reader that does not read")

	// A regular file is written after an interrupt: it has what was measured until then.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, Write(ctx, file, text("new")))
	requireFile(t, file, "new", 0o644)
}

func TestPipeWhoseReaderLeaves(t *testing.T) {
	path := pipe(t)
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.EqualError(t, Write(context.Background(), path, func(w io.Writer) error {
		reader.Close()
		_, err := io.WriteString(w, "new")
		return err
	}), "write "+path+": broken pipe")
}

// A path such as /dev/stdout stands for a descriptor, which may have no path of its own.
func TestOwnDescriptors(t *testing.T) {
	pathOf := func(f *os.File) string {
		link := filepath.Join(t.TempDir(), "stdout")
		require.NoError(t, os.Symlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), link))
		return link
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	link := pathOf(w)
	require.NoError(t, write(link, "piped"))
	w.Close()
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "piped", string(got))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())

	path := filepath.Join(t.TempDir(), "deleted")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("before, ")
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, write(pathOf(f), "text"))
	require.NoError(t, write(fmt.Sprintf("/dev/fd/%d", f.Fd()), ", again"))
	got = make([]byte, 100)
	n, err := f.ReadAt(got, 0)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "before, text, again", string(got[:n]))
	requireOnly(t, filepath.Dir(path))

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	socket := os.NewFile(uintptr(pair[1]), "socket")
	defer socket.Close()
	require.NoError(t, write(pathOf(socket), "sent"))
	n, err = unix.Read(pair[0], got)
	require.NoError(t, err)
	require.Equal(t, "sent", string(got[:n]))
}

func TestErrorsNameThePath(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "old", 0o600)
	for path, want := range map[string]string{
		dir:                                  "is a directory",
		dir + "/":                            "is a directory",
		dir + "/.":                           "is a directory",
		file + "/":                           "not a directory",
		file + "/below":                      "not a directory",
		dir + "/none/report.html":            "no such file or directory",
		dir + "/none/":                       "no such file or directory",
		"":                                   "no such file or directory",
		"/proc/report.html":                  "no such file or directory",
		dir + "/nul\x00":                     "invalid argument",
		dir + "/" + strings.Repeat("x", 300): "file name too long",
	} {
		for _, err := range []error{write(path, "new"), Replace(path, text("new"))} {
			var failed *WriteError
			require.ErrorAs(t, err, &failed, path)
			require.Equal(t, "write "+path+": "+want, err.Error())
		}
	}
	requireOnly(t, dir, "file")
}

func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	old := strings.Repeat("old ", 3<<10)
	one, hard := put(t, filepath.Join(dir, "one"), old, 0o644),
		put(t, filepath.Join(dir, "hard"), old, 0o644)
	require.NoError(t, os.Link(hard, filepath.Join(dir, "link")))
	for path, size := range map[string]int{
		one: 60 << 10, filepath.Join(dir, "new"): 60 << 10,
		hard: 30 << 10, // there is room for this text or for the larger file, but not for both
	} {
		for _, err := range []error{write(path, strings.Repeat("x", size)),
			Replace(path, text(strings.Repeat("x", size)))} {
			require.EqualError(t, err, "write "+path+": no space left on device; free some space")
		}
	}
	requireFile(t, one, old, 0o644)
	requireFile(t, hard, old, 0o644)
	requireOnly(t, dir, "one", "hard", "link")
}

func TestFileOfAnotherUser(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old", 0o640)
	require.NoError(t, os.Chown(path, nobody, nobody))
	require.NoError(t, write(path, "new"))
	requireFile(t, path, "new", 0o640)
	require.EqualValues(t, nobody, owner(t, path))
	requireOnly(t, dir, "file")
}

// Another user's file that everybody may write keeps its owner where a user cannot give it away.
func TestFileOfRootThatAllMayWrite(t *testing.T) {
	for _, mode := range []fs.FileMode{0o755, 0o777, 0o777 | fs.ModeSticky} {
		dir := sharedDir(t, mode)
		path := put(t, filepath.Join(dir, "file"), "a longer old text", 0o666)
		require.Empty(t, writeAsNobody(t, path))
		requireFile(t, path, "new", 0o666)
		require.Zero(t, owner(t, path))
		requireOnly(t, dir, "file")
	}
}

func TestDirectoryThatMayNotBeRead(t *testing.T) {
	dir := sharedDir(t, 0o733)
	require.Empty(t, writeAsNobody(t, filepath.Join(dir, "new")))
	requireFile(t, filepath.Join(dir, "new"), "new", 0o644)
}

func TestDirectoryThatMayNotBeWritten(t *testing.T) {
	dir := sharedDir(t, 0o755)
	path := put(t, filepath.Join(dir, "file"), "old", 0o644)
	for _, path := range []string{path, filepath.Join(dir, "new")} {
		require.Equal(t, "write "+path+": permission denied; make it writable",
			writeAsNobody(t, path))
	}
	requireFile(t, path, "old", 0o644)
	requireOnly(t, dir, "file")
}

// Everybody may add links and files to a directory such as /tmp, whatever the kernel protects.
func TestFilesOfOthersAreTraps(t *testing.T) {
	needRoot(t)
	dir, victims := sharedDir(t, 0o777|fs.ModeSticky), t.TempDir()
	victim := put(t, filepath.Join(victims, "file"), "old", 0o644)
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Symlink(victim, in("link")))
	require.NoError(t, os.Symlink(victims, in("directory")))
	require.NoError(t, unix.Mkfifo(in("pipe"), 0o666))
	put(t, in("regular"), "old", 0o666)
	for _, name := range []string{"link", "directory", "pipe", "regular"} {
		require.NoError(t, os.Lchown(in(name), nobody, nobody))
	}
	require.NoError(t, os.Link(victim, in("hard")))
	const world, hard = " and is in a directory that everybody may write",
		" and is in a directory that others may write"
	refused := map[string]string{
		"link": "link is a symbolic link of user 65534", "pipe": "pipe belongs to user 65534" +
			world,
		"regular":        "regular belongs to user 65534" + world,
		"directory/file": "directory is a symbolic link of user 65534",
		"directory/new":  "directory is a symbolic link of user 65534",
		"hard":           "hard has 2 hard links" + hard,
	}
	requireRefused := func(name, culprit string) {
		t.Helper()
		for _, err := range []error{write(in(name), "new"), Replace(in(name), text("new"))} {
			require.EqualError(t, err, "write "+in(name)+": "+in(culprit)+"; name another file")
		}
	}
	for _, mode := range []fs.FileMode{0o777 | fs.ModeSticky, 0o777} {
		require.NoError(t, os.Chmod(dir, mode))
		for name, culprit := range refused {
			requireRefused(name, culprit)
		}
	}
	require.ErrorContains(t, Create(in("directory/new"), text("new")),
		"directory is a symbolic link of user 65534")
	for _, path := range []string{"directory", "directory/missing/more"} {
		for _, err := range []error{Try(in(path), 1), MakeDir(in(path))} {
			require.EqualError(t, err, "write "+in(path)+": "+
				in("directory is a symbolic link of user 65534; name another file"))
		}
	}
	requireFile(t, victim, "old", 0o644)
	requireOnly(t, victims, "file")
	requireOnly(t, dir, "link", "directory", "pipe", "regular", "hard")

	// A stranger may also prepare a directory, or have one.
	require.NoError(t, os.Mkdir(in("theirs"), 0o755))
	require.NoError(t, os.Symlink(victim, in("theirs/link")))
	require.NoError(t, os.Link(victim, in("theirs/hard")))
	require.NoError(t, os.Lchown(in("theirs/link"), nobody, nobody))
	require.NoError(t, os.Lchown(in("theirs"), nobody, nobody))
	requireRefused("theirs/link", "theirs/link is a symbolic link of user 65534")
	requireRefused("theirs/hard", "theirs/hard has 3 hard links"+hard)
	require.NoError(t, os.RemoveAll(in("theirs")))

	// Those of the user are none, nor is a file of the directory's owner.
	require.NoError(t, os.Remove(in("hard")))
	require.NoError(t, os.Lchown(in("link"), 0, 0))
	require.NoError(t, write(in("link"), "new"))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	require.NoError(t, write(in("regular"), "newer"))
	require.NoError(t, os.Chown(dir, 0, 0))
	requireFile(t, victim, "new", 0o644)
}

// Nobody may read a private text while it is written.
func TestTemporaryFileIsPrivate(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old", 0o600)
	require.NoError(t, Write(context.Background(), path, func(w io.Writer) error {
		temporary, err := filepath.Glob(filepath.Join(dir, TemporaryFiles))
		require.NoError(t, err)
		require.Len(t, temporary, 1)
		requireFile(t, temporary[0], "", 0o600)
		return text("new")(w)
	}))
}

// A container often has a single file of its host, which no other can replace.
func TestMountedFile(t *testing.T) {
	dir := t.TempDir()
	path, source := put(t, filepath.Join(dir, "file"), "", 0o600),
		put(t, filepath.Join(t.TempDir(), "source"), "old", 0o640)
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting a file: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(path, 0)) })
	require.NoError(t, write(path, "new"))
	requireFile(t, source, "new", 0o640)
	requireOnly(t, dir, "file")
}

// A file that takes the place of the one that was looked at is not written.
func TestSwappedFiles(t *testing.T) {
	dir := t.TempDir()
	victim := put(t, filepath.Join(dir, "victim"), "precious", 0o600)
	path := filepath.Join(dir, "file")
	put(t, path, "old", 0o600)
	require.NoError(t, os.Link(path, filepath.Join(dir, "other"))) // so it is written in place
	swap := func(by func() error) error {
		found, err := find(path)
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
		require.NoError(t, by())
		defer found.close()
		return found.replace(0, text("new"))
	}
	require.EqualError(t, swap(func() error { return os.Symlink(victim, path) }), "write "+path+
		": too many levels of symbolic links")
	requireFile(t, victim, "precious", 0o600)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Link(filepath.Join(dir, "other"), path))
	require.EqualError(t, swap(func() error { return os.Link(victim, path) }), "write "+path+
		": it was replaced meanwhile")
	requireFile(t, victim, "precious", 0o600)

	fifo := pipe(t)
	found, err := find(fifo)
	require.NoError(t, err)
	defer found.close()
	require.NoError(t, os.Remove(fifo))
	require.NoError(t, os.Symlink(victim, fifo))
	require.ErrorIs(t, found.direct(context.Background(), text("new")), unix.ELOOP)
	requireFile(t, victim, "precious", 0o600)
}

// A user who may write a directory can link any file there if fs.protected_hardlinks is off.
func TestHardLinkInTheDirectoryOfAGroup(t *testing.T) {
	needRoot(t)
	dir := sharedDir(t, 0o2775)
	require.NoError(t, os.Chown(dir, 0, nobody))
	victim := put(t, filepath.Join(t.TempDir(), "file"), "old", 0o600)
	path := filepath.Join(dir, "hard")
	require.NoError(t, os.Link(victim, path))
	require.EqualError(t, write(path, "new"), "write "+path+": "+path+
		" has 2 hard links and is in a directory that others may write; name another file")
	requireFile(t, victim, "old", 0o600)

	require.NoError(t, os.Remove(path))
	put(t, path, "old", 0o664)
	require.NoError(t, os.Chown(path, nobody, nobody))
	require.NoError(t, write(path, "new"), "the members of the group share their files")
}

// A user who has a directory can put another one in its place at any moment.
func TestSwappedDirectories(t *testing.T) {
	needRoot(t)
	theirs, victims := sharedDir(t, 0o777), t.TempDir()
	victim := put(t, filepath.Join(victims, "file"), "old", 0o644)
	one, other := filepath.Join(theirs, "one"), filepath.Join(theirs, "other")
	require.NoError(t, os.Mkdir(one, 0o755))
	require.NoError(t, os.Symlink(victims, other))
	for _, path := range []string{one, other, theirs} {
		require.NoError(t, os.Lchown(path, nobody, nobody))
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other,
					unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	wrote, refused := 0, 0
	for wrote < 100 || refused < 100 {
		err := write(filepath.Join(one, "file"), "new")
		if err == nil {
			wrote++
			err = Create(filepath.Join(one, "new"), text("new"))
		}
		if err == nil {
			err = MakeDir(filepath.Join(one, "sub", "directory"))
		}
		if err != nil {
			refused++
		}
	}
	close(stop)
	swapping.Wait()
	requireFile(t, victim, "old", 0o644)
	requireOnly(t, victims, "file")
}

func TestAccessControlListStays(t *testing.T) {
	needRoot(t)
	path := put(t, filepath.Join(t.TempDir(), "file"), "old", 0o640)
	grant(t, path, nobody)
	before := make([]byte, 100)
	n, err := unix.Getxattr(path, aclName, before)
	require.NoError(t, err)
	require.NoError(t, write(path, "new"))
	after := make([]byte, 100)
	m, err := unix.Getxattr(path, aclName, after)
	require.NoError(t, err)
	require.Equal(t, before[:n], after[:m])
	require.Equal(t, "new", func() string { got, _ := os.ReadFile(path); return string(got) }())
}

func TestNoDescriptorIsLeft(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "old", 0o600)
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := count()
	for range 10 {
		for _, path := range []string{file, file + "/", dir, dir + "/link/link/file", dir + "/loop",
			dir + "/none/more", dir + "/new", "/"} {
			_ = write(path, "new")
			_ = Replace(path, text("new"))
			_ = Create(path, text("new"))
			_ = Try(path, 1)
			_ = CheckExposed(path)
			_ = MakeDir(path)
		}
	}
	// The collector closes what was forgotten, but not before it runs.
	require.InDelta(t, before, count(), 5)
}
