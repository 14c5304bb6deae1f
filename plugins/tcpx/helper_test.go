package tcpx

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHelpersServe: with threads, data sockets are read and written by these alone, and each
// has its own.
func TestHelpersServe(t *testing.T) {
	a, b := pair(t, map[string]string{"sockets": "3", "threads": "2", "chunk": "16KiB", "request": "256KiB"}, 1<<20)
	data := random(11, 200_001)
	require.True(t, bytes.Equal(data, exchange(t, a, b, data)))
	for _, e := range []*endpoint{a, b} {
		require.Len(t, e.comm.helpers, 2)
		require.Equal(t, []*served{e.comm.lanes[0].served, e.comm.lanes[2].served}, e.comm.helpers[0].served)
		require.Equal(t, []*served{e.comm.lanes[1].served}, e.comm.helpers[1].served)
		require.Zero(t, e.counts.calls[callSends]+e.counts.calls[callReceives], "calls of the comm's thread")
	}
	eventually(t, "calls to be published", func() bool {
		for _, h := range a.comm.helpers {
			a.comm.takeCalls(h)
		}
		for _, h := range b.comm.helpers {
			b.comm.takeCalls(h)
		}
		return a.counts.calls[callSends] >= 13 && b.counts.calls[callReceives] >= 13
	})
}

// TestHelpersSleep: a helper with nothing to do waits in the kernel, and wakes up for what is
// handed over and for what comes.
func TestHelpersSleep(t *testing.T) {
	a, b := pair(t, map[string]string{"sockets": "2", "threads": "2"}, 1<<20)
	asleep := func() bool {
		for _, e := range []*endpoint{a, b} {
			for _, h := range e.comm.helpers {
				if !h.bell.waiting.Load() {
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
	_, err := b.comm.irecv(b.destination.slice(0, 1000), 9)
	require.NoError(t, err)
	require.NoError(t, b.comm.accept(&record{kind: recordChunk, index: uint16(b.comm.receiveAnnounced % requests), size: 1000, total: 1000, tag: 9}))
	require.NoError(t, b.comm.progress())
	eventually(t, "all helpers to sleep", asleep)
	_, err = sendBytes(a.comm.lanes[0].fd, data1000)
	require.NoError(t, err)
	eventually(t, "the bytes", func() bool {
		require.NoError(t, b.comm.progress())
		return b.comm.receiveComplete == b.comm.receivePosted
	})
}

// TestNoWaitWithRoomToSend: Post takes in what a helper has sent, so that nothing wakes the
// worker for it any more. It does not wait while there is room for what comes next.
func TestNoWaitWithRoomToSend(t *testing.T) {
	a, b := pair(t, map[string]string{"threads": "1", "chunk": "4KiB", "request": "256KiB"}, 1<<20)
	c, l := a.comm, &a.comm.lanes[0]
	p := &peer{w: &worker{settings: c.settings}, comm: c, state: up}
	waits := func() bool { _, now := p.interests(nil); return !now }
	data := random(13, 256<<10)
	_, err := b.comm.irecv(b.destination.slice(0, len(data)), 0)
	require.NoError(t, err)
	eventually(t, "the credit", func() bool {
		require.NoError(t, b.comm.progress())
		require.NoError(t, c.readControl())
		return c.creditCount == 1
	})
	require.True(t, waits())
	_, err = c.isend(vector{data}, 0)
	require.NoError(t, err)
	c.sendActive = 1
	require.True(t, c.cut())
	require.False(t, c.cut(), "all task slots are taken")
	eventually(t, "the helper", func() bool { return l.served.sent.Load() == laneTasks*4<<10 })
	require.False(t, waits(), "the helper has sent")
	require.True(t, c.takeSent())
	require.False(t, c.helped())
	require.False(t, waits(), "task slots are free")
	eventually(t, "the bytes", func() bool {
		require.NoError(t, c.progress())
		require.NoError(t, b.comm.progress())
		return b.comm.receiveComplete == 1 && l.count == 0
	})
	require.True(t, waits(), "all is sent")
	p.flushed = 1
	require.False(t, waits(), "there is room in the window")
	c.settings.sendWindow = 1
	require.True(t, waits(), "there is none")
}

// TestNoWaitWithoutPages: the pages that a connection waits for are given back by another,
// which nothing tells it.
func TestNoWaitWithoutPages(t *testing.T) {
	a, b := pair(t, map[string]string{"threads": "1"}, 1<<20)
	c, pages := b.comm, b.intake.(*pool)
	p := &peer{w: &worker{settings: c.settings}, comm: c, state: up}
	waits := func() bool { _, now := p.interests(nil); return !now }
	_, err := c.irecv(b.destination.slice(0, len(data1000)), 0)
	require.NoError(t, err)
	require.NoError(t, c.accept(&record{kind: recordChunk, size: 1000, total: 1000}))
	all := pages.unclaimed
	pages.unclaimed = 0 // another connection has them
	require.NoError(t, c.progress())
	require.Zero(t, c.receiveReserved)
	require.False(t, waits())
	pages.unclaimed = all
	require.NoError(t, c.progress())
	require.True(t, waits(), "for the bytes")
	_, err = sendBytes(a.comm.lanes[0].fd, data1000)
	require.NoError(t, err)
	eventually(t, "the helper", func() bool { return !waits() })
	eventually(t, "the bytes", func() bool {
		require.NoError(t, c.progress())
		return c.receiveComplete == 1
	})
}

// TestAcknowledgedBehindHelpers: a helper is ahead of what the comm has seen of it, and what
// it sent since is no acknowledgement of what went before.
func TestAcknowledgedBehindHelpers(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	l := &a.comm.lanes[0]
	more := make([]byte, 1<<20)
	eventually(t, "the socket to be full", func() bool {
		n, err := sendBytes(l.fd, more)
		require.NoError(t, err)
		return n == 0 && unacknowledged(l.fd) > 2000
	})
	r := &sendRequest{lanes: 1}
	r.marks[0].position, l.position = 1000, 1000
	require.False(t, a.comm.acknowledged(r, 0))
	eventually(t, "all to be acknowledged", func() bool {
		_, err := receiveBytes(b.comm.lanes[0].fd, more)
		require.NoError(t, err)
		return a.comm.acknowledged(r, 0)
	})
}

var data1000 = random(12, 1000)

// TestHelperWakesTheWorker: a worker that waits is woken by what its helpers have done, and
// by a socket that one of them finds closed.
func TestHelperWakesTheWorker(t *testing.T) {
	w := &waker{fd: -1}
	w.rouse() // nobody waits: nothing is written
	var none *waker
	none.rouse()

	a, b := pair(t, map[string]string{"threads": "1"}, 1<<20)
	require.False(t, b.comm.helped())
	_, err := b.comm.irecv(b.destination.slice(0, 1000), 9)
	require.NoError(t, err)
	_, err = a.comm.isend(vector{data1000}, 9)
	require.NoError(t, err)
	eventually(t, "the sender's helper", func() bool {
		require.NoError(t, b.comm.progress())
		if a.comm.helped() {
			return true
		}
		require.NoError(t, a.comm.progress())
		return a.counts.sentBytes > 0
	})
	eventually(t, "the receiver's helper", func() bool {
		if b.comm.helped() {
			return true
		}
		require.NoError(t, b.comm.progress())
		return b.counts.receivedBytes > 0
	})
}
