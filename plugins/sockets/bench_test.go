package sockets

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

const (
	benchPayload = 32
	benchTime    = 100 * time.Millisecond
)

// BenchmarkRaw compares calls of this transport with a loop over the same kind of socket that has
// the same framing and makes plain sends and receives of batches, as a program without a transport
// would. The two alternate on the same two processors. It reports the median over the pairs of the
// transport's rate over that of the loop. SOCKETS_BENCH_ROUNDS sets the number of pairs.
func BenchmarkRaw(b *testing.B) {
	for _, engine := range []string{engineEpoll, engineUring} {
		for _, network := range bothNetworks {
			for _, inFlight := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/%d", engine, network, inFlight), func(b *testing.B) {
					benchmarkRaw(b, map[string]string{"engine": engine, "network": network},
						inFlight)
				})
			}
		}
	}
}

func benchmarkRaw(b *testing.B, options map[string]string, inFlight int) {
	threads := newBenchThreads(b)
	own := newBenchPair(b, threads, options, inFlight, benchPayload)
	// The loop has sockets with the same options.
	x := own.caller
	far, _ := dialled(b, x)
	require.NoError(b, unix.SetNonblock(far, true))
	var near int
	eventually(b, "the socket of the loop", func() bool {
		var err error
		near, _, err = x.settings.sock.AcceptFrom(x.connector.Acceptor.Listener)
		require.NoError(b, err)
		return near >= 0
	})
	defer func() { require.NoError(b, sock.CloseAll([]int{near, far})) }()
	raw := func() float64 {
		r, _ := rate(threads, func(stop *atomic.Bool) { rawServe(far, stop) },
			func(stop func(int) bool) { rawCalls(near, inFlight, stop) })
		return r
	}
	compare(b, raw, own.rate, "loop", "transport", "ratio")
}

// BenchmarkEngines compares calls with engine=uring with those with engine=epoll. The two alternate
// on the same two processors. It reports the median over the pairs of the rate with io_uring over
// that with epoll, and the system calls for each call, of both sides. SOCKETS_BENCH_ROUNDS sets the
// number of pairs.
func BenchmarkEngines(b *testing.B) {
	for _, network := range bothNetworks {
		for _, c := range []struct{ payload, inFlight int }{{32, 1}, {32, 64}, {64 << 10, 1},
			{64 << 10, 16}, {1 << 20, 1}, {1 << 20, 4}} {
			b.Run(fmt.Sprintf("%s/%s/%d", network, transport.FormatSize(int64(c.payload)),
				c.inFlight), func(b *testing.B) {
				threads := newBenchThreads(b)
				epoll := newBenchPair(b, threads,
					map[string]string{"network": network, "engine": engineEpoll}, c.inFlight,
					c.payload)
				uring := newBenchPair(b, threads,
					map[string]string{"network": network, "engine": engineUring}, c.inFlight,
					c.payload)
				compare(b, epoll.rate, uring.rate, engineEpoll, engineUring, "uring/epoll")
				b.ReportMetric(epoll.syscallsPerCall(), "epoll-syscalls/call")
				b.ReportMetric(uring.syscallsPerCall(), "uring-syscalls/call")
			})
		}
	}
}

// compare takes two rates in turns and reports their medians, and the median of the second over the
// first.
func compare(b *testing.B, first, second func() float64, firstName, secondName, ratioName string) {
	var firsts, seconds, ratios []float64
	for range fabrictest.Rounds("SOCKETS_BENCH_ROUNDS", 10) {
		f, s := first(), second()
		firsts, seconds, ratios = append(firsts, f), append(seconds, s), append(ratios, s/f)
	}
	for _, list := range [][]float64{firsts, seconds, ratios} {
		slices.Sort(list)
	}
	middle := len(ratios) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(firsts[middle], firstName+"-calls/s")
	b.ReportMetric(seconds[middle], secondName+"-calls/s")
	b.ReportMetric(ratios[middle], ratioName)
	b.Logf("ratios %.3f", ratios)
}

