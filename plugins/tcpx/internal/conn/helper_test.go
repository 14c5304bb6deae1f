package conn

import (
	"bytes"
	"testing"

	"transportbench/core/fabric/sock"
	"transportbench/plugins/tcpx/internal/bounce"

	"github.com/stretchr/testify/require"
)

// TestHelpersServe: with threads, only helpers read and write data sockets, each its own.
func TestHelpersServe(t *testing.T) {
	a, b := pair(t, map[string]string{"sockets": "3", "threads": "2", "chunk": "16KiB",
		"request": "256KiB"}, 1<<20)
	data := random(11, 200_001)
	require.True(t, bytes.Equal(data, exchange(t, a, b, data)))
	for _, e := range []*Side{a, b} {
		d := e.driver.(*helpers)
		require.Len(t, d.list, 2)
		require.Equal(t, []*handoff{d.lanes[0], d.lanes[2]}, d.list[0].lanes)
		require.Equal(t, []*handoff{d.lanes[1]}, d.list[1].lanes)
		require.Zero(t, e.Counters.Calls[sock.Sends]+e.Counters.Calls[sock.Receives],
			"calls of the polling thread")
	}
	eventually(t, "calls to be published", func() bool {
		a.driver.count()
		b.driver.count()
		return a.Counters.Calls[sock.Sends] >= 13 && b.Counters.Calls[sock.Receives] >= 13
	})
}

// TestHelpersSleep: a helper with nothing to do sleeps in the kernel, and wakes up for
// orders and for bytes.
func TestHelpersSleep(t *testing.T) {
	a, b := pair(t, map[string]string{"sockets": "2", "threads": "2"}, 1<<20)
	asleep := func() bool {
		for _, e := range []*Side{a, b} {
			for _, h := range e.driver.(*helpers).list {
				if !h.notifier.Waiting() {
					return false
				}
			}
		}
		return true
	}
	for round := range 3 {
		eventually(t, "all helpers to sleep", asleep)
		data := random(uint64(round), 100_000)
		require.True(t, bytes.Equal(data, exchange(t, a, b, data)), "round %d", round)
	}
	// The receiver's helper waits for bytes that are announced and have not come.
	err := b.In.PostReceive(b.Destination.Slice(0, 1000), 9)
	require.NoError(t, err)
	require.NoError(t,
		b.handle(&record{kind: recordChunk, index: uint16(b.In.begun % Requests),
			size: 1000, total: 1000, tag: 9}, nil))
	require.NoError(t, b.Progress())
	eventually(t, "all helpers to sleep", asleep)
	_, err = sock.SendBytes(a.lanes[0].FD, data1000)
	require.NoError(t, err)
	eventually(t, "the bytes", func() bool {
		require.NoError(t, b.Progress())
		return b.In.launched == b.In.Posted()
	})
}

// TestNoWaitWithRoomToSend: Post books what a helper has sent, so nothing wakes the worker
// for it any more. The worker must not sleep while there is room to send.
func TestNoWaitWithRoomToSend(t *testing.T) {
	a, b := pair(t, map[string]string{"threads": "1", "chunk": "4KiB", "request": "256KiB"}, 1<<20)
	l := &a.lanes[0]
	waits := func() bool { return !a.HasWork() }
	data := random(13, 256<<10)
	err := b.In.PostReceive(b.Destination.Slice(0, len(data)), 0)
	require.NoError(t, err)
	eventually(t, "the credit", func() bool {
		require.NoError(t, b.Progress())
		require.NoError(t, a.readControl())
		return a.Out.credits.Last() == 1
	})
	require.True(t, waits())
	err = a.Out.PostSend(data, 0)
	require.NoError(t, err)
	for _, want := range []bool{true, false} { // all tasks are taken then
		assigned, err := a.Out.assignChunks()
		require.NoError(t, err)
		require.Equal(t, want, assigned)
	}
	sent, err := a.driver.send()
	require.NoError(t, err)
	eventually(t, "the helper",
		func() bool { return a.driver.(*helpers).lanes[0].sent.Load() == laneTasks*4<<10 })
	require.False(t, waits(), "the helper has sent")
	more, err := a.driver.send()
	require.NoError(t, err)
	require.Equal(t, laneTasks*4<<10, sent+more)
	require.False(t, a.driver.hasWork())
	require.False(t, waits(), "tasks are free")
	eventually(t, "the bytes", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		return b.In.launched == 1 && l.tasks.Empty()
	})
	require.True(t, waits(), "all is sent")
	a.Out.flush = true
	require.False(t, waits(), "there is room in the window")
	a.config.SendWindow = 0
	require.True(t, waits(), "there is none")
}

