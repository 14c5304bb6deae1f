package devices_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

var notifierTests = []test{
	{"notifier/timeout", notifierTimeout},
	{"notifier/blocks", notifierBlocks},
	{"notifier/arrival-before", notifierArrivalBefore},
	{"notifier/arrival-during", notifierArrivalDuring},
	{"notifier/own-completion", notifierOwnCompletion},
	{"notifier/peer-closed", notifierPeerClosed},
	{"notifier/ring", notifierRing},
	{"notifier/refuses", notifierRefuses},
}

// await polls, and waits if there is nothing, until n more completions have come. It may
// run on another goroutine than the test, so it reports failures with Errorf.
func (x *side) await(n int) bool {
	deadline := time.Now().Add(x.suite.Timeout)
	for have := len(x.queue); len(x.queue) < have+n; {
		before := len(x.queue)
		if x.poll(); len(x.queue) > before {
			continue
		}
		if err := x.notifier.Wait(x.suite.Timeout); err != nil {
			x.t.Errorf("Wait: %v", err)
			return false
		}
		if time.Now().After(deadline) {
			x.t.Errorf("a completion did not end Wait")
			return false
		}
	}
	return true
}

func notifierTimeout(t *testing.T, s *suite) {
	a, _ := s.pair(t, setup{notifier: true})
	for _, timeout := range []time.Duration{0, time.Microsecond, time.Millisecond} {
		require.NoError(t, a.notifier.Wait(timeout))
	}
}

// notifierBlocks tries often because Wait may return early.
func notifierBlocks(t *testing.T, s *suite) {
	a, _ := s.pair(t, setup{notifier: true})
	const timeout = 4 * time.Millisecond
	for range 100 {
		start := time.Now()
		require.NoError(t, a.notifier.Wait(timeout))
		if time.Since(start) >= timeout/2 {
			return
		}
	}
	t.Fatal("Wait never blocked although there was nothing to poll")
}

func notifierArrivalBefore(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{notifier: true})
	for i := range 20 {
		b.receive(1, 0, 0)
		a.post(toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, 8), b, 0))
		require.True(t, b.await(1))
		require.Equal(t, rdma.ReceiveWriteImmediate, b.queue[0].Opcode)
		b.queue = nil
		a.succeed(b, uint64(i), rdma.WriteWithImmediate)
	}
}

// notifierArrivalDuring is a ping-pong between two threads that wait for each other.
func notifierArrivalDuring(t *testing.T, s *suite) {
	for _, kind := range []rdma.QueuePairType{rdma.ReliableConnected, rdma.UnreliableDatagram} {
		a, b := s.pair(t, setup{notifier: true, kind: kind})
		send := func(x, y *side) func() {
			r := x.request(rdma.SendWithImmediate, 1, 0, 8)
			r.Flags = 0
			if kind == rdma.UnreliableDatagram {
				r.Peer = x.peer(y)
			}
			return func() { x.post(r) }
		}
		aSends, bSends := send(a, b), send(b, a)
		a.receive(depth/2, 4096, 64)
		b.receive(depth/2, 4096, 64)
		var both sync.WaitGroup
		both.Go(func() {
			for range depth / 2 {
				aSends()
				if !a.await(1) {
					return
				}
			}
		})
		both.Go(func() {
			for range depth / 2 {
				if !b.await(1) {
					return
				}
				bSends()
			}
		})
		both.Wait()
		for _, c := range append(a.queue, b.queue...) {
			require.Equal(t, rdma.StatusOK, c.Status, "%v", c.Status)
		}
	}
}

// notifierOwnCompletion waits for requests to complete while the peer waits too.
func notifierOwnCompletion(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{notifier: true})
	const n = 10
	b.receive(n, 0, 0)
	var both sync.WaitGroup
	both.Go(func() {
		for i := range n {
			a.post(toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, 8), b, 0))
			if !a.await(1) {
				return
			}
		}
	})
	both.Go(func() { b.await(n) })
	both.Wait()
}

// notifierPeerClosed waits while the peer closes. The request must complete or fail.
func notifierPeerClosed(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{notifier: true, connect: s.Impatient})
	a.post(toward(a.request(rdma.Write, 1, 0, 16), b, 0))
	var closed sync.WaitGroup
	closed.Go(func() {
		time.Sleep(time.Millisecond)
		if err := b.qp.Close(); err != nil {
			t.Error(err)
		}
	})
	a.await(1)
	closed.Wait()
}

func notifierRing(t *testing.T, s *suite) {
	a, _ := s.pair(t, setup{notifier: true})
	a.notifier.Notify()
	start := time.Now()
	require.NoError(t, a.notifier.Wait(s.Timeout))
	const rounds = 20
	var entering atomic.Int32
	var rung sync.WaitGroup
	rung.Go(func() {
		for round := range int32(rounds) {
			for entering.Load() <= round {
				time.Sleep(100 * time.Microsecond)
			}
			a.notifier.Notify()
		}
	})
	for range rounds {
		entering.Add(1)
		require.NoError(t, a.notifier.Wait(s.Timeout))
	}
	rung.Wait()
	require.Less(t, time.Since(start), s.Timeout, "Notify did not end Wait")
}

func notifierRefuses(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	_, err := a.device.NewNotifier(a.cq)
	require.ErrorIs(t, err, rdma.ErrInvalid, "a queue that has a queue pair")
	_, err = a.device.NewNotifier(b.cq)
	require.ErrorIs(t, err, rdma.ErrInvalid, "a queue of another device")
	cq, err := a.device.NewCompletionQueue(1)
	require.NoError(t, err)
	notifier, err := a.device.NewNotifier(cq)
	require.NoError(t, err)
	_, err = a.device.NewNotifier(cq)
	require.ErrorIs(t, err, rdma.ErrInvalid, "a queue that has a notifier")
	require.NoError(t, notifier.Close())
	require.NoError(t, notifier.Close())
	require.ErrorIs(t, notifier.Wait(0), rdma.ErrClosed)
	require.NoError(t, cq.Close())
}
