package files

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// writerPatience is how long [ReadArgument] waits for a process to open a pipe for writing.
const writerPatience = 3 * time.Second

// Read returns the contents of a regular file of at most limit bytes. It looks at the type and the
// size before it reads, and never waits: a directory may contain a pipe, or a link to a device
// that never ends. A file whose name ends in .gz is decompressed, and limit also applies to its
// decompressed contents. Errors are one line and do not name the file.
func Read(path string, limit int64) ([]byte, error) {
	return read(path, limit, fs.FileMode.IsRegular)
}

// ReadArgument is Read for a file that the user named. It may also be a pipe or a terminal, as in
// diff <(ssh host cat a.json) b.json. It waits for the end of what a pipe's writer sends, but gives
// up on a pipe to which no process writes.
func ReadArgument(path string, limit int64) ([]byte, error) {
	return read(path, limit, func(mode fs.FileMode) bool {
		return mode.IsRegular() || mode&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0
	})
}

// Packed returns path, or path with .gz behind it where only that exists.
func Packed(path string) string {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path + packed); err == nil {
			return path + packed
		}
	}
	return path
}

// packed is how the name of a file ends that gzip has compressed.
const packed = ".gz"

func open(path string, limit int64, allowed func(fs.FileMode) bool) (*os.File, fs.FileInfo, error) {
	// Opening a pipe would wait for its writer, and opening a terminal could make it the process's
	// own.
	f, err := os.OpenFile(path, unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, cause(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = cause(err)
	case info.IsDir():
		err = unix.EISDIR
	case !allowed(info.Mode()):
		err = fmt.Errorf("it is %s, not a regular file", kind(info.Mode()))
	case info.Size() > limit:
		err = tooLarge(limit)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func read(path string, limit int64, allowed func(fs.FileMode) bool) ([]byte, error) {
	f, info, err := open(path, limit, allowed)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text bytes.Buffer
	// One byte more shows that the file grew, and MinRead avoids a copy at its end.
	text.Grow(int(info.Size()) + 1 + bytes.MinRead)
	expected := limit
	if info.Mode().IsRegular() {
		const growth = 1 << 20 // files in /proc report size 0
		expected = min(limit, info.Size()+growth)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		if err := awaitWriter(f, &text); err != nil {
			return nil, err
		}
	}
	if _, err := text.ReadFrom(io.LimitReader(f, expected+1)); err != nil {
		return nil, cause(err)
	}
	switch size := int64(text.Len()); {
	case size > limit:
		return nil, tooLarge(limit)
	case size > expected:
		return nil, errors.New("it grew while it was read")
	}
	if strings.HasSuffix(path, packed) {
		return unpack(&text, limit)
	}
	return text.Bytes(), nil
}

func unpack(compressed io.Reader, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, fmt.Errorf("its name ends in %s: %w", packed, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > limit:
		return nil, tooLarge(limit)
	}
	return text, nil
}

// awaitWriter waits until a process has opened the pipe for writing. It may read a first byte.
func awaitWriter(pipe *os.File, text *bytes.Buffer) error {
	connection, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var first [1]byte
	// A reader is not told that a writer has come until there is something to read, so it has to
	// ask.
	for deadline := time.Now().Add(writerPatience); time.Now().Before(deadline); time.Sleep(
		10 * time.Millisecond) {
		var n int
		var ended bool
		if controlErr := connection.Control(func(fd uintptr) {
			n, err = unix.Read(int(fd), first[:])
			state := []unix.PollFd{{Fd: int32(fd)}}
			_, _ = unix.Poll(state, 0)
			ended = state[0].Revents&unix.POLLHUP != 0 // never before a writer came
		}); controlErr != nil {
			return controlErr
		}
		switch {
		case n > 0:
			text.Write(first[:])
			return nil
		case ended, errors.Is(err, unix.EAGAIN): // the writer has nothing yet
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return errors.New("it is a pipe to which no process writes")
}

func tooLarge(limit int64) error {
	return fmt.Errorf("it has more than %d MiB, the limit for such a file", limit>>20)
}

// kind names the type of a file.
func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// cause strips the operation and the path from an error of a file system.
func cause(err error) error {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

// OpenArgument opens a file of any length that the user named: a regular file or a pipe. Errors are
// one line and do not name the file.
func OpenArgument(path string) (*os.File, error) {
	f, _, err := open(path, math.MaxInt64, func(mode fs.FileMode) bool {
		return mode.IsRegular() || mode&fs.ModeNamedPipe != 0
	})
	return f, err
}
