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
	a = &lossyLink{mu: &mu, in: &toA, out: &toB, random: rand.New(rand.NewPCG(1, 1)), loss: loss,
		room: room}
	b = &lossyLink{mu: &mu, in: &toB, out: &toA, random: rand.New(rand.NewPCG(2, 2)), loss: loss,
		room: room}
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

func (l *lossyLink) take(maximum int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(maximum, len(*l.in))
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
		for _, asked := range []transport.Probe{
			{Kind: transport.ProbeMedium, Forth: 40},
			{Kind: transport.ProbeRate, Back: 40, InFlight: 32},
			{Kind: transport.ProbeMedium, Back: 1300}, {Kind: transport.ProbeRate, Forth: 1300,
				InFlight: 4},
			{Kind: transport.ProbeRate, Forth: 1300, Back: 1300, InFlight: 1},
		} {
			asked.Duration = time.Millisecond
			lead := asked
			lead.Initiate = true
			var wait sync.WaitGroup
			var otherErr error
			wait.Go(func() {
				// All answers to the farewell may get lost.
				_, otherErr = measure(ctx, b, 600, asked, &last[1])
			})
			f, err := measure(ctx, a, 600, lead, &last[0])
			wait.Wait()
			require.NoError(t, err)
			require.NoError(t, otherErr)
			require.Positive(t, f.Samples, "%+v", asked)
			require.Positive(t, f.RoundTrip+f.PerOp, "%+v", asked)
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
		_, err := measure(short, a, 600, transport.Probe{Kind: transport.ProbeMedium,
			Initiate: true, Duration: time.Millisecond}, new(uint64))
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
		_, otherErr = measure(ctx, b, 600, transport.Probe{Kind: transport.ProbeMedium,
			Duration: time.Millisecond}, &last)
	})
	var f transport.Floor
	f, err := measure(ctx, a, 600, transport.Probe{Kind: transport.ProbeMedium, Initiate: true,
		Duration: time.Millisecond}, new(uint64))
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
		_, otherErr = measure(ctx, b, 600, transport.Probe{Kind: transport.ProbeMedium,
			Duration: time.Millisecond}, new(uint64))
	})
	_, err := measure(ctx, &awayLink{lossyLink: a}, 600,
		transport.Probe{Kind: transport.ProbeMedium, Initiate: true, Duration: time.Millisecond},
		new(uint64))
	wait.Wait()
	require.NoError(t, err)
	require.NoError(t, otherErr)
}

// TestMessagesInDatagrams: a message is the payload and a header, in full datagrams but the last,
// and an answer has exactly the datagrams of a message.
func TestMessagesInDatagrams(t *testing.T) {
	require.Equal(t, shape{1, 32, 32}, shapeOf(0, 1000))
	require.Equal(t, shape{1, 64, 64}, shapeOf(48, 1000))
	require.Equal(t, shape{1, 1000, 1000}, shapeOf(984, 1000))
	require.Equal(t, shape{2, 1000, 32}, shapeOf(985, 1000),
		"the probe's own header needs 32 bytes")
	require.Equal(t, shape{101, 1000, 500}, shapeOf(100_484, 1000))

	l := &countingLink{}
	p := &probe{link: l, mtu: 1000, back: shapeOf(100_484, 1000)}
	p.reply(&probeHead{count: 3 * 101, size: p.back.last})
	require.Equal(t, map[int]int{1000: 300, 500: 3}, l.sent)
}

// countingLink counts datagrams by size and takes some of each call.
type countingLink struct{ sent map[int]int }

func (l *countingLink) post(_ []byte, size, n int) int {
	if l.sent == nil {
		l.sent = map[int]int{}
	}
	n = min(n, 17)
	l.sent[size] += n
	return n
}

func (*countingLink) take(int) int { return 0 }

func (*countingLink) head(int) []byte { return nil }

// batchLink records the largest batch that was posted, and the most that were posted and not
// answered.
type batchLink struct {
	*lossyLink
	batch, inFlight, maximum int
}