// benchThread runs functions on one thread, as the runtime does with all that a worker does: the
// kernel completes an operation of io_uring on the thread that began it.
type benchThread chan func()

// newBenchThreads starts a thread for the caller and one for the server, on two processors.
func newBenchThreads(b *testing.B) (threads [2]benchThread) {
	pins := fabrictest.PinTwo(b)
	processors := runtime.GOMAXPROCS(len(pins) + 2) // both threads spin in system calls
	percent := debug.SetGCPercent(-1)
	b.Cleanup(func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	})
	for i, pin := range pins {
		t, pinned := make(benchThread), make(chan error)
		go func() {
			pinned <- pin()
			for f := range t {
				f()
			}
		}()
		b.Cleanup(func() { close(t) })
		require.NoError(b, <-pinned)
		threads[i] = t
	}
	return threads
}

// start begins to run f. The channel is closed when f has returned.
func (t benchThread) start(f func()) <-chan struct{} {
	done := make(chan struct{})
	t <- func() {
		defer close(done)
		f()
	}
	return done
}

// meter takes the rate of calls in slices of time, so that the median leaves out those in which
// another program had a processor.
type meter struct {
	start, began  time.Time // of all, and of the slice
	calls, before int       // of all, and when the slice began
	looks         int
	rates         []float64
}

const benchSlice = time.Millisecond

// stop counts calls that were answered, and reports whether the time is over.
func (m *meter) stop(answered int) bool {
	m.calls += answered
	if m.looks++; m.looks%16 != 0 {
		return false
	}
	now := time.Now()
	if d := now.Sub(m.began); d >= benchSlice && m.calls > m.before {
		m.rates = append(m.rates, float64(m.calls-m.before)/d.Seconds())
		m.began, m.before = now, m.calls
	}
	return now.Sub(m.start) > benchTime && len(m.rates) > 0
}

// rate runs a server and a client on the threads, and returns the client's calls per second and how
// many it made.
func rate(threads [2]benchThread, server func(*atomic.Bool),
	client func(stop func(answered int) bool)) (perSecond float64, calls int) {
	var over atomic.Bool
	served := threads[1].start(func() { server(&over) })
	var m meter
	<-threads[0].start(func() {
		m = meter{start: time.Now(), began: time.Now()}
		client(m.stop)
	})
	over.Store(true)
	<-served
	slices.Sort(m.rates)
	return m.rates[len(m.rates)/2], m.calls
}

// benchPair is a caller and a server with one connection, each on its thread, and what they did.
type benchPair struct {
	caller, server    *worker
	threads           [2]benchThread
	inFlight, payload int
	answered          int
	syscalls          uint64
}

func newBenchPair(b *testing.B, threads [2]benchThread, options map[string]string,
	inFlight, payload int) *benchPair {
	cfg := transport.Config{Workers: 1, Peers: 1, InFlight: inFlight, MaxPayload: payload}
	ws := [2]*worker{openTestWorker(b, cfg, options), openTestWorker(b, cfg, options)}
	onBoth := func(f func(i int) error) {
		for i := range ws {
			var err error
			<-threads[i].start(func() { err = f(i) })
			require.NoError(b, err)
		}
	}
	onBoth(func(i int) error { return ws[i].Connect(context.Background(), 0, ws[1-i].Address()) })
	eventually(b, "the connection", func() bool {
		onBoth(func(i int) error {
			_, err := ws[i].Poll(nil)
			return err
		})
		return ws[0].byIndex[0].State == dial.Up && ws[1].byIndex[0].State == dial.Up
	})
	return &benchPair{caller: ws[0], server: ws[1], threads: threads, inFlight: inFlight,
		payload: payload}
}

