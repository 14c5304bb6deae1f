package conn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"transportbench/core/fabric/doublemap"
	"transportbench/core/fabric/pow2"
	"transportbench/plugins/tcpx/internal/bounce"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pair makes two sides of a bulk transfer; the second can receive size bytes.
func pair(tb testing.TB, options map[string]string, size int) (a, b *Side) {
	tb.Helper()
	a, b, err := newTestSides(tb, options, max(pow2.Ceil(size), doublemap.Unit))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, a.Close())
		require.NoError(tb, b.Close())
		for range bounce.UnpackSlots {
			_, free := b.unpacker.Take()
			require.True(tb, free, "all slots of the unpacker are free")
		}
		requireAllPages(tb, b.memory, b.config.Request)
	})
	return a, b
}

// requireAllPages takes all pages of bounce memory in the host, which must be free.
func requireAllPages(tb testing.TB, memory bounce.Allocator, request int) {
	tb.Helper()
	p, ok := memory.(*bounce.Pages)
	if !ok {
		return
	}
	pages := (Requests + 1) * request / pageSize
	require.False(tb, p.Reserve(pages+1, false))
	require.True(tb, p.Reserve(pages, false), "pages are still reserved")
	seen := map[uint32]bool{}
	for _, f := range p.TakePages(pages*pageSize, nil) {
		seen[f.Token] = true
	}
	require.Len(tb, seen, pages, "free pages")
}

// consumed consumes the oldest receive and reports whether it could.
func consumed(b *Side) bool {
	_, ok, err := b.In.Consume()
	return ok && err == nil
}

// limit bounds every wait of these tests.
const limit = 30 * time.Second

// eventually calls step until done.
func eventually(tb testing.TB, what string, step func() bool) {
	tb.Helper()
	for start := time.Now(); !step(); {
		if time.Since(start) > limit {
			require.FailNow(tb, "timeout", "waiting for %s", what)
		}
	}
}

// random returns random bytes.
func random(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

// requireOrder checks that the cursors of a connection are in order.
func requireOrder(tb testing.TB, c *Conn) {
	tb.Helper()
	in, out := &c.In, &c.Out
	require.True(tb, slices.IsSorted([]uint64{in.requests.First(), in.launched, in.reserved,
		in.begun, in.requests.Last()}), "receives")
	require.True(tb, slices.IsSorted([]uint64{out.acked(), out.assigned, out.cut, out.end}),
		"positions of the sender")
}

// exchange sends data as one request and returns what arrived.
func exchange(t *testing.T, a, b *Side, data []byte) []byte {
	t.Helper()
	require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, b.config.Request), 5))
	require.NoError(t, a.Out.PostSend(data, 5))
	size := 0
	eventually(t, "the request to arrive", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		requireOrder(t, a.Conn)
		requireOrder(t, b.Conn)
		var ok bool
		var err error
		size, ok, err = b.In.Consume()
		require.NoError(t, err)
		return ok
	})
	awaitFreed(t, a, b)
	return b.Destination.Host[:size]
}

// awaitFreed waits until the oldest send is acknowledged.
func awaitFreed(t *testing.T, a, b *Side) {
	t.Helper()
	eventually(t, "the acknowledgement", func() bool {
		require.NoError(t, b.Progress())
		require.NoError(t, a.Progress())
		return a.Out.freeOldest()
	})
}

func TestSeventeenthPostFails(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	for i := range uint64(Requests) {
		require.NoError(t, a.Out.PostSend(make([]byte, 8), i))
		require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, 8), i))
	}
	require.ErrorIs(t, a.Out.PostSend(make([]byte, 8), Requests), ErrNoFreeRequest)
	require.ErrorIs(t, b.In.PostReceive(b.Destination.Slice(0, 8), Requests), ErrNoFreeRequest)

	// Receives that have arrived and are not consumed count, too.
	eventually(t, "all receives", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		return b.In.launched == Requests
	})
	require.ErrorIs(t, b.In.PostReceive(b.Destination.Slice(0, 8), Requests), ErrNoFreeRequest)
	require.True(t, consumed(b))
	require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, 8), Requests))
}

// TestInOrder: sends are freed and receives consumed in the order of posting, each once and
// only when it is done.
func TestInOrder(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	require.False(t, a.Out.freeOldest(), "nothing is posted")
	require.False(t, consumed(b))
	for i := range uint64(3) {
		require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, 64), i))
		require.NoError(t, a.Out.PostSend(make([]byte, 60+int(i)), i))
	}
	require.False(t, a.Out.freeOldest(), "nothing is sent")
	require.False(t, consumed(b), "nothing has arrived")
	eventually(t, "the receives", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		return b.In.launched == 3
	})
	for i := range uint64(3) {
		number := b.In.Consumed()
		size, ok, err := b.In.Consume()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, i, number)
		require.Equal(t, 60+int(i), size)
	}
	require.False(t, consumed(b), "all are consumed")
	for i := range uint64(3) {
		require.Equal(t, i, a.Out.requests.First())
		awaitFreed(t, a, b)
	}
	require.False(t, a.Out.freeOldest(), "all are freed")
}

