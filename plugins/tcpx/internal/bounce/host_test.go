package bounce

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/doublemap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// random returns random bytes.
func random(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b) // it returns no error
	return b
}

// eventually calls step until it returns true.
func eventually(t *testing.T, what string, step func() bool) {
	t.Helper()
	for start := time.Now(); !step(); {
		if time.Since(start) > 30*time.Second {
			require.FailNow(t, "timeout", "waiting for %s", what)
		}
	}
}

// TestUnpackAlignments: copies between all 256 pairs of alignments to 16 bytes are right, and
// nothing else is written.
func TestUnpackAlignments(t *testing.T) {
	for _, length := range []int{0, 1, 15, 16, 17, 4095, 4096} {
		bounce := random(uint64(length), 2*PageSize)
		for from := range 16 {
			for to := range 16 {
				destination := bytes.Repeat([]byte{0xEE}, length+48)
				unpack(destination, bounce,
					[]Fragment{{Source: uint32(from), Length: uint32(length),
						Destination: uint32(16 + to)}})
				want := bytes.Repeat([]byte{0xEE}, length+48)
				copy(want[16+to:], bounce[from:from+length])
				require.True(t, bytes.Equal(want, destination), "%d bytes from %d to %d", length,
					from, to)
			}
		}
	}
}

// TestUnpackWorkers: workers copy requests in all slots, also after they slept, and Close waits
// for what was launched.
func TestUnpackWorkers(t *testing.T) {
	for _, workers := range []int{1, 3, UnpackSlots} {
		u := NewHost(workers)
		bounce, err := doublemap.New("transportbench-tcpx-test", UnpackSlots*PageSize)
		require.NoError(t, err)
		bounce = bounce[:UnpackSlots*PageSize]
		copy(bounce, random(uint64(workers), len(bounce)))
		require.ErrorIs(t, u.Register(bounce[1:]), errMisaligned)
		require.NoError(t, u.Register(bounce))
		destination := make([]byte, len(bounce))
		for round := range 3 {
			clear(destination)
			for slot := range UnpackSlots {
				at := slot * PageSize
				require.NoError(t, u.Launch(slot,
					[]Fragment{{Source: uint32(at), Length: PageSize}},
					Buffer{Host: destination[at:], Size: PageSize}))
			}
			for slot := range UnpackSlots {
				eventually(t, "a slot", func() bool {
					done, err := u.Done(slot)
					require.NoError(t, err)
					return done
				})
			}
			require.True(t, bytes.Equal(bounce, destination))
			if round == 1 { // let them fall asleep
				for _, c := range u.copiers {
					eventually(t, "a worker to sleep", func() bool { return c.asleep.Load() })
				}
			}
		}
		clear(destination)
		require.NoError(t, u.Launch(0, []Fragment{{Length: PageSize}},
			Buffer{Host: destination, Size: PageSize}))
		require.NoError(t, u.Close())
		require.NoError(t, u.Close())
		require.True(t, bytes.Equal(bounce[:PageSize], destination[:PageSize]),
			"launched before close")
		require.NoError(t, doublemap.Free(bounce[:2*len(bounce)]))
	}
}

// late is an unpacker that has copied a request when Done is called for the third time.
type late struct {
	*Host
	looks int
}

func (u *late) Launch(int, []Fragment, Buffer) error {
	u.looks = 0
	return nil
}

func (u *late) Done(int) (bool, error) {
	u.looks++
	return u.looks == 3, nil
}

func TestSynchronous(t *testing.T) {
	u := &late{Host: NewHost(0)}
	s := &Synchronous{Unpacker: u}
	for range 2 {
		require.NoError(t, s.Launch(5, nil, Buffer{}))
		require.Equal(t, 3, u.looks, "Launch has waited")
		for _, want := range []bool{true, false} { // the slot is free afterwards
			done, err := s.Done(5)
			require.NoError(t, err)
			require.Equal(t, want, done)
		}
		done, _ := s.Done(4)
		require.False(t, done, "another slot")
	}
	require.NoError(t, s.Close())
}

// The Launch that waits returns the unpacker's failure.
func TestSynchronousFails(t *testing.T) {
	s := &Synchronous{Unpacker: failing{}}
	require.ErrorIs(t, s.Launch(0, nil, Buffer{}), errMisaligned)
}

type failing struct{ Unpacker }

func (failing) Launch(int, []Fragment, Buffer) error { return nil }
func (failing) Done(int) (bool, error)               { return false, errMisaligned }