// TestNoWaitWithoutPages: another connection gives back the pages that this one waits for,
// and wakes no thread.
func TestNoWaitWithoutPages(t *testing.T) {
	a, b := pair(t, map[string]string{"threads": "1"}, 1<<20)
	pages := b.memory.(*bounce.Pages)
	waits := func() bool { return !b.HasWork() }
	err := b.In.PostReceive(b.Destination.Slice(0, len(data1000)), 0)
	require.NoError(t, err)
	require.NoError(t, b.handle(&record{kind: recordChunk, size: 1000, total: 1000}, nil))
	all := (Requests + 1) * b.config.Request / pageSize
	require.True(t, pages.Reserve(all, false), "by another connection")
	require.NoError(t, b.Progress())
	require.True(t, b.In.waitsForPages())
	require.False(t, waits())
	pages.Give(nil, all)
	require.NoError(t, b.Progress())
	require.True(t, waits(), "for the bytes")
	_, err = sock.SendBytes(a.lanes[0].FD, data1000)
	require.NoError(t, err)
	eventually(t, "the helper", func() bool { return !waits() })
	eventually(t, "the bytes", func() bool {
		require.NoError(t, b.Progress())
		return b.In.launched == 1
	})
}

// TestAcknowledgedBehindHelpers: a helper is ahead of what is booked, and the bytes that it
// sent since do not acknowledge earlier ones.
func TestAcknowledgedBehindHelpers(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	l := &a.lanes[0]
	more := make([]byte, 1<<20)
	eventually(t, "the socket to be full", func() bool {
		n, err := sock.SendBytes(l.FD, more)
		require.NoError(t, err)
		return n == 0 && sock.Unacknowledged(l.FD) > 2000
	})
	r := &sendRequest{}
	r.marks[0].upTo, l.sent = 1000, 1000
	require.False(t, a.Out.acknowledged(r, 0))
	eventually(t, "all to be acknowledged", func() bool {
		_, err := sock.ReceiveBytes(b.lanes[0].FD, more)
		require.NoError(t, err)
		return a.Out.acknowledged(r, 0)
	})
}

var data1000 = random(12, 1000)

// TestHelperWakesTheWorker: helpers wake a worker that sleeps when bytes have moved.
func TestHelperWakesTheWorker(t *testing.T) {
	w := &sock.Notifier{FD: -1}
	w.Notify() // no thread sleeps: nothing is written
	var none *sock.Notifier
	none.Notify()

	a, b := pair(t, map[string]string{"threads": "1"}, 1<<20)
	require.False(t, b.driver.hasWork())
	err := b.In.PostReceive(b.Destination.Slice(0, 1000), 9)
	require.NoError(t, err)
	err = a.Out.PostSend(data1000, 9)
	require.NoError(t, err)
	eventually(t, "the sender's helper", func() bool {
		require.NoError(t, b.Progress())
		if a.driver.hasWork() {
			return true
		}
		require.NoError(t, a.Progress())
		return a.Counters.SentBytes > 0
	})
	eventually(t, "the receiver's helper", func() bool {
		if b.driver.hasWork() {
			return true
		}
		require.NoError(t, b.Progress())
		return b.Counters.ReceivedBytes > 0
	})
}