// TestMismatch: if the two sides disagree, the connection ends on both with the same error.
func TestMismatch(t *testing.T) {
	for name, c := range map[string]struct {
		sendTag uint64
		size    int
		want    error
	}{
		"tag":       {8, 64, ErrTagMismatch},
		"truncated": {7, 65, ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, nil, 1<<20)
			require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, 64), 7))
			require.NoError(t, a.Out.PostSend(make([]byte, c.size), c.sendTag))
			var sendErr, receiveErr error
			eventually(t, "both errors", func() bool {
				if sendErr == nil {
					sendErr = a.Progress()
				}
				if receiveErr == nil {
					receiveErr = b.Progress()
				}
				return sendErr != nil && receiveErr != nil
			})
			require.ErrorIs(t, sendErr, c.want)
			require.ErrorIs(t, receiveErr, c.want)
			require.ErrorIs(t, a.Out.PostSend(nil, 9), c.want, "the connection is over")
			require.Zero(t, a.Counters.SentBytes, "bytes sent")
		})
	}
}

func TestTooLargeWhenPosted(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "4KiB", "request": "8KiB"}, 1<<20)
	require.ErrorIs(t, a.Out.PostSend(make([]byte, 8<<10+1), 1), ErrRequestSize)
	require.ErrorIs(t, b.In.PostReceive(b.Destination.Slice(0, 8<<10+1), 1), ErrRequestSize)
}

// TestNothingIsSentWithoutCredit: the receiver's announcement releases the sender.
func TestNothingIsSentWithoutCredit(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	require.NoError(t, a.Out.PostSend(random(1, 1000), 1))
	for range 1000 {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
	}
	require.Zero(t, a.Counters.SentBytes)
	require.Zero(t, a.Out.chunked())
	require.Positive(t, a.Counters.time[reasonCredit], "time that waited for credit")
	require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, 1000), 1))
	eventually(t, "the bytes", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		return b.In.launched == 1
	})
}

// TestBusyReceiverIsNotLost: a receiver that reads nothing for longer than the timeout is
// not lost, although its sockets are full.
func TestBusyReceiverIsNotLost(t *testing.T) {
	a, b := pair(t, map[string]string{"timeout": "200ms", "socket-buffer": "64KiB"}, 4<<20)
	data := random(8, 512<<10)
	for i := range uint64(4) {
		require.NoError(t, b.In.PostReceive(b.Destination.Slice(int(i)*len(data), len(data)), i))
		require.NoError(t, a.Out.PostSend(data, i))
	}
	eventually(t, "the credits", func() bool {
		require.NoError(t, b.Progress())
		require.NoError(t, a.Progress())
		return a.Counters.SentBytes > 0
	})
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; time.Sleep(
		time.Millisecond) {
		require.NoError(t, a.Progress())
	}
	require.Less(t, a.Counters.SentBytes, uint64(4*len(data)))
	eventually(t, "all bytes", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		return b.In.launched == 4
	})
}

// sizes returns the sizes of requests at which something begins or ends.
func sizes(request int) []int {
	list := []int{0, 1, 15, 16, 17, 4095, 4096, 4097, 8191, 8192, 8193, 65535, 65537}
	for _, size := range []int{request/2 - 1, request/2 + 1, request - 4097, request - 1, request} {
		list = append(list, max(size, 0))
	}
	return list
}

// TestSizes sends requests of all sizes that matter, over one and several sockets, in one chunk
// and in many, from memory at various alignments.
func TestSizes(t *testing.T) {
	for _, options := range []map[string]string{
		{},
		{"sockets": "4", "chunk": "4KiB", "request": "512KiB"},
		{"sockets": "3", "chunk": "16KiB", "request": "1MiB", "striping": "least-loaded",
			"unpack-workers": "3"},
		{"chunk": "64KiB", "zero-copy": "on", "sockets": "2"},
		{"chunk": "4KiB", "request": "512KiB", "sockets": "3", "threads": "1"},
		{"chunk": "64KiB", "request": "256KiB", "sockets": "4", "threads": "4", "zero-copy": "on",
			"unpack-workers": "1"},
	} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			a, b := pair(t, options, 2<<20)
			data := random(3, a.config.Request+64)
			for i, size := range sizes(a.config.Request) {
				if size > a.config.Request {
					continue
				}
				part := data[i*5%61:][:size]
				require.True(t, bytes.Equal(part, exchange(t, a, b, part)), "a request of %d bytes",
					size)
			}
		})
	}
}

