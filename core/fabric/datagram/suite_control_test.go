package datagram_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

var controlTests = []test{
	{"control/address", controlAddress},
	{"control/open-and-release", controlOpen},
	{"control/refuses", controlRefuses},
	{"control/misuse", controlMisuse},
	{"control/closed", controlClosed},
	{"control/stats", controlStats},
	{"control/wait", controlWait},
	{"control/probe", controlProbe},
	{"control/descriptors", controlDescriptors},
}

func controlAddress(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	before := slices.Clone(a.Address())
	require.NotEmpty(t, before)
	require.NotEqual(t, before, b.Address())
	to := a.to(b)
	b.to(a)
	a.send(to, "something")
	a.flush()
	require.Equal(t, before, a.Address())
	require.Equal(t, a.MTU(), b.MTU())
}

// controlOpen: remotes are small dense numbers that Release frees; releasing one does not affect
// another, even of the same address.
func controlOpen(t *testing.T, s *suite) {
	x := s.nodes(t, 4)
	a, others := x[0], x[1:]
	for round := range 3 {
		var to []datagram.Remote
		for _, o := range others {
			// Open must not keep the address.
			address := slices.Clone(o.Address())
			r, err := a.Open(address)
			require.NoError(t, err)
			clear(address)
			require.Less(t, int(r), len(others)+1)
			require.NotContains(t, to, r)
			to = append(to, r)
		}
		again := a.to(others[0])
		require.Equal(t, a.Source(to[0]), a.Source(again))
		a.Release(to[1])
		for i, o := range others {
			if i == 1 {
				continue
			}
			back := o.to(a)
			a.deliver(to[i], o, o.Source(back), pattern(round*10+i, 30))
			o.Release(back)
		}
		a.Release(to[0])
		back := others[0].to(a)
		a.deliver(again, others[0], others[0].Source(back), pattern(round*10+5, 30))
		others[0].Release(back)
		a.Release(again)
		a.Release(to[2])
	}
}

// controlRefuses: an invalid address is an error and has no other effect.
func controlRefuses(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	const stray = "anybody there?"
	good := b.Address()
	random := rand.New(rand.NewPCG(1, 2))
	junk := [][]byte{nil, {}, {1}, []byte("127.0.0.1:80"), make([]byte, len(good)),
		slices.Repeat([]byte{0xff}, len(good)), good[:len(good)-1]}
	for range 200 {
		j := make([]byte, random.IntN(2*len(good)))
		for i := range j {
			j[i] = byte(random.Uint32())
		}
		junk = append(junk, j)
	}
	for _, j := range junk {
		_, err := a.Open(j)
		require.Error(t, err, "address %x", j)
		require.NotContains(t, err.Error(), "\n")
	}
	// A wrong byte must do no harm, even if Open cannot detect it.
	for i := range good {
		damaged := slices.Clone(good)
		damaged[i] ^= 0x55
		if r, err := a.Open(damaged); err == nil {
			a.Send(r, []byte(stray), nil)
			a.flush()
			a.Release(r)
		}
	}
	b.known[stray] = true
	to, from := a.to(b), b.to(a)
	a.deliver(to, b, b.Source(from), pattern(1, 60))
}

func controlMisuse(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to := a.to(b)
	require.Panics(t, func() { a.Send(to, make([]byte, a.MTU()), []byte{1}) },
		"a datagram that exceeds the MTU")
	if !s.Lossy { // a dropped datagram is not checked
		require.Panics(t, func() { a.Send(to+1, nil, []byte{1}) }, "a remote that was never open")
		a.Release(to)
		require.Panics(t, func() { a.Send(to, nil, []byte{1}) }, "a released remote")
	}
	a.Release(99)
	to = a.to(b)
	a.deliver(to, b, b.Source(b.to(a)), pattern(1, 60))
}

func controlClosed(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to := a.to(b)
	a.Send(to, nil, []byte("given up"))
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.False(t, a.Send(to, nil, []byte{1}))
	require.ErrorIs(t, a.Flush(), datagram.ErrClosed)
	_, err := a.Receive(a.packets, datagram.Target{})
	require.ErrorIs(t, err, datagram.ErrClosed)
	_, err = a.Open(b.Address())
	require.ErrorIs(t, err, datagram.ErrClosed)
	a.Release(to)
	require.NotEmpty(t, a.Address())
	require.NotEmpty(t, a.ReadStats(nil))
	if w, ok := a.Port.(datagram.Waiter); ok {
		w.Wake()
		require.ErrorIs(t, w.Wait(time.Hour), datagram.ErrClosed)
	}
}

