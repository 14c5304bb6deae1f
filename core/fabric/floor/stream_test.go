package floor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// streamPair returns two ports that know each other.
func streamPair(tb testing.TB) (a, b *StreamPort) {
	var ports [2]*StreamPort
	for i := range ports {
		p, err := ListenStream(loopback)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, p.Close()) })
		ports[i] = p
	}
	return ports[0], ports[1]
}

func probeStream(tb testing.TB, a, b *StreamPort, probe transport.Probe) transport.Floor {
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	lead := probe
	lead.Initiate = true
	var far sync.WaitGroup
	far.Go(func() {
		reading, err := b.Probe(ctx, a.Address(), probe)
		require.NoError(tb, err)
		require.Zero(tb, reading)
	})
	reading, err := a.Probe(ctx, b.Address(), lead)
	far.Wait()
	require.NoError(tb, err)
	require.Positive(tb, reading.Samples)
	return reading
}

func TestStream(t *testing.T) {
	a, b := streamPair(t)
	for _, size := range []int{0, 48, 5000, 300_000, 3 << 20} {
		for _, n := range []int{0, 1, 5, 32} {
			probe := transport.Probe{Kind: transport.ProbeRate, Duration: time.Millisecond,
				Forth: size, Back: 16, InFlight: n}
			require.Positive(t, probeStream(t, a, b, probe).PerOp, "%d bytes, %d in flight", size,
				n)
			probe.Forth, probe.Back = 16, size
			require.Positive(t, probeStream(t, b, a, probe).PerOp, "%d bytes, %d in flight", size,
				n)
		}
		for _, back := range []int{0, size} {
			probe := transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond,
				Forth: size, Back: back}
			require.Positive(t, probeStream(t, a, b, probe).RoundTrip, "%d and %d bytes",
				size, back)
		}
	}
}

// TestUnixStream probes Unix sockets, and refuses a port of TCP.
func TestUnixStream(t *testing.T) {
	var ports [2]*StreamPort
	for i := range ports {
		p, err := ListenUnixStream()
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		ports[i] = p
	}
	f := probeStream(t, ports[0], ports[1], transport.Probe{Kind: transport.ProbeMedium, Forth: 64,
		Duration: 5 * time.Millisecond})
	require.Equal(t, "raw Unix ping-pong", f.Name)
	require.Positive(t, f.RoundTrip)
	f = probeStream(t, ports[0], ports[1], transport.Probe{Kind: transport.ProbeRate, Forth: 64,
		InFlight: 8, Duration: 5 * time.Millisecond})
	require.Positive(t, f.PerOp)
	tcp, _ := streamPair(t)
	_, err := ports[0].Probe(context.Background(), tcp.Address(),
		transport.Probe{Kind: transport.ProbeMedium, Initiate: true})
	require.ErrorContains(t, err, "another kind of socket")
}

// TestStreamGivenUp: a probe without the other side ends with its context, and what it leaves
// behind does not disturb the next one.
func TestStreamGivenUp(t *testing.T) {
	a, b := streamPair(t)
	for _, kind := range []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate} {
		for range 3 {
			for _, initiate := range []bool{true, false} {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				_, err := a.Probe(ctx, b.Address(), transport.Probe{Kind: kind, Initiate: initiate,
					Duration: time.Second, InFlight: 4})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
		}
		probeStream(t, a, b, transport.Probe{Kind: kind, Duration: time.Millisecond, InFlight: 4})
	}
	_, err := a.Probe(t.Context(), b.Address(), transport.Probe{Kind: transport.ProbeLibrary})
	require.ErrorIs(t, err, transport.ErrUnsupported)
	_, err = a.Probe(t.Context(), []byte("nonsense"), transport.Probe{Kind: transport.ProbeMedium})
	require.Error(t, err)
}

// TestStreamOfStrangers: sockets of strangers, silent or not, do not take a probe's place.
func TestStreamOfStrangers(t *testing.T) {
	a, b := streamPair(t)
	var to streamAddress
	require.NoError(t, to.decode(b.Address()))
	for i := range 3 {
		fd := dial(t, &to)
		if i > 0 {
			_, _ = streamSend(fd, make([]byte, 16*i))
		}
	}
	probeStream(t, a, b, transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond})
}

