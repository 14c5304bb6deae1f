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

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

const (
	benchPayload = 32
	benchTime    = 100 * time.Millisecond
)

// BenchmarkRaw compares calls of this transport with a loop over the same kind of socket that has the
// same framing and makes plain sends and receives of batches, as a program without a transport would. The
// two alternate on the same two processors. It reports the median over the pairs of the transport's rate
// over that of the loop. SOCKETS_BENCH_ROUNDS sets the number of pairs.
func BenchmarkRaw(b *testing.B) {
	for _, network := range bothNetworks {
		for _, inFlight := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", network, inFlight), func(b *testing.B) { benchmarkRaw(b, network, inFlight) })
		}
	}
}

func benchmarkRaw(b *testing.B, network string, inFlight int) {
	cpus := transporttest.Processors(b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(len(cpus) + 2)) // both threads spin in system calls
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	x, y := connectedPair(b, map[string]string{"network": network}, inFlight)
	// The loop has sockets with the same options.
	far, _ := dialled(b, x)
	require.NoError(b, unix.SetNonblock(far, true))
	var near int
	eventually(b, "the socket of the loop", func() bool {
		var err error
		near, _, err = x.settings.sock.AcceptFrom(x.acceptor.Listener)
		require.NoError(b, err)
		return near >= 0
	})
	defer func() { require.NoError(b, sock.CloseAll([]int{near, far})) }()

	var ratios, rates []float64
	for range transporttest.Rounds("SOCKETS_BENCH_ROUNDS", 10) {
		plain := rate(b, cpus, func(stop *atomic.Bool) { rawServe(far, stop) },
			func(stop func(int) bool) { rawCalls(near, inFlight, stop) })
		own := rate(b, cpus, func(stop *atomic.Bool) { serveCalls(y, stop) },
			func(stop func(int) bool) { calls(x, inFlight, stop) })
		ratios, rates = append(ratios, own/plain), append(rates, own)
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(rates[len(rates)/2], "calls/s")
	b.Logf("ratios %.3f", ratios)
}

// meter takes the rate of calls in slices of time, so that the median leaves out those in which
// another program had a processor.
type meter struct {
	start, began time.Time
	calls, looks int
	rates        []float64
}

const benchSlice = time.Millisecond

// stop counts calls that were answered, and reports whether the time is over.
func (m *meter) stop(answered int) bool {
	m.calls += answered
	if m.looks++; m.looks%16 != 0 {
		return false
	}
	now := time.Now()
	if d := now.Sub(m.began); d >= benchSlice {
		m.rates = append(m.rates, float64(m.calls)/d.Seconds())
		m.began, m.calls = now, 0
	}
	return now.Sub(m.start) > benchTime && len(m.rates) > 0
}

// rate runs a server and a client on two processors and returns the client's calls per second.
func rate(b *testing.B, cpus [2]int, server func(*atomic.Bool), client func(stop func(answered int) bool)) float64 {
	var over atomic.Bool
	served := make(chan error, 1)
	go func() {
		if err := transporttest.Pin(cpus[1]); err != nil {
			served <- err
			return
		}
		server(&over)
		served <- nil
	}()
	result := make(chan float64, 1)
	go func() {
		if err := transporttest.Pin(cpus[0]); err != nil {
			panic(err)
		}
		m := meter{start: time.Now(), began: time.Now()}
		client(m.stop)
		slices.Sort(m.rates)
		result <- m.rates[len(m.rates)/2]
	}()
	r := <-result
	over.Store(true)
	require.NoError(b, <-served)
	return r
}

// connectedPair returns two workers with one connection.
func connectedPair(t testing.TB, options map[string]string, inFlight int) (x, y *worker) {
	values, err := transport.ParseOptions(schema, options)
	require.NoError(t, err)
	var ws [2]*worker
	for i := range ws {
		tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: 1, Peers: 1, InFlight: inFlight, MaxPayload: benchPayload, Options: values})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(t, err)
		ws[i] = w.(*worker)
	}
	x, y = ws[0], ws[1]
	require.NoError(t, x.Connect(context.Background(), 0, y.Address()))
	require.NoError(t, y.Connect(context.Background(), 0, x.Address()))
	eventually(t, "the connection", func() bool {
		for _, w := range ws {
			_, err := w.Poll(nil)
			require.NoError(t, err)
		}
		return x.byIndex[0].state == up && y.byIndex[0].state == up
	})
	return x, y
}

// calls makes calls with inFlight of them in flight until stop, and then until all are answered.
func calls(w *worker, inFlight int, stop func(answered int) bool) {
	ops := make([]transport.Op, inFlight)
	payload := make([]byte, benchPayload)
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
			reply.Kind, reply.Peer, reply.Token, reply.Payload = transport.OpReply, e.Peer, e.Token, e.Payload
		}
		for left := replies[:n]; len(left) > 0; {
			taken, err := w.Post(left)
			if err != nil {
				panic(err)
			}
			left = left[taken:]
		}
		if n > 0 {
			_ = w.Flush()
		}
	}
}

// rawCalls is calls without a transport: 64-bit headers and payloads, in one buffer for each direction.
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

// rawReceive receives what has come behind the held bytes, and returns how many whole messages there are.
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
