package tcpx

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pair makes two endpoints for a test; the second can receive size bytes.
func pair(tb testing.TB, options map[string]string, size int) (a, b *endpoint) {
	tb.Helper()
	a, b, err := newEndpoints(testSettings(tb, options), max(powerOfTwo(size), ringUnit))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, a.close())
		require.NoError(tb, b.close())
		require.Len(tb, b.unpacks.idle, unpackSlots, "slots of the unpacker that came back")
		if p, ok := b.intake.(*pool); ok {
			require.Len(tb, p.free, cap(p.free), "bounce pages that came back")
			require.Equal(tb, cap(p.free), p.unclaimed, "bounce pages that nobody claims")
		}
	})
	return a, b
}

// limit bounds every wait of these tests.
const limit = 30 * time.Second

// eventually calls step until done.
func eventually(tb testing.TB, what string, step func() bool) {
	tb.Helper()
	for start := time.Now(); !step(); {
		if time.Since(start) > limit {
			require.FailNow(tb, "waited in vain", "for %s", what)
		}
	}
}

// random is bytes that differ everywhere.
func random(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

// exchange sends data as one request and returns what arrived.
func exchange(t *testing.T, a, b *endpoint, data []byte) []byte {
	t.Helper()
	r, err := b.comm.irecv(b.destination.slice(0, b.comm.settings.request), 5)
	require.NoError(t, err)
	s, err := a.comm.isend(vector{data}, 5)
	require.NoError(t, err)
	size := 0
	eventually(t, "the request to arrive", func() bool {
		_, err := a.comm.testSend(s)
		if err != errAlreadyConsumed {
			require.NoError(t, err)
		}
		var done bool
		done, size, err = b.comm.testReceive(r)
		require.NoError(t, err)
		return done && b.comm.consumed(r) == nil
	})
	eventually(t, "the acknowledgement", func() bool {
		require.NoError(t, b.comm.progress())
		_, err := a.comm.testSend(s)
		return err == errAlreadyConsumed
	})
	return b.destination.host[:size]
}

func TestSeventeenthPostFails(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	for i := range uint64(requests) {
		_, err := a.comm.isend(vector{make([]byte, 8)}, i)
		require.NoError(t, err)
		_, err = b.comm.irecv(b.destination.slice(0, 8), i)
		require.NoError(t, err)
	}
	_, err := a.comm.isend(vector{make([]byte, 8)}, requests)
	require.ErrorIs(t, err, errNoFreeRequest)
	_, err = b.comm.irecv(b.destination.slice(0, 8), requests)
	require.ErrorIs(t, err, errNoFreeRequest)

	// Those that are done but not consumed count, too.
	for i := range uint64(requests) {
		eventually(t, "a receive", func() bool {
			require.NoError(t, a.comm.progress())
			done, _, err := b.comm.testReceive(i)
			require.NoError(t, err)
			return done
		})
	}
	_, err = b.comm.irecv(b.destination.slice(0, 8), requests)
	require.ErrorIs(t, err, errNoFreeRequest)
	require.NoError(t, b.comm.consumed(0))
	_, err = b.comm.irecv(b.destination.slice(0, 8), requests)
	require.NoError(t, err)
}

func TestOldestOnly(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	for i := range uint64(3) {
		_, err := b.comm.irecv(b.destination.slice(0, 64), i)
		require.NoError(t, err)
		_, err = a.comm.isend(vector{make([]byte, 64)}, i)
		require.NoError(t, err)
	}
	_, err := a.comm.testSend(1)
	require.ErrorIs(t, err, errNotOldest)
	_, _, err = b.comm.testReceive(1)
	require.ErrorIs(t, err, errNotOldest)
	require.ErrorIs(t, b.comm.consumed(0), errNotArrived)
	eventually(t, "the first receive", func() bool {
		require.NoError(t, a.comm.progress())
		done, _, err := b.comm.testReceive(0)
		require.NoError(t, err)
		return done
	})
	done, size, err := b.comm.testReceive(0)
	require.NoError(t, err, "asked again")
	require.True(t, done)
	require.Equal(t, 64, size)
	require.ErrorIs(t, b.comm.consumed(1), errNotOldest)
	require.NoError(t, b.comm.consumed(0))
	require.ErrorIs(t, b.comm.consumed(0), errAlreadyConsumed)
	_, _, err = b.comm.testReceive(0)
	require.ErrorIs(t, err, errAlreadyConsumed)
	eventually(t, "the first send", func() bool {
		require.NoError(t, b.comm.progress())
		done, err := a.comm.testSend(0)
		require.NoError(t, err)
		return done
	})
	_, err = a.comm.testSend(0)
	require.ErrorIs(t, err, errAlreadyConsumed)
	_, err = a.comm.testSend(77)
	require.ErrorIs(t, err, errNotOldest)
}

// TestMismatch: what the two sides do not agree on ends the comm on both, with the
// same error.
func TestMismatch(t *testing.T) {
	for name, c := range map[string]struct {
		sendTag uint64
		size    int
		want    error
	}{
		"tag":       {8, 64, errTagMismatch},
		"truncated": {7, 65, errTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, nil, 1<<20)
			_, err := b.comm.irecv(b.destination.slice(0, 64), 7)
			require.NoError(t, err)
			_, err = a.comm.isend(vector{make([]byte, c.size)}, c.sendTag)
			require.NoError(t, err)
			var sendErr, receiveErr error
			eventually(t, "both errors", func() bool {
				if sendErr == nil {
					_, sendErr = a.comm.testSend(0)
				}
				if receiveErr == nil {
					_, _, receiveErr = b.comm.testReceive(0)
				}
				return sendErr != nil && receiveErr != nil
			})
			require.ErrorIs(t, sendErr, c.want)
			require.ErrorIs(t, receiveErr, c.want)
			_, err = a.comm.isend(vector{}, 9)
			require.ErrorIs(t, err, c.want, "the comm is over")
			require.Zero(t, a.counts.sentBytes, "bytes sent")
		})
	}
}