// dial connects a stranger to a port.
func dial(t *testing.T, to *streamAddress) int {
	t.Helper()
	fd, err := (&sock.Options{Timeout: time.Second}).DialTo(to.socketAddress())
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// TestStreamInACrowd: a peer gets in although more strangers than the port holds came before and
// after it.
func TestStreamInACrowd(t *testing.T) {
	a, b := streamPair(t)
	var to streamAddress
	require.NoError(t, to.decode(b.Address()))
	crowd := func() {
		for range 150 {
			dial(t, &to)
		}
	}
	crowd()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var near sync.WaitGroup
	near.Go(func() {
		f, err := a.Probe(ctx, b.Address(), transport.Probe{Kind: transport.ProbeMedium,
			Initiate: true, Duration: time.Millisecond})
		require.NoError(t, err)
		require.Positive(t, f.RoundTrip)
	})
	time.Sleep(20 * time.Millisecond) // the peer dials
	crowd()
	_, err := b.Probe(ctx, a.Address(), transport.Probe{Kind: transport.ProbeMedium,
		Duration: time.Millisecond})
	near.Wait()
	require.NoError(t, err)
	require.NotZero(t, b.acceptor.Strangers)
}

// TestStreamHellos: a socket takes the place of a peer's only if its hello has all bits of the
// port's nonce and comes from the port that it names. So a recorded hello is worth nothing.
func TestStreamHellos(t *testing.T) {
	a, b := streamPair(t)
	var to, from streamAddress
	require.NoError(t, to.decode(b.Address()))
	require.NoError(t, from.decode(a.Address()))
	say := func(nonce, offset uint64) {
		fd := dial(t, &to)
		own, err := unix.Getsockname(fd)
		require.NoError(t, err)
		hello := make([]byte, 0, 24)
		for _, v := range []uint64{nonce, from.Nonce, uint64(sock.PortOf(own)) + offset} {
			hello = binary.LittleEndian.AppendUint64(hello, v)
		}
		n, err := streamSend(fd, hello)
		require.NoError(t, err)
		require.Len(t, hello, n)
		require.Eventually(t, func() bool {
			require.NoError(t, b.acceptor.Accept(b.decide))
			_, taken := b.waiting[from.Nonce]
			_, err := streamReceive(fd, make([]byte, 1))
			return taken || err != nil
		}, time.Minute, time.Millisecond)
	}
	for bit := range 64 {
		say(to.Nonce^1<<bit, 0)
		require.Empty(t, b.waiting, "bit %d", bit)
	}
	say(0, 0)
	say(to.Nonce, 1)
	require.Empty(t, b.waiting)
	say(to.Nonce, 0)
	require.Len(t, b.waiting, 1)
}

// TestUnixStreamCrowd: a probe begins although strangers have filled the queue of the port.
func TestUnixStreamCrowd(t *testing.T) {
	a, err := ListenUnixStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	b, err := ListenUnixStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	var to streamAddress
	require.NoError(t, to.decode(b.Address()))
	for full := false; !full; {
		fd, err := b.options.DialTo(to.socketAddress())
		if full = errors.Is(err, unix.EAGAIN); !full {
			require.NoError(t, err)
			defer unix.Close(fd)
		}
	}
	f := probeStream(t, a, b, transport.Probe{Kind: transport.ProbeMedium,
		Duration: time.Millisecond})
	require.Positive(t, f.RoundTrip)
}

// BenchmarkStream shows the floors of TCP over the loopback by payload and in flight.
func BenchmarkStream(b *testing.B) {
	x, y := streamPair(b)
	for _, size := range []int{16, 48, 4 << 10, 64 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("medium/%d", size), func(b *testing.B) {
			f := probeStream(b, x, y, transport.Probe{Kind: transport.ProbeMedium,
				Duration: 20 * time.Millisecond, Forth: size, Back: 16})
			b.ReportMetric(f.RoundTrip, "ns/trip")
		})
		for _, n := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("rate/%d/%d", size, n), func(b *testing.B) {
				f := probeStream(b, x, y, transport.Probe{Kind: transport.ProbeRate,
					Duration: 20 * time.Millisecond, Forth: size, Back: 16, InFlight: n})
				b.ReportMetric(f.PerOp, "ns/msg")
			})
		}
	}
}
