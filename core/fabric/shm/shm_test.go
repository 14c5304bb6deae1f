package shm

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSegmentIsShared(t *testing.T) {
	for _, backing := range []Backing{Memfd, Named} {
		t.Run(string(backing), func(t *testing.T) {
			mine, err := Create("shmtest", 8192, backing)
			require.NoError(t, err)
			theirs, err := Open(mine.Ref())
			require.NoError(t, err)
			require.Len(t, theirs.Bytes(), 8192)
			Word64(mine.Bytes(), 4096).Store(42)
			require.EqualValues(t, 42, Word64(theirs.Bytes(), 4096).Load())

			// The memory stays after its name is gone.
			require.NoError(t, mine.Unlink())
			require.NoError(t, mine.Unlink())
			Word64(theirs.Bytes(), 8).Store(7)
			require.EqualValues(t, 7, Word64(mine.Bytes(), 8).Load())

			require.NoError(t, mine.Close())
			require.NoError(t, mine.Close())
			_, err = Open(mine.Ref())
			require.Error(t, err)
			require.NoError(t, theirs.Close())
		})
	}
	left, err := filepath.Glob(filepath.Join(NamedDir, "shmtest-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSealedAgainstResizing(t *testing.T) {
	s, err := Create("shmtest", 4096, Memfd)
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, unix.Ftruncate(s.fd, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(s.fd, 8192), unix.EPERM)
}

func TestOpenRefuses(t *testing.T) {
	s, err := Create("shmtest", 4096, Memfd)
	require.NoError(t, err)
	defer s.Close()
	short := s.Ref()
	short.Size = 8192
	for name, ref := range map[string]Ref{
		"wrong size":        short,
		"no such process":   {PID: 1 << 22, FD: 3, Size: 4096},
		"no such name":      {Name: "transportbench-no-such", Size: 4096},
		"path out":          {Name: "../tmp/x", Size: 4096},
		"hidden name":       {Name: "..", Size: 4096},
		"a terminal":        {PID: os.Getpid(), FD: 0, Size: 4096},
		"zero size":         {PID: os.Getpid(), FD: s.fd},
		"another backing":   {Name: "", PID: 0, FD: 0, Size: 4096},
		"directory as name": {Name: ".", Size: 4096},
	} {
		_, err := Open(ref)
		require.Error(t, err, name)
	}
	_, err = Create("shmtest", 4096, "paper")
	require.ErrorContains(t, err, "paper")
}

// Named segments are made in the directory of EnvDir, which is below /dev/shm.
func TestDir(t *testing.T) {
	dir, err := os.MkdirTemp(NamedDir, "shmtest-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for value, want := range map[string]string{
		dir: dir, "": NamedDir, NamedDir: NamedDir, "/tmp": NamedDir,
		NamedDir + "/../tmp": NamedDir, "x": NamedDir,
	} {
		t.Setenv(EnvDir, value)
		require.Equal(t, want, Dir(), value)
	}
	t.Setenv(EnvDir, dir)
	mine, err := Create("shmtest", 4096, Named)
	require.NoError(t, err)
	defer mine.Close()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	t.Setenv(EnvDir, "")
	theirs, err := Open(mine.Ref())
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	require.NoError(t, mine.Unlink())
}

func TestHasRoom(t *testing.T) {
	require.True(t, HasRoom(0))
	require.False(t, HasRoom(math.MaxUint64))
}

func TestNamedTakesItsMemoryAtOnce(t *testing.T) {
	var stat unix.Statfs_t
	require.NoError(t, unix.Statfs(NamedDir, &stat))
	if stat.Blocks == 0 {
		t.Skipf("%s has no size limit here, so it cannot be full", NamedDir)
	}
	_, err := Create("shmtest", int(stat.Blocks+1)*int(stat.Bsize), Named)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "no room")
	left, err := filepath.Glob(filepath.Join(NamedDir, "shmtest-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWordsAreAligned(t *testing.T) {
	memory := make([]byte, 64)
	require.Panics(t, func() { Word64(memory, 4+1) })
	require.Panics(t, func() { Word32(memory, 62) })
	require.NotPanics(t, func() { Word32(memory, 60).Store(1) })
}

func TestFutex(t *testing.T) {
	var word atomic.Uint32
	FutexWait(&word, 1, time.Hour) // returns at once: the word does not hold 1

	before := time.Now()
	FutexWait(&word, 0, 5*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(before), 4*time.Millisecond)

	woken := make(chan struct{})
	go func() {
		for word.Load() == 0 {
			FutexWait(&word, 0, time.Minute)
		}
		close(woken)
	}()
	word.Store(1)
	for {
		FutexWake(&word)
		select {
		case <-woken:
			return
		default:
		}
	}
}

func TestPopulate(t *testing.T) {
	oldKernel := func([]byte, int) error { return unix.EINVAL }
	full := func([]byte, int) error { return unix.ENOMEM }
	const pages = 1024
	page := os.Getpagesize()
	for name, madvise := range map[string]func([]byte, int) error{"madvise": unix.Madvise,
		"touch": oldKernel} {
		t.Run(name, func(t *testing.T) {
			mine, err := Create("shmtest", pages*page-3, Memfd)
			require.NoError(t, err)
			defer mine.Close()
			theirs, err := Open(mine.Ref())
			require.NoError(t, err)
			defer theirs.Close()
			mine.Bytes()[page] = 7
			require.False(t, theirs.HasMemory())
			require.Greater(t, faultsOf(t, theirs.Bytes()[:pages/2*page]), pages/4)

			require.NoError(t, populate(mine.Bytes(), madvise))
			require.True(t, theirs.HasMemory())
			require.Less(t, faultsOf(t, mine.Bytes()), pages/8)
			require.EqualValues(t, 7+2, mine.Bytes()[page], "Populate changed a byte")
		})
	}
	require.EqualError(t, populate(make([]byte, 8), full),
		"populating 8 bytes of memory: madvise: cannot allocate memory")
}

// faultsOf adds 1 to a byte of every page and returns how many page faults that took.
func faultsOf(t *testing.T, memory []byte) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i]++
	}
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
	return int(after.Minflt - before.Minflt)
}

// A prefetch is a hint: it needs no memory behind it, and changes none.
func TestPrefetch(t *testing.T) {
	Prefetch(nil)
	b := bytes.Repeat([]byte{7}, 1000)
	for from := range 70 {
		Prefetch(b[from:from])
		Prefetch(b[from:])
	}
	require.Equal(t, bytes.Repeat([]byte{7}, 1000), b)
}

// A file of another user may stand where a peer's was, if others may write to /dev/shm's
// directories.
func TestSegmentOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	s, err := Create("transportbench-test", 4096, Named)
	require.NoError(t, err)
	defer s.Close()
	defer func() { require.NoError(t, s.Unlink()) }()
	again, err := Open(s.Ref())
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.NoError(t, os.Chown(filepath.Join(NamedDir, s.Ref().Name), 65534, 65534))
	_, err = Open(s.Ref())
	require.ErrorContains(t, err, "the file belongs to another user")
}