func (l *batchLink) post(head []byte, size, n int) int {
	if head[4] == probeRequest || head[4] == probeAnswer {
		l.batch = max(l.batch, n)
		l.inFlight += n
		l.maximum = max(l.maximum, l.inFlight)
	}
	return l.lossyLink.post(head, size, n)
}

func (l *batchLink) take(maximum int) int {
	n := l.lossyLink.take(maximum)
	l.inFlight -= n
	return n
}

// follow runs the answering side of a probe until the returned function is called.
func follow(t *testing.T, l link, mtu int) (end func()) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var wait sync.WaitGroup
	wait.Go(
		func() {
			_, _ = measure(ctx, l, mtu, transport.Probe{Kind: transport.ProbeRate, Back: 48},
				new(uint64))
		})
	return func() { cancel(); wait.Wait() }
}

// TestProbeInFlight: as many messages are in flight as asked for if their bytes fit, whatever the
// MTU.
func TestProbeInFlight(t *testing.T) {
	for inFlight, maximum := range map[int]int{1: 1, 32: 32, 1 << 20: 1 << 10} {
		l, far := lossyLinks(0, 1<<20)
		a := &batchLink{lossyLink: l}
		end := follow(t, far, UDPMaxMTU)
		f, err := measure(t.Context(), a, UDPMaxMTU, transport.Probe{
			Kind: transport.ProbeRate, Initiate: true, Duration: time.Millisecond, Forth: 48,
			Back: 48, InFlight: inFlight,
		}, new(uint64))
		end()
		require.NoError(t, err)
		require.Positive(t, f.PerOp)
		require.Equal(t, min(inFlight, maxProbe), a.batch)
		require.GreaterOrEqual(t, a.maximum, maximum)
	}
	require.Equal(t, 2000+minProbe, shapeOf(2100, 2000).room(),
		"a short datagram takes more than its bytes")
}

// TestProbeInHalves: split batches never merge, on neither side.
func TestProbeInHalves(t *testing.T) {
	require.Equal(t, []batching{{group: 1}}, batchings(1))
	require.Equal(t, []batching{{group: 1}, {group: 3}, {1, true}}, batchings(3))
	require.Equal(t, []batching{{group: 1}, {group: 32}, {16, true}, {8, true}}, batchings(32))

	for way, batch := range map[batching]int{{16, true}: 16, {group: 32}: 32} {
		l, m := lossyLinks(0, 1<<20)
		a, b := &batchLink{lossyLink: l}, &batchLink{lossyLink: m}
		end := follow(t, b, UDPMaxMTU)
		s := shapeOf(48, UDPMaxMTU)
		p := &probe{link: a, mtu: UDPMaxMTU, forth: s, back: s, nonce: 1}
		ops, _ := p.slice(time.Millisecond, 32, way)
		end()
		require.Positive(t, ops)
		require.Equal(t, batch, a.batch)
		require.LessOrEqual(t, b.batch, batch)
	}
}

// TestForgedRequest: a request for more or longer answers than those of the probe, of somebody who
// forges the peer's address, is not answered, and the peer's next one is.
func TestForgedRequest(t *testing.T) {
	a, far := lossyLinks(0, 1<<20)
	b := &batchLink{lossyLink: far}
	end := follow(t, b, UDPMaxMTU)
	size := shapeOf(48, UDPMaxMTU).last
	for _, h := range []probeHead{
		{count: 1000, size: size, group: 1}, {count: 1, size: UDPMaxMTU, group: 1},
		{count: 1, size: size, group: 1, number: 7},
	} {
		h.kind = probeRequest
		h.nonce = 5
		head := make([]byte, probeSize)
		h.put(head)
		require.Equal(t, 1, a.post(head, size, 1))
	}
	var answer probeHead
	require.Eventually(t, func() bool { return a.take(1) == 1 }, patience, time.Millisecond)
	require.True(t, answer.get(a.head(0)))
	require.EqualValues(t, 7, answer.number)
	end()
	require.Zero(t, a.take(1))
	require.Equal(t, 1, b.batch)
}
