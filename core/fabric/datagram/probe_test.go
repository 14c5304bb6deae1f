package datagram

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// lossyLink is one end of a link in memory that holds up to room datagrams and drops some.
type lossyLink struct {
	mu     *sync.Mutex
	in     *[][]byte
	out    *[][]byte
	random *rand.Rand
	loss   float64
	room   int
	heads  [][]byte
}

func lossyLinks(loss float64, room int) (a, b *lossyLink) {
	var mu sync.Mutex
	var toA, toB [][]byte
	a = &lossyLink{mu: &mu, in: &toA, out: &toB, random: rand.New(rand.NewPCG(1, 1)), loss: loss, room: room}
	b = &lossyLink{mu: &mu, in: &toB, out: &toA, random: rand.New(rand.NewPCG(2, 2)), loss: loss, room: room}
	return a, b
}

func (l *lossyLink) post(head []byte, _, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		if len(*l.out) < l.room && l.random.Float64() >= l.loss {
			*l.out = append(*l.out, slices.Clone(head))
		}
	}
	return n
}

func (l *lossyLink) take(most int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(most, len(*l.in))
	l.heads = append(l.heads[:0], (*l.in)[:n]...)
	*l.in = (*l.in)[n:]
	return n
}

func (l *lossyLink) head(i int) []byte { return l.heads[i] }

// TestProbeWithLoss: a probe gives a reading in spite of losses.
func TestProbeWithLoss(t *testing.T) {
	for _, c := range []struct {
		loss float64
		room int
	}{{0, 1 << 20}, {0.05, 1 << 20}, {0, 10}, {0.05, 3}} {
		a, b := lossyLinks(c.loss, c.room)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var last [2]uint64
		for range 2 {
			var wait sync.WaitGroup
			var otherErr error
			wait.Go(func() {
				// All answers to the farewell may get lost.
				_, otherErr = measure(ctx, b, 600, transport.Probe{Kind: transport.ProbeMedium, Duration: 4 * time.Millisecond}, &last[1])
			})
			f, err := measure(ctx, a, 600, transport.Probe{Kind: transport.ProbeMedium, Initiate: true, Duration: 4 * time.Millisecond}, &last[0])
			wait.Wait()
			require.NoError(t, err)
			require.NoError(t, otherErr)
			require.Positive(t, f.RoundTrip)
			require.Positive(t, f.Rate)
			require.Positive(t, f.Bandwidth)
			a, b = b, a
			last[0], last[1] = last[1], last[0]
		}
		cancel()
	}
}

// TestProbeAfterAbandonedProbe: datagrams of an abandoned probe neither end nor block the next one.
func TestProbeAfterAbandonedProbe(t *testing.T) {
	a, b := lossyLinks(0, 1<<20)
	var last uint64
	for range 3 {
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := measure(short, a, 600, transport.Probe{Kind: transport.ProbeMedium, Initiate: true, Duration: time.Millisecond}, new(uint64))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	// A farewell from a probe that this side had abandoned.
	head := make([]byte, probeSize)
	stray := probeHead{kind: probeOver, nonce: 99}
	stray.put(head)
	a.post(head, probeSize, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wait sync.WaitGroup
	var otherErr error
	wait.Go(func() {
		_, otherErr = measure(ctx, b, 600, transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond}, &last)
	})
	var f transport.Floor
	f, err := measure(ctx, a, 600, transport.Probe{Kind: transport.ProbeMedium, Initiate: true, Duration: time.Millisecond}, new(uint64))
	wait.Wait()
	require.NoError(t, err)
	require.NoError(t, otherErr)
	require.Positive(t, f.Samples)
}

// awayLink loses all farewells for a while.
type awayLink struct {
	*lossyLink
	first time.Time // farewell
}

func (l *awayLink) post(head []byte, size, n int) int {
	var h probeHead
	if h.get(head) && h.kind == probeOver {
		if l.first.IsZero() {
			l.first = time.Now()
		}
		if time.Since(l.first) < 150*time.Millisecond {
			return n
		}
	}
	return l.lossyLink.post(head, size, n)
}

// TestProbeRepeatsFarewell: the answering side ends soon after the first farewell that arrives, not
// with its context.
func TestProbeRepeatsFarewell(t *testing.T) {
	a, b := lossyLinks(0, 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wait sync.WaitGroup
	var otherErr error
	wait.Go(func() {
		_, otherErr = measure(ctx, b, 600, transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond}, new(uint64))
	})
	_, err := measure(ctx, &awayLink{lossyLink: a}, 600, transport.Probe{Kind: transport.ProbeMedium, Initiate: true, Duration: time.Millisecond}, new(uint64))
	wait.Wait()
	require.NoError(t, err)
	require.NoError(t, otherErr)
}
