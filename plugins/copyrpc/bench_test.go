package copyrpc

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// BenchmarkPath takes calls and replies of 48 bytes through both workers on one
// thread, so that no cache line moves: what is left is the code.
func BenchmarkPath(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			caller, server := connected(b, transport.Config{InFlight: batch, MaxPayload: 64}, soft())
			calls := make([]transport.Op, batch)
			for i := range calls {
				calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: make([]byte, 48)}
			}
			echo := newEchoer(server)
			events := make([]transport.Event, 64)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				posted := 0
				for got := 0; got < batch; {
					n, _ := caller.Post(calls[posted:])
					posted += n
					_ = caller.Flush()
					echo.turn()
					n, _ = caller.Poll(events)
					got += n
				}
			}
		})
	}
}

// echoer answers calls with their payload.
type echoer struct {
	w       *worker
	events  []transport.Event
	replies []transport.Op
	served  int
}

func newEchoer(w *worker) *echoer {
	return &echoer{w: w, events: make([]transport.Event, 64), replies: make([]transport.Op, 64)}
}

func (e *echoer) turn() {
	n, err := e.w.Poll(e.events)
	if err != nil {
		panic(err)
	}
	if n == 0 {
		return
	}
	e.served += n
	for i := range n {
		e.replies[i].Kind = transport.OpReply
		e.replies[i].Peer = e.events[i].Peer
		e.replies[i].Token = e.events[i].Token
		e.replies[i].Payload = e.events[i].Payload
	}
	if posted, err := e.w.Post(e.replies[:n]); posted != n || err != nil {
		panic(fmt.Sprint("a reply was not taken: ", posted, err))
	}
	_ = e.w.Flush()
}

// pinned runs f on a thread of its own on a processor.
func pinned(wait *sync.WaitGroup, processor int, f func()) {
	wait.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(processor % runtime.NumCPU())
		_ = unix.SchedSetaffinity(0, &set)
		f()
	})
}

// star makes a caller with several peers, which are the connections of as many workers
// that one thread serves.
func star(tb testing.TB, peers, inFlight int) (caller *worker, servers []*echoer) {
	options, err := transport.ParseOptions(schema, soft())
	require.NoError(tb, err)
	open := func(n int) *worker {
		tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: 1, Peers: n, InFlight: inFlight, MaxPayload: 64, Options: options})
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(tb, err)
		return w.(*worker)
	}
	caller = open(peers)
	for i := range peers {
		w := open(1)
		require.NoError(tb, caller.Connect(context.Background(), transport.PeerID(i), w.Address()))
		require.NoError(tb, w.Connect(context.Background(), 0, caller.Address()))
		servers = append(servers, newEchoer(w))
	}
	return caller, servers
}

// BenchmarkTwoThreads is what the targets of the transport on the soft device are
// about: one caller with one or more peers, on two processors. Beside the time of an
// operation it reports that time over the bounce of a cache line between the same two
// processors, measured before and after.
func BenchmarkTwoThreads(b *testing.B) {
	for _, c := range []struct{ peers, inFlight int }{{1, 1}, {1, 32}, {8, 256}} {
		b.Run(fmt.Sprintf("peers=%d/in-flight=%d", c.peers, c.inFlight), func(b *testing.B) {
			caller, servers := star(b, c.peers, c.inFlight)
			var over atomic.Bool
			var wait sync.WaitGroup
			var floors [2]float64
			var elapsed time.Duration
			done := make(chan struct{})
			pinned(&wait, 1, func() {
				probe(servers[0].w, false)
				for !over.Load() {
					for _, s := range servers {
						s.turn()
					}
				}
				probe(servers[0].w, false)
			})
			pinned(&wait, 0, func() {
				defer close(done)
				floors[0] = probe(caller, true)
				b.ResetTimer()
				start := time.Now()
				drive(caller, c.peers, c.inFlight, b.N)
				elapsed = time.Since(start)
				b.StopTimer()
				over.Store(true)
				floors[1] = probe(caller, true)
			})
			wait.Wait()
			perOp := float64(elapsed) / float64(b.N)
			b.ReportMetric(1e3/perOp, "Mop/s")
			b.ReportMetric((floors[0]+floors[1])/2, "floor-ns")
			b.ReportMetric(perOp/((floors[0]+floors[1])/2), "op/floor")
		})
	}
}

func probe(w *worker, initiate bool) float64 {
	f, err := w.Probe(context.Background(), 0, initiate, 5*time.Millisecond)
	if err != nil {
		panic(err)
	}
	return f.RoundTrip
}

// drive makes n calls of 48 bytes, evenly to all peers, with so many in flight to each.
func drive(w *worker, peers, inFlight, n int) {
	ops := make([]transport.Op, 0, peers*inFlight)
	payload := make([]byte, 48)
	for i := range inFlight {
		for peer := range peers {
			ops = append(ops, transport.Op{Kind: transport.OpCall, Peer: transport.PeerID(peer), Token: transport.Token(i), Payload: payload})
		}
	}
	events := make([]transport.Event, 64)
	for posted, answered := 0, 0; answered < n; {
		taken, err := w.Post(ops)
		if err != nil {
			panic(err)
		}
		posted += taken
		ops = ops[:copy(ops, ops[taken:])]
		_ = w.Flush()
		got, err := w.Poll(events)
		if err != nil {
			panic(err)
		}
		answered += got
		for i := 0; i < got && posted+len(ops) < n; i++ {
			ops = ops[:len(ops)+1]
			op := &ops[len(ops)-1]
			op.Kind = transport.OpCall
			op.Peer = events[i].Peer
			op.Token = events[i].Token
			op.Payload = payload
		}
	}
}