func TestTooLargeWhenPosted(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "4KiB", "request": "8KiB"}, 1<<20)
	_, err := a.comm.isend(vector{make([]byte, 8<<10), make([]byte, 1)}, 1)
	require.ErrorIs(t, err, errRequestSize)
	_, err = b.comm.irecv(b.destination.slice(0, 8<<10+1), 1)
	require.ErrorIs(t, err, errRequestSize)
}

// TestNothingIsSentWithoutCredit: the receiver's announcement is what lets go.
func TestNothingIsSentWithoutCredit(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	_, err := a.comm.isend(vector{random(1, 1000)}, 1)
	require.NoError(t, err)
	for range 1000 {
		require.NoError(t, a.comm.progress())
		require.NoError(t, b.comm.progress())
	}
	require.Zero(t, a.counts.sentBytes)
	require.Equal(t, posted, a.comm.sends[0].state)
	require.Positive(t, a.counts.spent.by[causeCredit], "time that waited for credit")
	_, err = b.comm.irecv(b.destination.slice(0, 1000), 1)
	require.NoError(t, err)
	eventually(t, "the bytes", func() bool {
		require.NoError(t, a.comm.progress())
		require.NoError(t, b.comm.progress())
		return b.comm.receiveComplete == 1
	})
}

// TestPatience: a receiver that takes nothing in for longer than the timeout is not lost,
// though its sockets are full.
func TestPatience(t *testing.T) {
	a, b := pair(t, map[string]string{"timeout": "200ms", "socket-buffer": "64KiB"}, 4<<20)
	data := random(8, 512<<10)
	for i := range uint64(4) {
		_, err := b.comm.irecv(b.destination.slice(int(i)*len(data), len(data)), i)
		require.NoError(t, err)
		_, err = a.comm.isend(vector{data}, i)
		require.NoError(t, err)
	}
	eventually(t, "the credits", func() bool {
		require.NoError(t, b.comm.progress())
		require.NoError(t, a.comm.progress())
		return a.counts.sentBytes > 0
	})
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; time.Sleep(time.Millisecond) {
		require.NoError(t, a.comm.progress())
	}
	require.Less(t, a.counts.sentBytes, uint64(4*len(data)))
	eventually(t, "all bytes", func() bool {
		require.NoError(t, a.comm.progress())
		require.NoError(t, b.comm.progress())
		return b.comm.receiveComplete == 4
	})
}

// sizes are those at which something begins or ends.
func sizes(request int) []int {
	list := []int{0, 1, 15, 16, 17, 4095, 4096, 4097, 8191, 8192, 8193, 65535, 65537}
	for _, size := range []int{request/2 - 1, request/2 + 1, request - 4097, request - 1, request} {
		list = append(list, max(size, 0))
	}
	return list
}

// TestSizes sends requests of all sizes that matter, over one and several sockets, in
// one chunk and in many, from memory at any alignment.
func TestSizes(t *testing.T) {
	for _, options := range []map[string]string{
		{},
		{"sockets": "4", "chunk": "4KiB", "request": "512KiB"},
		{"sockets": "3", "chunk": "16KiB", "request": "1MiB", "striping": "least-loaded", "unpack-workers": "3"},
		{"chunk": "64KiB", "zero-copy": "on", "sockets": "2"},
		{"chunk": "4KiB", "request": "512KiB", "sockets": "3", "threads": "1"},
		{"chunk": "64KiB", "request": "256KiB", "sockets": "4", "threads": "4", "zero-copy": "on", "unpack-workers": "1"},
	} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			a, b := pair(t, options, 2<<20)
			data := random(3, a.comm.settings.request+64)
			for i, size := range sizes(a.comm.settings.request) {
				if size > a.comm.settings.request {
					continue
				}
				part := data[i*5%61:][:size]
				require.True(t, bytes.Equal(part, exchange(t, a, b, part)), "a request of %d bytes", size)
			}
		})
	}
}

