package sockets

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// BenchmarkEngines compares calls with engine=uring with those with engine=epoll. The two alternate on the same
// two processors. It reports the median over the pairs of the rate with io_uring over that with epoll, and
// the system calls for each call, of both sides. SOCKETS_BENCH_ROUNDS sets the number of pairs.
func BenchmarkEngines(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		for _, c := range []struct{ payload, inFlight int }{{32, 1}, {32, 64}, {64 << 10, 1}, {64 << 10, 16}, {1 << 20, 1}, {1 << 20, 4}} {
			b.Run(fmt.Sprintf("%s/%s/%d", network, transport.FormatSize(int64(c.payload)), c.inFlight), func(b *testing.B) {
				benchmarkEngines(b, network, c.payload, c.inFlight)
			})
		}
	}
}

func benchmarkEngines(b *testing.B, network string, payload, inFlight int) {
	cpus := transporttest.Processors(b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(len(cpus) + 2)) // both threads spin
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	engines := []string{engineEpoll, engineUring}
	var pairs [2]enginePair
	for i, engine := range engines {
		pairs[i] = newEnginePair(b, map[string]string{"network": network, "engine": engine}, inFlight, payload)
	}
	var ratios []float64
	var rates [2][]float64
	for range transporttest.Rounds("SOCKETS_BENCH_ROUNDS", 10) {
		for i := range pairs {
			rates[i] = append(rates[i], pairs[i].rate(b, cpus))
		}
		last := len(ratios)
		ratios = append(ratios, rates[1][last]/rates[0][last])
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "uring/epoll")
	for i, engine := range engines {
		slices.Sort(rates[i])
		b.ReportMetric(rates[i][len(rates[i])/2], engine+"-calls/s")
		b.ReportMetric(float64(pairs[i].syscalls)/float64(pairs[i].answered), engine+"-syscalls/call")
	}
	b.Logf("ratios %.3f", ratios)
}

// enginePair is a caller and a server with one connection, and what they did in all rounds.
type enginePair struct {
	caller, server    *worker
	inFlight, payload int
	answered          int
	syscalls          uint64
}

func newEnginePair(b *testing.B, options map[string]string, inFlight, payload int) enginePair {
	values, err := transport.ParseOptions(schema, options)
	require.NoError(b, err)
	var ws [2]*worker
	for i := range ws {
		tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: 1, Peers: 1, InFlight: inFlight, MaxPayload: payload, Options: values})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(b, err)
		ws[i] = w.(*worker)
	}
	require.NoError(b, ws[0].Connect(context.Background(), 0, ws[1].Address()))
	require.NoError(b, ws[1].Connect(context.Background(), 0, ws[0].Address()))
	for ws[0].byIndex[0].state != up || ws[1].byIndex[0].state != up {
		for _, w := range ws {
			_, err := w.Poll(nil)
			require.NoError(b, err)
		}
	}
	return enginePair{caller: ws[0], server: ws[1], inFlight: inFlight, payload: payload}
}

// rate makes calls for a while and returns how many are answered in a second.
func (p *enginePair) rate(b *testing.B, cpus [2]int) float64 {
	before := p.caller.counters.Syscalls + p.server.counters.Syscalls
	var over atomic.Bool
	done := make(chan error, 2)
	on := func(cpu int, f func() error) {
		go func() {
			err := transporttest.Pin(cpu)
			if err == nil {
				err = f()
			}
			done <- err
		}()
	}
	on(cpus[1], func() error { return p.serve(&over) })
	var calls int
	var took time.Duration
	on(cpus[0], func() (err error) {
		defer over.Store(true)
		start := time.Now()
		calls, err = p.call(start.Add(100 * time.Millisecond))
		took = time.Since(start)
		return err
	})
	for range 2 {
		require.NoError(b, <-done)
	}
	p.answered += calls
	p.syscalls += p.caller.counters.Syscalls + p.server.counters.Syscalls - before
	return float64(calls) / took.Seconds()
}

func (p *enginePair) call(until time.Time) (answered int, err error) {
	ops := make([]transport.Op, p.inFlight)
	payload := make([]byte, p.payload)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: payload}
	}
	events := make([]transport.Event, p.inFlight)
	free, ending := p.inFlight, false
	for looks := 0; !ending || free < p.inFlight; looks++ {
		if !ending && free > 0 {
			n, err := p.caller.Post(ops[:free])
			if err != nil {
				return answered, err
			}
			free -= n
			if err := p.caller.Flush(); err != nil {
				return answered, err
			}
		}
		n, err := p.caller.Poll(events)
		if err != nil {
			return answered, err
		}
		answered += n
		free += n
		ending = ending || looks%64 == 0 && time.Now().After(until)
	}
	return answered, nil
}

func (p *enginePair) serve(over *atomic.Bool) error {
	events := make([]transport.Event, 64)
	replies := make([]transport.Op, 64)
	for !over.Load() {
		n, err := p.server.Poll(events)
		if err != nil {
			return err
		}
		for i := range events[:n] {
			replies[i] = transport.Op{Kind: transport.OpReply, Peer: events[i].Peer, Token: events[i].Token, Payload: events[i].Payload}
		}
		for left := replies[:n]; len(left) > 0; {
			taken, err := p.server.Post(left)
			if err != nil {
				return err
			}
			if left = left[taken:]; len(left) > 0 { // no room: what was posted must leave first, and payloads must stay
				if err := p.server.Flush(); err != nil {
					return err
				}
				p.server.engine.progress()
			}
		}
		if n > 0 {
			if err := p.server.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}