func (p *benchPair) rate() float64 {
	before := p.caller.counters.Syscalls + p.server.counters.Syscalls
	r, answered := rate(p.threads, func(over *atomic.Bool) { serveCalls(p.server, over) },
		func(stop func(int) bool) { calls(p.caller, p.inFlight, p.payload, stop) })
	p.answered += answered
	p.syscalls += p.caller.counters.Syscalls + p.server.counters.Syscalls - before
	return r
}

func (p *benchPair) syscallsPerCall() float64 { return float64(p.syscalls) / float64(p.answered) }

// calls makes calls with inFlight of them in flight until stop, and then until all are answered.
func calls(w *worker, inFlight, size int, stop func(answered int) bool) {
	ops := make([]transport.Op, inFlight)
	payload := make([]byte, size)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: payload}
	}
	events := make([]transport.Event, inFlight)
	free, ending := inFlight, false
	for !ending || free < inFlight {
		if !ending && free > 0 {
			n, _ := w.Post(ops[:free])
			free -= n
			_ = w.Flush()
		}
		n, err := w.Poll(events)
		if err != nil {
			panic(err)
		}
		free += n
		ending = stop(n) || ending
	}
}

func serveCalls(w *worker, over *atomic.Bool) {
	events := make([]transport.Event, 64)
	replies := make([]transport.Op, 64)
	for !over.Load() {
		n, err := w.Poll(events)
		if err != nil {
			panic(err)
		}
		for i := range events[:n] {
			// Field by field, as worker.deliver fills events.
			e, reply := &events[i], &replies[i]
			reply.Kind, reply.Peer, reply.Token, reply.Payload = transport.OpReply, e.Peer, e.Token,
				e.Payload
		}
		for left := replies[:n]; len(left) > 0; {
			taken, err := w.Post(left)
			if err != nil {
				panic(err)
			}
			if left = left[taken:]; len(left) > 0 { // no room: what was posted must leave first
				_ = w.Flush()
				w.engine.progress()
			}
		}
		if n > 0 {
			_ = w.Flush()
		}
	}
}

// rawCalls is calls without a transport: 64-bit headers and payloads, in one buffer for each
// direction.
func rawCalls(fd, inFlight int, stop func(answered int) bool) {
	const size = headerSize + benchPayload
	out, in := make([]byte, inFlight*size), make([]byte, inFlight*size)
	payload := make([]byte, benchPayload)
	free, held, ending := inFlight, 0, false
	for !ending || free < inFlight {
		if !ending && free > 0 {
			for i := range free {
				at := out[i*size:]
				binary.LittleEndian.PutUint64(at, uint64(i)<<32|benchPayload)
				copy(at[headerSize:], payload)
			}
			rawSend(fd, out[:free*size])
			free = 0
		}
		n := rawReceive(fd, in, &held)
		free += n
		held = copy(in, in[n*size:held])
		ending = stop(n) || ending
	}
}

func rawServe(fd int, over *atomic.Bool) {
	const size = headerSize + benchPayload
	out, in := make([]byte, 64*size), make([]byte, 64*size)
	held := 0
	for !over.Load() {
		n := rawReceive(fd, in, &held)
		if n == 0 {
			continue
		}
		for i := range n {
			copy(out[i*size:], in[i*size:(i+1)*size])
		}
		rawSend(fd, out[:n*size])
		held = copy(in, in[n*size:held])
	}
}

// rawReceive receives what has come behind the held bytes, and returns how many whole messages
// there are.
func rawReceive(fd int, in []byte, held *int) (messages int) {
	n, err := sock.ReceiveBytes(fd, in[*held:])
	if err != nil {
		panic(err)
	}
	*held += n
	for left := in[:*held]; len(left) >= headerSize; messages++ {
		size := headerSize + int(binary.LittleEndian.Uint32(left))
		if len(left) < size {
			break
		}
		left = left[size:]
	}
	return messages
}

func rawSend(fd int, b []byte) {
	for len(b) > 0 {
		n, err := sock.SendBytes(fd, b)
		if err != nil {
			panic(err)
		}
		b = b[n:]
	}
}
