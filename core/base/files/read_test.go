package files

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"", "a", "12345678"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		for _, read := range []func(string, int64) ([]byte, error){Read, ReadArgument} {
			text, err := read(path, 8)
			require.NoError(t, err)
			require.Equal(t, content, string(text))
		}
	}
	const limit = 1 << 20
	require.NoError(t, os.Truncate(path, limit+1))
	_, err := Read(path, limit)
	require.EqualError(t, err, "it has more than 1 MiB, the limit for such a file")
	_, err = Read(path+"x", limit)
	require.Equal(t, unix.ENOENT, err, "the caller names the file")

	// The kernel's files say that they are empty.
	text, err := Read("/proc/self/status", limit)
	require.NoError(t, err)
	require.Contains(t, string(text), "VmHWM")
}

// What gzip has compressed is read under its own name and under that of the file that it replaces.
func TestPacked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.Equal(t, path, Packed(path), "there is none")
	pack := func(text []byte) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.NoError(t, os.WriteFile(path+".gz", packed.Bytes(), 0o600))
	}
	pack([]byte("12345678"))
	require.Equal(t, path+".gz", Packed(path))
	text, err := Read(Packed(path), 100)
	require.NoError(t, err)
	require.Equal(t, "12345678", string(text))

	pack(make([]byte, 64<<20))
	_, err = Read(path+".gz", 1<<20)
	require.EqualError(t, err, "it has more than 1 MiB, the limit for such a file")
	require.NoError(t, os.Truncate(path+".gz", 100))
	_, err = Read(path+".gz", 100<<20)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, os.WriteFile(path+".gz", []byte("text"), 0o600))
	_, err = Read(path+".gz", 100)
	require.ErrorContains(t, err, "its name ends in .gz: ")

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.Equal(t, path, Packed(path), "both exist")
}

func TestReadRefusesSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, zero, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero"),
		filepath.Join(dir, "socket")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink("/dev/zero", zero))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: socket}))
	for path, problem := range map[string]string{
		pipe: "it is a pipe, not a regular file", zero: "it is a device, not a regular file",
		dir: unix.EISDIR.Error(), socket: unix.ENXIO.Error(),
	} {
		_, err := Read(path, 1<<20)
		require.EqualError(t, err, problem)
	}
	_, err = ReadArgument(dir, 1<<20)
	require.Equal(t, unix.EISDIR, err)
	_, err = ReadArgument(zero, 1<<20)
	require.EqualError(t, err, "it has more than 1 MiB, the limit for such a file")
}

func TestReadArgumentReadsPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	written := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
		if err == nil {
			if _, err = w.WriteString("one "); err == nil {
				_, err = w.WriteString("two")
			}
			_ = w.Close()
		}
		written <- err
	}()
	text, err := ReadArgument(path, 1<<20)
	require.NoError(t, err)
	require.Equal(t, "one two", string(text))
	require.NoError(t, <-written)
	_, err = ReadArgument(path, 1<<20)
	require.EqualError(t, err, "it is a pipe to which no process writes")
}