// TestLentPart sends a request whose end is in lent memory.
func TestLentPart(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "4KiB", "request": "64KiB", "sockets": "2"}, 1<<20)
	data := random(4, 64<<10)
	for _, first := range []int{0, 1, 4095, 4096, 10000, len(data)} {
		require.NoError(t, b.In.PostReceive(b.Destination.Slice(0, len(data)), 1))
		staged := make([]byte, len(data))
		copy(staged, data[:first])
		a.Out.lent = data[first:]
		require.NoError(t, a.Out.PostSend(staged, 1))
		eventually(t, "the request", func() bool {
			require.NoError(t, a.Progress())
			require.NoError(t, b.Progress())
			return consumed(b)
		})
		require.True(t, bytes.Equal(data, b.Destination.Host[:len(data)]), "lent from %d on",
			first)
		awaitFreed(t, a, b)
	}
}

// TestStriping: with each policy, every lane carries a part.
func TestStriping(t *testing.T) {
	for _, striping := range []string{stripeRoundRobin, stripeLeastLoaded} {
		t.Run(striping, func(t *testing.T) {
			a, b := pair(t, map[string]string{"chunk": "16KiB", "request": "512KiB", "sockets": "4",
				"striping": striping}, 1<<20)
			data := random(5, 512<<10)
			require.True(t, bytes.Equal(data, exchange(t, a, b, data)))
			total := 0
			for i := range a.lanes {
				sent := int(a.lanes[i].sent)
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

// TestStripingOfShortChunks: with messages of a chunk and a header, each a full chunk and a short
// one, round robin gives all lanes the same number of bytes, up to a chunk.
func TestStripingOfShortChunks(t *testing.T) {
	const chunk, header = 16 << 10, 48
	a, b := pair(t, map[string]string{"chunk": "16KiB", "sockets": "4"}, 1<<20)
	for range 16 {
		exchange(t, a, b, random(5, chunk))
		exchange(t, a, b, random(6, header))
	}
	low, high := a.lanes[0].sent, a.lanes[0].sent
	for i := range a.lanes {
		low, high = min(low, a.lanes[i].sent), max(high, a.lanes[i].sent)
	}
	require.LessOrEqual(t, high-low, uint64(chunk))
	require.Positive(t, low)
}

// TestLeastLoaded: the lane with the fewest bytes to send is chosen, and a lane without a free
// task never is.
func TestLeastLoaded(t *testing.T) {
	a, _ := pair(t, map[string]string{"chunk": "4KiB", "request": "64KiB", "sockets": "2",
		"striping": "least-loaded"}, 1<<20)
	a.lanes[0].given = 1 << 20
	require.Equal(t, 1, a.Out.chooseLane())
	fill := func(l *lane) {
		for l.tasks.Len() < laneTasks {
			l.tasks.Push()
		}
	}
	fill(&a.lanes[1])
	require.Equal(t, 0, a.Out.chooseLane(), "the other has no task slot")
	fill(&a.lanes[0])
	require.Equal(t, -1, a.Out.chooseLane())
	for i := range a.lanes { // so that nothing is sent
		for !a.lanes[i].tasks.Empty() {
			a.lanes[i].tasks.Pop()
		}
	}
}

// TestKilledDataSocket: a data socket that fails in the middle of a transfer ends the connection
// on both sides, and everything is released; pair checks that.
func TestKilledDataSocket(t *testing.T) {
	for name, threads := range map[string]string{"sender": "0", "receiver": "0",
		"sender with helpers": "2", "receiver with helpers": "1"} {
		side, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, map[string]string{"sockets": "2", "threads": threads,
				"unpack-workers": "1"}, 8<<20)
			data := random(6, 512<<10)
			for i := range uint64(Requests) {
				err := b.In.PostReceive(b.Destination.Slice(int(i)*len(data), len(data)), i)
				require.NoError(t, err)
				err = a.Out.PostSend(data, i)
				require.NoError(t, err)
			}
			eventually(t, "bytes to arrive", func() bool {
				require.NoError(t, a.Progress())
				require.NoError(t, b.Progress())
				return b.Counters.ReceivedBytes > 1<<20
			})
			victim := map[string]*Side{"sender": a, "receiver": b}[side].lanes[1].FD
			require.NoError(t, unix.Shutdown(victim, unix.SHUT_RDWR))
			var errs [2]error
			eventually(t, "both errors", func() bool {
				if errs[0] == nil {
					errs[0] = a.Progress()
				}
				if errs[1] == nil {
					errs[1] = b.Progress()
				}
				if errs[0] != nil { // what the owner of a connection does then
					require.NoError(t, a.Conn.Close())
				}
				if errs[1] != nil {
					require.NoError(t, b.Conn.Close())
				}
				return errs[0] != nil && errs[1] != nil
			})
			for consumed(b) {
			}
		})
	}
}
