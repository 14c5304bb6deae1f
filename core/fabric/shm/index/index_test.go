package index

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/shm"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		child(text)
		return
	}
	os.Exit(m.Run())
}

func name(i int) string { return fmt.Sprintf("block/%d", i) }

// newIndex returns an index on the heap, where the race detector sees it.
func newIndex(t *testing.T, names int) (*Index, []byte) {
	memory := make([]byte, Bytes(names))
	x, err := New(memory, names)
	require.NoError(t, err)
	return x, memory
}

func TestIndex(t *testing.T) {
	const n = 1000
	x, memory := newIndex(t, n)
	for i := range n {
		require.NoError(t, x.Put(name(i), uint64(i)))
	}
	for i := range n {
		if i%3 == 0 {
			require.True(t, x.Delete(name(i)))
			require.False(t, x.Delete(name(i)))
		} else if i%3 == 1 {
			require.NoError(t, x.Put(name(i), uint64(i)+n))
		}
	}
	reader, err := New(memory, n)
	require.NoError(t, err)
	for i := range 2 * n {
		value, ok := reader.Get(name(i))
		switch {
		case i >= n || i%3 == 0:
			require.False(t, ok, name(i))
		case i%3 == 1:
			require.Equal(t, uint64(i)+n, value)
		default:
			require.Equal(t, uint64(i), value)
		}
	}
}

func TestNames(t *testing.T) {
	x, _ := newIndex(t, 4)
	long := strings.Repeat("x", MaxName)
	require.NoError(t, x.Put(long, 1))
	_, ok := x.Get(long[1:])
	require.False(t, ok)
	_, ok = x.Get(long)
	require.True(t, ok)
	for _, wrong := range []string{"", long + "x"} {
		require.ErrorIs(t, x.Put(wrong, 1), ErrName)
		require.False(t, x.Delete(wrong))
		_, ok := x.Get(wrong)
		require.False(t, ok)
	}
}

// Names that come and go do not fill an index.
func TestChurn(t *testing.T) {
	x, _ := newIndex(t, 8)
	for i := range 10000 {
		require.NoError(t, x.Put(name(i), uint64(i)))
		if i >= 8 {
			require.True(t, x.Delete(name(i-8)))
		}
		value, ok := x.Get(name(max(i-3, 0)))
		require.True(t, ok)
		require.EqualValues(t, max(i-3, 0), value)
	}
}

func TestFull(t *testing.T) {
	x, memory := newIndex(t, 4)
	n := 0
	var err error
	for ; err == nil; n++ {
		err = x.Put(name(n), 0)
	}
	require.ErrorIs(t, err, ErrFull)
	require.Greater(t, n, 4)
	_, ok := x.Get("absent")
	require.False(t, ok, "a search ends")
	require.True(t, x.Delete(name(0)))
	require.NoError(t, x.Put("another", 1), "in place of the deleted one")
	again, err := New(memory, 4)
	require.NoError(t, err)
	require.ErrorIs(t, again.Put("more", 1), ErrFull, "a new writer counts what is there")
	_, err = New(memory[:64], 4)
	require.ErrorContains(t, err, "want at least")
}

// Readers never see the value of another name, whatever the writer does to the entries.
func TestReadersDuringWrites(t *testing.T) {
	const names, rounds = 8, 3000
	x, memory := newIndex(t, names)
	var done atomic.Bool
	var reading sync.WaitGroup
	for range 3 {
		reader, err := New(memory, names)
		require.NoError(t, err)
		reading.Go(func() {
			for i := 0; !done.Load(); i++ {
				if value, ok := reader.Get(name(i % (3 * names))); ok &&
					value%(3*names) != uint64(i%(3*names)) {
					t.Errorf("%s has the value %d", name(i%(3*names)), value)
					return
				}
			}
		})
	}
	for i := range rounds {
		k := i % (3 * names)
		require.NoError(t, x.Put(name(k), uint64(k+3*names*i)))
		if i >= names {
			require.True(t, x.Delete(name((i-names)%(3*names))))
		}
	}
	done.Store(true)
	reading.Wait()
}

const childVariable = "INDEX_TEST_CHILD"

// child writes names with values that follow from them, until it is killed.
func child(text string) {
	var ref shm.Ref
	if err := json.Unmarshal([]byte(text), &ref); err != nil {
		panic(err)
	}
	s, err := shm.Open(ref)
	if err != nil {
		panic(err)
	}
	x, err := New(s.Bytes(), 64)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		if err := x.Put(name(i%64), uint64(i%64)); err != nil {
			panic(err)
		}
		x.Delete(name((i + 32) % 64))
	}
}

// A writer that is killed at any moment leaves an index in which every name that is there has its
// value, and another writer goes on.
func TestKilledWriters(t *testing.T) {
	s, err := shm.Create("index-test", Bytes(64), shm.Memfd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	text, err := json.Marshal(s.Ref())
	require.NoError(t, err)
	for range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+string(text))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, len("ready\n")))
		require.NoError(t, err)
		reader, err := New(s.Bytes(), 64)
		require.NoError(t, err)
		for i := range 5000 {
			if value, ok := reader.Get(name(i % 64)); ok {
				require.EqualValues(t, i%64, value)
			}
		}
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.Equal(t, -1, cmd.ProcessState.ExitCode(),
			"it was killed, and ended by nothing else")
		for i := range 64 {
			if value, ok := reader.Get(name(i)); ok {
				require.EqualValues(t, i, value)
			}
		}
	}
	x, err := New(s.Bytes(), 64)
	require.NoError(t, err)
	for i := range 64 {
		require.NoError(t, x.Put(name(i), uint64(i)))
	}
	for i := range 64 {
		value, ok := x.Get(name(i))
		require.True(t, ok)
		require.EqualValues(t, i, value)
	}
}
