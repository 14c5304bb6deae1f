package datagram_test

import (
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
)

var transferTests = []test{
	{"transfer/sizes", transferSizes},
	{"transfer/mixed-batch", transferMixed},
	{"transfer/copies", transferCopies},
	{"transfer/batch-bound", transferBound},
	{"transfer/many-to-one", transferManyToOne},
	{"transfer/one-packet-at-a-time", transferOneByOne},
	{"transfer/data-is-the-callers", transferOwnData},
	{"transfer/to-itself", transferItself},
	{"transfer/no-allocation", transferNoAllocation},
	{"transfer/two-threads", transferThreads},
}

// transferSizes: datagrams of any length up to the MTU arrive intact and with their source, for any
// split into head and body.
func transferSizes(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	require.Positive(t, a.MTU())
	for i, n := range []int{0, 1, 2, 15, 16, 17, 63, 64, 65, 100, 255, 256, 1000, 1471, 1472,
		a.MTU() - 1, a.MTU()} {
		if n <= a.MTU() {
			a.deliver(to, b, b.Source(from), pattern(i, n))
			b.deliver(from, a, a.Source(to), pattern(i+1, n))
		}
	}
}

// transferMixed: a batch may have datagrams of different lengths to several remotes.
func transferMixed(t *testing.T, s *suite) {
	x := s.nodes(t, 4)
	sender, receivers := x[0], x[1:]
	var to []datagram.Remote
	var from []datagram.Source
	for _, r := range receivers {
		to = append(to, sender.to(r))
		from = append(from, r.Source(r.to(sender)))
	}
	lengths := []int{16, 16, 16, 48, 48, 16, 0, 0, 64, 63, 64, 64, 64, 100, 100, 7, 1000,
		1000, 1000, 3}
	want := make([]map[string]bool, len(receivers))
	for round := range 20 {
		for i := range want {
			want[i] = map[string]bool{}
		}
		for i, n := range lengths {
			// Three in a row, in turn, or mixed.
			which := []int{i / 3, i, i * round}[round%3] % len(receivers)
			d := pattern(1+i+round*256, min(n, sender.MTU()))
			want[which][d] = true
			sender.send(to[which], d)
		}
		sender.flush()
		for i, r := range receivers {
			sender.arrive(r, to[i], from[i], want[i])
		}
	}
}

// transferCopies: Send copies head and body.
func transferCopies(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	head, body := make([]byte, 16), make([]byte, 48)
	want := map[string]bool{}
	for i := range 8 {
		copy(head, pattern(i, 16))
		copy(body, pattern(i+100, 48))
		want[string(head)+string(body)] = true
		if !a.Send(to, head, body) {
			a.flush()
			require.True(t, a.Send(to, head, body))
		}
	}
	clear(head)
	clear(body)
	a.flush()
	a.arrive(b, to, b.Source(from), want)
}

// transferBound: a batch is bounded and has room again after a flush.
func transferBound(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	for range 3 {
		n := 0
		for ; n < 1<<16 && a.Send(to, nil, []byte{1}); n++ {
			if s.Lossy && n == 32 {
				break // dropped datagrams take no room
			}
		}
		require.Less(t, n, 1<<16, "the batch is not bounded")
		require.GreaterOrEqual(t, n, 1)
		a.flush()
		for range n {
			b.poll()
		}
	}
	b.known["\x01"] = true
	a.deliver(to, b, b.Source(from), pattern(7, 33))
}

// transferManyToOne: a port distinguishes its senders and can answer them.
func transferManyToOne(t *testing.T, s *suite) {
	const senders = 6
	x := s.nodes(t, senders+1)
	server, clients := x[0], x[1:]
	back := map[datagram.Source]datagram.Remote{}
	var to []datagram.Remote
	for _, c := range clients {
		r := server.to(c)
		back[server.Source(r)] = r
		to = append(to, c.to(server))
	}
	require.Len(t, back, senders, "different ports must have different sources")
	for round := range 10 {
		done := make([]bool, senders)
		for i, c := range clients {
			c.send(to[i], fmt.Sprint("request", round, i))
			c.flush()
		}
		sent := time.Now()
		for left, deadline := senders, time.Now().Add(s.Timeout); left > 0; {
			require.True(t, time.Now().Before(deadline), "timed out waiting for answers")
			server.poll()
			for _, m := range server.take() {
				r, ok := back[m.source]
				require.True(t, ok, "unknown source")
				server.send(r, "answer to "+m.data)
			}
			server.flush()
			again := time.Since(sent) > s.resend()
			for i, c := range clients {
				c.poll()
				for _, m := range c.take() {
					require.Equal(t, c.Source(to[i]), m.source)
					if m.data == fmt.Sprint("answer to request", round, i) && !done[i] {
						done[i] = true
						left--
					}
				}
				if again && !done[i] {
					c.send(to[i], fmt.Sprint("request", round, i))
					c.flush()
				}
			}
			if again {
				sent = time.Now()
			}
		}
	}
}

