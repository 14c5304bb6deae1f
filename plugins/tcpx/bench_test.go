package tcpx

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/conn"
)

// BenchmarkWork runs both sides of a stream, and of the raw loop, on one thread and counts the
// CPU time of each side, which works on a busy machine, too. The side that takes more limits a
// stream between two CPUs.
func BenchmarkWork(b *testing.B) {
	source, err := newSource()
	require.NoError(b, err)
	defer func() { require.NoError(b, unix.Munmap(source)) }()
	for _, options := range []map[string]string{{}, {"sockets": "4"}, {"unpack": "none"},
		{"source": "hot"}} {
		b.Run(fmt.Sprint(options), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := testSettings(b, options)
			for range b.N {
				raw, ours := [2]float64{math.Inf(1), math.Inf(1)},
					[2]float64{math.Inf(1), math.Inf(1)}
				for range fabrictest.Rounds("TCPX_ROUNDS", 15) {
					better(&raw, rawWork(b, s, source))
					better(&ours, work(b, s, source))
				}
				b.ReportMetric(raw[0], "raw-send-us/chunk")
				b.ReportMetric(raw[1], "raw-receive-us/chunk")
				b.ReportMetric(ours[0], "send-us/chunk")
				b.ReportMetric(ours[1], "receive-us/chunk")
				b.ReportMetric(max(raw[0], raw[1])/max(ours[0], ours[1]), "ours/raw")
			}
		})
	}
}

// better keeps the reading whose longer side took the least time.
func better(best *[2]float64, now [2]float64) {
	if max(now[0], now[1]) < max(best[0], best[1]) {
		*best = now
	}
}

// workChunks is how many chunks one reading of BenchmarkWork moves.
const workChunks = 256

// work returns the CPU time per chunk in microseconds, of the sender and the receiver.
func work(b *testing.B, s *settings, source []byte) (times [2]float64) {
	from, to, err := newSides(s, footprint)
	require.NoError(b, err)
	defer func() {
		require.NoError(b, from.Close())
		require.NoError(b, to.Close())
	}()
	touch(to.Destination.Host[:footprint])
	parts := s.parts(source, s.request)
	sends, receives := &from.Out, &to.In
	step := func(times *[2]float64) {
		at := threadTime()
		sends.FreeAll()
		for sends.UnderWay() < s.sendWindow {
			err := sends.PostSend(parts(), sends.Posted())
			require.NoError(b, err)
		}
		for before := uint64(1); before != from.Counters.SentBytes; {
			before = from.Counters.SentBytes
			require.NoError(b, from.Progress())
		}
		sent := threadTime()
		for receives.Posted()-receives.Consumed() < uint64(s.receiveWindow) {
			slot := int(receives.Posted()) % (footprint / s.request)
			err := receives.PostReceive(to.Destination.Slice(slot*s.request, s.request),
				receives.Posted())
			require.NoError(b, err)
		}
		for before := uint64(1); before != to.Counters.ReceivedBytes; {
			before = to.Counters.ReceivedBytes
			require.NoError(b, to.Progress())
			for consumed(b, receives) {
			}
		}
		times[0] += float64((sent - at).Nanoseconds())
		times[1] += float64((threadTime() - sent).Nanoseconds())
	}
	for range 2 { // the first warms up
		times = [2]float64{}
		for until := to.Counters.Consumes + workChunks; to.Counters.Consumes < until; {
			step(&times)
		}
	}
	return [2]float64{times[0] / workChunks / 1e3, times[1] / workChunks / 1e3}
}

// consumed consumes the oldest receive and reports whether it could.
func consumed(b *testing.B, in *conn.Receiver) bool {
	_, ok, err := in.Consume()
	require.NoError(b, err)
	return ok
}

// rawWork is work for the raw loop, with as many bytes in flight.
func rawWork(b *testing.B, s *settings, source []byte) (times [2]float64) {
	near, far, err := s.sock.Pairs(s.sockets)
	require.NoError(b, err)
	defer func() {
		require.NoError(b, sock.CloseAll(near))
		require.NoError(b, sock.CloseAll(far))
	}()
	parts, buffer := s.parts(source, s.chunk), make([]byte, s.chunk)
	left := make([][]byte, len(near))
	underWay := 0
	for range 2 {
		times = [2]float64{}
		for received := 0; received < workChunks*s.chunk; {
			at := threadTime()
			for moved := true; moved && underWay < s.sendWindow*s.request; {
				moved = false
				for i, fd := range near {
					if len(left[i]) == 0 {
						left[i] = parts()
					}
					n, err := sock.SendBytes(fd, left[i])
					require.NoError(b, err)
					left[i] = left[i][n:]
					underWay += n
					moved = moved || n > 0
				}
			}
			sent := threadTime()
			for moved := true; moved; {
				moved = false
				for _, fd := range far {
					n, err := sock.ReceiveBytes(fd, buffer)
					require.NoError(b, err)
					received += n
					underWay -= n
					moved = moved || n > 0
				}
			}
			times[0] += float64((sent - at).Nanoseconds())
			times[1] += float64((threadTime() - sent).Nanoseconds())
		}
	}
	return [2]float64{times[0] / workChunks / 1e3, times[1] / workChunks / 1e3}
}

// threadTime returns the CPU time of this thread. getrusage(2) may count in ticks; this is exact.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// testSettings resolves options.
func testSettings(tb testing.TB, options map[string]string) *settings {
	tb.Helper()
	values, err := transport.ParseOptions(schema, options)
	require.NoError(tb, err)
	s, err := resolve(transport.Config{Options: values})
	require.NoError(tb, err)
	return s
}