// TestTwoPieces sends a request whose source is two stretches of memory.
func TestTwoPieces(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "4KiB", "request": "64KiB", "sockets": "2"}, 1<<20)
	data := random(4, 64<<10)
	for _, first := range []int{0, 1, 4095, 4096, 10000, len(data)} {
		_, err := b.comm.irecv(b.destination.slice(0, len(data)), 1)
		require.NoError(t, err)
		_, err = a.comm.isend(vector{data[:first], data[first:]}, 1)
		require.NoError(t, err)
		eventually(t, "the request", func() bool {
			require.NoError(t, a.comm.progress())
			_, _, err := b.comm.testReceive(b.comm.receiveConsumed)
			require.NoError(t, err)
			return b.comm.consumed(b.comm.receiveConsumed) == nil
		})
		require.True(t, bytes.Equal(data, b.destination.host[:len(data)]), "split at %d", first)
		eventually(t, "the acknowledgement", func() bool {
			done, err := a.comm.testSend(a.comm.sendFreed)
			require.NoError(t, err)
			return done
		})
	}
}

// TestStriping: every socket carries its part, whatever the policy.
func TestStriping(t *testing.T) {
	for _, striping := range []string{stripeRoundRobin, stripeLeastLoaded} {
		t.Run(striping, func(t *testing.T) {
			a, b := pair(t, map[string]string{"chunk": "16KiB", "request": "512KiB", "sockets": "4", "striping": striping}, 1<<20)
			data := random(5, 512<<10)
			require.True(t, bytes.Equal(data, exchange(t, a, b, data)))
			total := 0
			for i := range a.comm.lanes {
				sent := int(a.comm.lanes[i].position)
				require.Positive(t, sent, "bytes over socket %d", i)
				if striping == stripeRoundRobin {
					require.Equal(t, len(data)/4, sent, "bytes over socket %d", i)
				}
				total += sent
			}
			require.Equal(t, len(data), total)
		})
	}
}

// TestLeastLoaded: a socket that takes nothing gets no more chunks than it has slots
// for, and all the others go elsewhere.
func TestLeastLoaded(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "4KiB", "request": "64KiB", "sockets": "2", "striping": "least-loaded"}, 1<<20)
	a.comm.lanes[0].queued = 1 << 20
	require.Equal(t, 1, a.comm.choose())
	a.comm.lanes[1].count = laneTasks
	require.Equal(t, 0, a.comm.choose(), "the other has no task slot")
	a.comm.lanes[0].count = laneTasks
	require.Equal(t, -1, a.comm.choose())
	a.comm.lanes[0] = lane{wire: a.comm.lanes[0].wire, expected: a.comm.lanes[0].expected}
	a.comm.lanes[1].count = 0
	_ = b
}

// TestKilledDataSocket: a data socket that dies in the middle of a transfer ends it on
// both sides, and nothing is kept; see the checks of pair.
func TestKilledDataSocket(t *testing.T) {
	for name, threads := range map[string]string{"sender": "0", "receiver": "0", "sender with helpers": "2", "receiver with helpers": "1"} {
		side, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, map[string]string{"sockets": "2", "threads": threads, "unpack-workers": "1"}, 8<<20)
			data := random(6, 512<<10)
			for i := range uint64(requests) {
				_, err := b.comm.irecv(b.destination.slice(int(i)*len(data), len(data)), i)
				require.NoError(t, err)
				_, err = a.comm.isend(vector{data}, i)
				require.NoError(t, err)
			}
			eventually(t, "bytes to arrive", func() bool {
				require.NoError(t, a.comm.progress())
				require.NoError(t, b.comm.progress())
				return b.counts.receivedBytes > 1<<20
			})
			victim := map[string]*endpoint{"sender": a, "receiver": b}[side].comm.lanes[1].fd
			require.NoError(t, unix.Shutdown(victim, unix.SHUT_RDWR))
			var errs [2]error
			eventually(t, "both errors", func() bool {
				if errs[0] == nil {
					errs[0] = a.comm.progress()
				}
				if errs[1] == nil {
					errs[1] = b.comm.progress()
				}
				if errs[0] != nil { // what the owner of a comm does then
					require.NoError(t, a.comm.shut())
				}
				if errs[1] != nil {
					require.NoError(t, b.comm.shut())
				}
				return errs[0] != nil && errs[1] != nil
			})
			for b.counts.consumes < uint64(requests) {
				if err := b.comm.consumed(b.comm.receiveConsumed); err != nil {
					break
				}
			}
		})
	}
}