// transferOneByOne: Receive into a single packet loses nothing, and packets stay unchanged until
// the next Receive.
func transferOneByOne(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	n, err := b.Receive(nil, datagram.Target{})
	require.NoError(t, err)
	require.Zero(t, n)
	b.packets = b.packets[:1]
	for round := range 5 {
		var data []string
		for i := range 20 {
			data = append(data, pattern(1+i+round*256, 40))
		}
		a.deliver(to, b, b.Source(from), data...)
	}
	b.packets = b.packets[:cap(b.packets)]
	var data []string
	for i := range 20 {
		data = append(data, pattern(1+i+77*256, 40))
		a.send(to, data[i])
	}
	a.flush()
	time.Sleep(time.Millisecond) // so that there are usually several at once
	count, err := b.Receive(b.packets, datagram.Target{})
	require.NoError(t, err)
	copies := make([]string, count)
	for i, p := range b.packets[:count] {
		copies[i] = string(p.Data)
	}
	for i := range 20 {
		a.send(to, pattern(i, 40))
	}
	a.flush()
	time.Sleep(time.Millisecond)
	for i, p := range b.packets[:count] {
		require.Equal(t, copies[i], string(p.Data), "a packet changed before the next Receive")
	}
}

// transferOwnData: writing to a received packet does not change another one.
func transferOwnData(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to := a.to(b)
	b.to(a)
	want := map[string]bool{}
	for i := range 30 {
		d := pattern(1+i, 50)
		want[d] = true
	}
	seen := map[string]bool{}
	for deadline := time.Now().Add(s.Timeout); len(seen) < len(want); {
		require.True(t, time.Now().Before(deadline), "timed out with %d of %d datagrams", len(seen),
			len(want))
		for d := range want {
			a.send(to, d)
		}
		a.flush()
		for range 100 {
			n, err := b.Receive(b.packets, datagram.Target{})
			require.NoError(t, err)
			for _, p := range b.packets[:n] {
				require.True(t, want[string(p.Data)], "a packet was changed")
				seen[string(p.Data)] = true
				_ = append(p.Data, 0xff, 0xff, 0xff)
				for i := range p.Data {
					p.Data[i] = 0xee
				}
			}
			a.poll()
		}
	}
}

// transferItself: a port can send to itself.
func transferItself(t *testing.T, s *suite) {
	a := s.node(t)
	to := a.to(a)
	a.deliver(to, a, a.Source(to), pattern(1, 20), pattern(2, 20))
}

func transferNoAllocation(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to := a.to(b)
	b.to(a)
	head, body := make([]byte, 16), make([]byte, 32)
	long := make([]byte, a.MTU()-16)
	packets := make([]datagram.Packet, 16)
	round := func() {
		for range 10 {
			_ = a.Send(to, head, body)
		}
		_ = a.Send(to, head, long)
		_ = a.Flush()
		for range 20 {
			_, _ = b.Receive(packets, datagram.Target{})
			_, _ = a.Receive(packets, datagram.Target{})
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	round()
	require.Zero(t, testing.AllocsPerRun(100, round), "Send, Flush and Receive must not allocate")
}

// transferThreads: ports of different threads are independent.
func transferThreads(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	toB, toA := a.to(b), b.to(a)
	const rounds = 50
	deadline := time.Now().Add(s.Timeout)
	var wait sync.WaitGroup
	wait.Go(func() { // answers until it receives "stop"
		packets := make([]datagram.Packet, 8)
		for time.Now().Before(deadline) {
			n, _ := b.Receive(packets, datagram.Target{})
			for _, p := range packets[:n] {
				if string(p.Data) == "stop" {
					return
				}
				_ = b.Send(toA, p.Data, nil)
			}
			_ = b.Flush()
		}
	})
	defer wait.Wait()
	packets := make([]datagram.Packet, 8)
	for i := range rounds {
		ping := pattern(i, 24)
		for answered := false; !answered; {
			_ = a.Send(toB, []byte(ping), nil)
			_ = a.Flush()
			for sent := time.Now(); !answered && time.Since(sent) < s.resend(); {
				n, err := a.Receive(packets, datagram.Target{})
				require.NoError(t, err)
				for _, p := range packets[:n] {
					answered = answered || string(p.Data) == ping
				}
			}
			require.True(t, time.Now().Before(deadline), "timed out waiting for an answer")
		}
	}
	stopped := make(chan struct{})
	go func() { wait.Wait(); close(stopped) }()
	for ended := false; !ended; {
		_ = a.Send(toB, []byte("stop"), nil)
		_ = a.Flush()
		select {
		case <-stopped:
			ended = true
		case <-time.After(10 * time.Millisecond):
			_, _ = a.Receive(packets, datagram.Target{})
		}
	}
}
