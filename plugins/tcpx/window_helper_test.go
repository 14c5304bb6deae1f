package tcpx

import (
	"bytes"
	"testing"

	"transportbench/core/fabric/dial"
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
	for _, e := range []*bulkSide{a, b} {
		require.Len(t, e.conn.helpers, 2)
		require.Equal(t, []*handoff{e.conn.lanes[0].handoff, e.conn.lanes[2].handoff},
			e.conn.helpers[0].lanes)
		require.Equal(t, []*handoff{e.conn.lanes[1].handoff}, e.conn.helpers[1].lanes)
		require.Zero(t, e.counters.calls[sock.Sends]+e.counters.calls[sock.Receives],
			"calls of the polling thread")
	}
	eventually(t, "calls to be published", func() bool {
		for _, h := range a.conn.helpers {
			a.conn.takeCounts(h)
		}
		for _, h := range b.conn.helpers {
			b.conn.takeCounts(h)
		}
		return a.counters.calls[sock.Sends] >= 13 && b.counters.calls[sock.Receives] >= 13
	})
}

// TestHelpersSleep: a helper with nothing to do sleeps in the kernel, and wakes up for
// orders and for bytes.
func TestHelpersSleep(t *testing.T) {
	a, b := pair(t, map[string]string{"sockets": "2", "threads": "2"}, 1<<20)
	asleep := func() bool {
		for _, e := range []*bulkSide{a, b} {
			for _, h := range e.conn.helpers {
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
	err := b.conn.postReceive(b.destination.Slice(0, 1000), 9)
	require.NoError(t, err)
	require.NoError(t,
		b.conn.handle(&record{kind: recordChunk, index: uint16(b.conn.receiveBegun % requests),
			size: 1000, total: 1000, tag: 9}, nil))
	require.NoError(t, b.progress())
	eventually(t, "all helpers to sleep", asleep)
	_, err = sock.SendBytes(a.conn.lanes[0].FD, data1000)
	require.NoError(t, err)
	eventually(t, "the bytes", func() bool {
		require.NoError(t, b.progress())
		return b.conn.receiveLaunched == b.conn.receivePosted
	})
}

// TestNoWaitWithRoomToSend: Post books what a helper has sent, so nothing wakes the worker
// for it any more. The worker must not sleep while there is room to send.
func TestNoWaitWithRoomToSend(t *testing.T) {
	a, b := pair(t, map[string]string{"threads": "1", "chunk": "4KiB", "request": "256KiB"}, 1<<20)
	c, l := a.conn, &a.conn.lanes[0]
	p := &peer{w: &worker{settings: c.settings}, conn: c, Link: dial.Link{State: dial.Up}}
	waits := func() bool { _, now := p.interests(nil); return !now }
	data := random(13, 256<<10)
	err := b.conn.postReceive(b.destination.Slice(0, len(data)), 0)
	require.NoError(t, err)
	eventually(t, "the credit", func() bool {
		require.NoError(t, b.progress())
		require.NoError(t, c.readControl())
		return c.credited == 1
	})
	require.True(t, waits())
	err = c.postSend(data, 0, 0)
	require.NoError(t, err)
	for _, want := range []bool{true, false} { // all tasks are taken then
		assigned, err := c.assignChunks()
		require.NoError(t, err)
		require.Equal(t, want, assigned)
	}
	eventually(t, "the helper", func() bool { return l.handoff.sent.Load() == laneTasks*4<<10 })
	require.False(t, waits(), "the helper has sent")
	require.True(t, c.takeSent())
	require.False(t, c.helped())
	require.False(t, waits(), "tasks are free")
	eventually(t, "the bytes", func() bool {
		require.NoError(t, a.progress())
		require.NoError(t, b.progress())
		return b.conn.receiveLaunched == 1 && l.taskCount == 0
	})
	require.True(t, waits(), "all is sent")
	p.out.flushed = 1
	require.False(t, waits(), "there is room in the window")
	c.settings.sendWindow = 1
	require.True(t, waits(), "there is none")
}

// TestNoWaitWithoutPages: another connection gives back the pages that this one waits for,
// and wakes no thread.
func TestNoWaitWithoutPages(t *testing.T) {
	a, b := pair(t, map[string]string{"threads": "1"}, 1<<20)
	c, pages := b.conn, b.memory.(*bounce.Pages)
	p := &peer{w: &worker{settings: c.settings}, conn: c, Link: dial.Link{State: dial.Up}}
	waits := func() bool { _, now := p.interests(nil); return !now }
	err := c.postReceive(b.destination.Slice(0, len(data1000)), 0)
	require.NoError(t, err)
	require.NoError(t, c.handle(&record{kind: recordChunk, size: 1000, total: 1000}, nil))
	all := (requests + c.settings.peers) * c.settings.request / pageSize
	require.True(t, pages.Reserve(all, false), "by another connection")
	require.NoError(t, b.progress())
	require.Zero(t, c.receiveReserved)
	require.False(t, waits())
	pages.Give(nil, all)
	require.NoError(t, b.progress())
	require.True(t, waits(), "for the bytes")
	_, err = sock.SendBytes(a.conn.lanes[0].FD, data1000)
	require.NoError(t, err)
	eventually(t, "the helper", func() bool { return !waits() })
	eventually(t, "the bytes", func() bool {
		require.NoError(t, b.progress())
		return c.receiveLaunched == 1
	})
}

// TestAcknowledgedBehindHelpers: a helper is ahead of what is booked, and the bytes that it
// sent since do not acknowledge earlier ones.
func TestAcknowledgedBehindHelpers(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	l := &a.conn.lanes[0]
	more := make([]byte, 1<<20)
	eventually(t, "the socket to be full", func() bool {
		n, err := sock.SendBytes(l.FD, more)
		require.NoError(t, err)
		return n == 0 && sock.Unacknowledged(l.FD) > 2000
	})
	r := &sendRequest{lanes: 1}
	r.marks[0].position, l.position = 1000, 1000
	require.False(t, a.conn.acknowledged(r, 0))
	eventually(t, "all to be acknowledged", func() bool {
		_, err := sock.ReceiveBytes(b.conn.lanes[0].FD, more)
		require.NoError(t, err)
		return a.conn.acknowledged(r, 0)
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
	require.False(t, b.conn.helped())
	err := b.conn.postReceive(b.destination.Slice(0, 1000), 9)
	require.NoError(t, err)
	err = a.conn.postSend(data1000, 0, 9)
	require.NoError(t, err)
	eventually(t, "the sender's helper", func() bool {
		require.NoError(t, b.progress())
		if a.conn.helped() {
			return true
		}
		require.NoError(t, a.progress())
		return a.counters.sentBytes > 0
	})
	eventually(t, "the receiver's helper", func() bool {
		if b.conn.helped() {
			return true
		}
		require.NoError(t, b.progress())
		return b.counters.receivedBytes > 0
	})
}
