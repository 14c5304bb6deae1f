package transporttest

import (
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var waitClauses = []clause{
	{name: "wait/timeout", run: waitTimeout, needs: []need{needsWaits},
		says: "Wait returns when its timeout has passed."},
	{name: "wait/blocks", run: waitBlocks, needs: []need{needsWaits},
		says: "Wait blocks while there is nothing to poll."},
	{name: "wait/arrival-before", run: waitArrivalBefore, needs: []need{needsWaits},
		says: "An arrival since the last Poll makes Wait return at once."},
	{name: "wait/arrival-during", run: waitArrivalDuring, needs: []need{needsWaits},
		says: "Wait returns when Poll may have something."},
	{name: "wait/wake-before", run: waitWakeBefore, needs: []need{needsWaits},
		says: "Wake ends the next Wait when none is in progress."},
	{name: "wait/wake-during", run: waitWakeDuring, needs: []need{needsWaits},
		says: "Wake, from any thread, ends the current Wait."},
	{name: "wait/peer-lost", run: waitPeerLost, needs: []need{needsWaits, needsLostPeer},
		says: "Wait returns when a peer is lost."},
}

// never is a timeout that is longer than any clause.
const never = time.Hour

// wait calls Wait once.
func (n *node) wait(timeout time.Duration) {
	if err := n.worker.(transport.Waiter).Wait(timeout); err != nil {
		n.trial.Fatalf("%s: Wait: %v", n.name, err)
	}
}

func (n *node) wake() { n.worker.(transport.Waiter).Wake() }

func waitTimeout(t *trial) {
	_, a, _ := t.pair(layout{})
	for _, timeout := range []time.Duration{0, time.Microsecond, time.Millisecond,
		5 * time.Millisecond} {
		require.Empty(t, a.poll(a.events))
		a.wait(timeout)
	}
}

// waitBlocks tries many times, because Wait may return early without a reason. A slow machine
// makes Wait longer, so it cannot fail the clause.
func waitBlocks(t *trial) {
	_, a, _ := t.pair(layout{})
	const timeout = 4 * time.Millisecond
	for range 100 {
		require.Empty(t, a.poll(a.events))
		start := time.Now()
		a.wait(timeout)
		if time.Since(start) >= timeout/2 {
			return
		}
	}
	t.Fatalf("none of 100 waits of %v took half of that, with nothing to poll", timeout)
}

func waitArrivalBefore(t *trial) {
	c, a, b := t.pair(layout{})
	// Until the connection is established, a message may not leave before its sender polls.
	a.call(0, pattern(0, 16))
	c.drain()
	for i := range uint64(50) {
		require.Empty(t, b.poll(b.events))
		a.call(0, pattern(i, 16))
		a.flush()
		for served := b.served; b.served == served; {
			b.wait(never)
			b.step()
		}
		c.drain()
	}
}

// waitArrivalDuring is a ping-pong of two threads that wait for each other.
func waitArrivalDuring(t *trial) {
	_, a, b := t.pair(layout{})
	const rounds = 200
	t.Parallel(func() {
		for i := range uint64(rounds) {
			a.post(a.newCall(0, pattern(i, 16)))
			for a.flush(); len(a.waiting) > 0; {
				events := a.poll(a.events)
				a.take(events)
				if len(events) == 0 {
					a.wait(never)
				}
			}
		}
	}, func() {
		for {
			before := b.served
			b.step()
			if b.served > before || len(b.outbox) > 0 {
				continue
			}
			if b.served == rounds {
				break
			}
			b.wait(never)
		}
		b.flush()
	})
}

func waitWakeBefore(t *trial) {
	_, a, _ := t.pair(layout{})
	for range 20 {
		require.Empty(t, a.poll(a.events))
		a.wake()
		a.wait(never)
	}
}

// waitWakeDuring wakes after a moment, when the waiter usually blocks. If it does not block yet,
// the Wake comes before the Wait.
func waitWakeDuring(t *trial) {
	_, a, _ := t.pair(layout{})
	const rounds = 50
	var entering atomic.Int32
	t.Parallel(func() {
		for range rounds {
			require.Empty(t, a.poll(a.events))
			entering.Add(1)
			a.wait(never)
		}
	}, func() {
		for round := range int32(rounds) {
			for spins := 0; entering.Load() <= round; spins++ {
				t.Pause(spins, "wait %d to begin; the previous one was not ended by Wake", round)
			}
			time.Sleep(200 * time.Microsecond)
			a.wake()
		}
	})
}

func waitPeerLost(t *trial) {
	c, a, b := t.pair(layout{})
	a.call(0, pattern(1, 16))
	c.drain()
	require.Empty(t, a.poll(a.events))
	b.close()
	for !a.lost[0] {
		a.wait(never)
		a.step()
	}
}