func controlStats(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	value := func(stats []transport.Stat, name string) uint64 {
		for _, c := range stats {
			if c.Name == name {
				return c.Value
			}
		}
		require.Fail(t, "no such counter", name)
		return 0
	}
	before := a.ReadStats(nil)
	names := map[string]bool{}
	for _, c := range before {
		require.NotEmpty(t, c.Help, c.Name)
		require.False(t, names[c.Name], "two counters named %s", c.Name)
		names[c.Name] = true
	}
	var data []string
	for i := range 10 {
		data = append(data, pattern(1+i, 50))
	}
	a.deliver(to, b, b.Source(from), data...)
	after := a.ReadStats(nil)
	for i := range before {
		require.Equal(t, before[i].Name, after[i].Name)
		require.GreaterOrEqual(t, after[i].Value, before[i].Value)
	}
	require.GreaterOrEqual(t, value(after, "datagrams_sent"), uint64(5))
	require.GreaterOrEqual(t, value(b.ReadStats(nil), "datagrams_received"), uint64(5))
	require.NotEmpty(t, a.Notes())
}

func controlWait(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	w, ok := b.Port.(datagram.Waiter)
	if !ok {
		t.Skip("this port cannot wait")
	}
	start := time.Now()
	require.NoError(t, w.Wait(time.Millisecond))
	require.NoError(t, w.Wait(0))
	require.NoError(t, w.Wait(-time.Second))
	w.Wake() // before Wait
	require.NoError(t, w.Wait(s.Timeout))
	var wait sync.WaitGroup
	wait.Go(func() { time.Sleep(time.Millisecond); w.Wake() }) // during Wait
	require.NoError(t, w.Wait(s.Timeout))
	wait.Wait()
	b.packets = b.packets[:1]
	for i := range 5 {
		want := map[string]bool{pattern(1+i, 40): true, pattern(100+i, 40): true}
		for d := range want {
			a.send(to, d)
		}
		a.flush()
		for deadline := time.Now().Add(s.Timeout); len(want) > 0; {
			patience := s.Timeout
			if s.Lossy {
				patience = s.resend()
			}
			require.NoError(t, w.Wait(patience))
			b.poll()
			for _, m := range b.take() {
				require.Equal(t, b.Source(from), m.source)
				delete(want, m.data)
			}
			a.poll()
			if s.Lossy {
				for d := range want {
					a.send(to, d)
				}
				a.flush()
			}
			require.True(t, time.Now().Before(deadline))
		}
	}
	require.Less(t, time.Since(start), s.Timeout, "a wait ended only with its timeout")
}

func controlProbe(t *testing.T, s *suite) {
	x := s.nodes(t, 2)
	a, b := x[0], x[1]
	to, from := a.to(b), b.to(a)
	pa, ok := a.Port.(datagram.Prober)
	if !ok {
		t.Skip("this port cannot measure its floor")
	}
	pb := b.Port.(datagram.Prober)
	ctx, cancel := context.WithTimeout(t.Context(), s.Timeout)
	defer cancel()
	for _, kind := range []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate,
		transport.ProbeMedium} {
		asked := transport.Probe{Kind: kind, Duration: 5 * time.Millisecond, Forth: 16, Back: 3000,
			InFlight: 8}
		lead := asked
		lead.Initiate = true
		var theirs transport.Floor
		var theirErr error
		var wait sync.WaitGroup
		wait.Go(func() {
			theirs, theirErr = pb.Probe(ctx, from, asked)
		})
		ours, err := pa.Probe(ctx, to, lead)
		wait.Wait()
		require.NoError(t, err)
		require.NoError(t, theirErr)
		require.Zero(t, theirs)
		require.NotEmpty(t, ours.Name)
		require.Positive(t, ours.RoundTrip+ours.PerOp)
		require.Positive(t, ours.Samples)
	}
	// A probe without a partner ends with its context.
	for _, initiate := range []bool{true, false} {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := pa.Probe(short, to, transport.Probe{Kind: transport.ProbeMedium,
			Initiate: initiate, Duration: time.Millisecond})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	a.deliver(to, b, b.Source(from), pattern(1, 60))
}

// controlDescriptors: a closed port leaves no descriptor behind.
func controlDescriptors(t *testing.T, s *suite) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	once := func() {
		a, err := s.Open()
		require.NoError(t, err)
		b, err := s.Open()
		require.NoError(t, err)
		to, err := a.Open(b.Address())
		require.NoError(t, err)
		a.Send(to, nil, []byte("hello"))
		require.NoError(t, a.Flush())
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
	once()
	before := count()
	for range 20 {
		once()
	}
	// Other tests of the process may open descriptors meanwhile.
	require.Eventually(t, func() bool { return count() < before+20 }, s.Timeout,
		10*time.Millisecond,
		"descriptors leak: %d before", before)
}
