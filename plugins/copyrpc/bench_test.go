package copyrpc

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// BenchmarkPath takes calls and replies of 48 bytes through both workers on one thread.
func BenchmarkPath(b *testing.B) {
	eachPath(b, func(b *testing.B, p fabrictest.Path) { p.Benchmark(b, Driver{}) })
}

// BenchmarkInstructions counts the instructions of BenchmarkPath.
func BenchmarkInstructions(b *testing.B) {
	eachPath(b, func(b *testing.B, p fabrictest.Path) { p.Instructions(b) })
}

func eachPath(b *testing.B, run func(*testing.B, fabrictest.Path)) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			run(b, fabrictest.Path{Options: soft(), Batch: batch, Bytes: 48})
		})
	}
}

// must panics on an error: a benchmark that ignores one may hang.
func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
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

func (e *echoer) step() {
	n := must(e.w.Poll(e.events))
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
	must(0, e.w.Flush())
}

// pinned runs f on a new thread that is pinned to a processor.
func pinned(wait *sync.WaitGroup, processor int, f func()) {
	wait.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(processor % runtime.NumCPU())
		must(0, unix.SchedSetaffinity(0, &set))
		f()
	})
}

// star makes a caller with several peers: workers that one thread serves.
func star(tb testing.TB, peers, inFlight int) (caller *worker, servers []*echoer) {
	options, err := transport.ParseOptions(schema, soft())
	require.NoError(tb, err)
	open := func(n int) *worker {
		tr, err := Driver{}.Open(context.Background(),
			transport.Config{Workers: 1, Peers: n, InFlight: inFlight, MaxPayload: 64,
				Options: options})
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

// sliceTime is the approximate length of a slice of BenchmarkTwoThreads. It is short so
// that in most slices no other process runs on either processor.
const sliceTime = 100 * time.Microsecond

// BenchmarkTwoThreads measures the soft device between two processors: one caller with one
// or more peers. It works in slices. Before and after each slice it probes the cache-line
// bounce between the same processors (the floor) because the core-to-core latency of a
// virtual machine changes within seconds. Slices near the lowest floor give near-ns (the
// median), best-ns (the fastest percent) and near-op/floor, the median ratio of an
// operation to the floor of its own slice; op/floor is that median over all slices.
func BenchmarkTwoThreads(b *testing.B) {
	for _, c := range []struct{ peers, inFlight, payload int }{{1, 1, 32}, {1, 1, 48}, {1, 32, 48},
		{8, 256, 48}} {
		b.Run(fmt.Sprintf("peers=%d/in-flight=%d/payload=%d", c.peers, c.inFlight, c.payload),
			func(b *testing.B) {
				caller, servers := star(b, c.peers, c.inFlight)
				var line struct {
					_    [128]byte
					word atomic.Uint64
					_    [128]byte
				}
				var phase atomic.Int64 // odd while both probe; -1 at the end
				var wait sync.WaitGroup
				var found sliced
				pinned(&wait, 1, func() {
					for last := int64(0); ; {
						switch now := phase.Load(); {
						case now < 0:
							return
						case now != last && now&1 == 1:
							probe(&line.word, false)
							last = now
						}
						for _, s := range servers {
							s.step()
						}
					}
				})
				pinned(&wait, 0, func() {
					defer phase.Store(-1)
					bounce := func() float64 {
						phase.Add(1)
						defer phase.Add(1)
						return probe(&line.word, true)
					}
					before := bounce()
					load := newLoad(caller, c.peers, c.inFlight, c.payload)
					// outweighs the calls that waited during the probes
					minimum := 20 * c.peers * c.inFlight
					for done, ops := 0, minimum; done < b.N; {
						start := time.Now()
						answered := load.drive(ops)
						perOp := float64(time.Since(start)) / float64(answered)
						done += answered
						after := bounce()
						found = append(found, slice{perOp, (before + after) / 2})
						before = after
						ops = max(minimum, int(float64(sliceTime)/perOp))
					}
				})
				wait.Wait()
				b.ReportMetric(0, "ns/op") // it would include the probes
				found.report(b)
			})
	}
}

// slice is the result of one slice, in nanoseconds.
type slice struct{ perOp, floor float64 }

type sliced []slice

func (s sliced) report(b *testing.B) {
	floor := s[0].floor
	for _, x := range s {
		floor = min(floor, x.floor)
	}
	var near, ratios, all []float64
	for _, x := range s {
		if x.floor < 1.3*floor {
			near = append(near, x.perOp)
			ratios = append(ratios, x.perOp/x.floor)
		}
		all = append(all, x.perOp/x.floor)
	}
	middle := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2]
	}
	b.ReportMetric(middle(near), "near-ns")
	b.ReportMetric(near[len(near)/100], "best-ns")
	b.ReportMetric(floor, "floor-ns")
	b.ReportMetric(middle(ratios), "near-op/floor")
	b.ReportMetric(middle(all), "op/floor")
	b.ReportMetric(float64(len(near))/float64(len(s)), "near-share")
}

func probe(line *atomic.Uint64, initiate bool) float64 {
	f, err := floor.CacheLine(context.Background(), line, initiate, 50*time.Microsecond)
	if err != nil {
		panic(err)
	}
	return f.RoundTrip
}

// load calls all peers evenly, with a fixed number of calls in flight to each.
type load struct {
	w       *worker
	ops     []transport.Op // to post
	events  []transport.Event
	payload []byte
}

func newLoad(w *worker, peers, inFlight, payload int) *load {
	l := &load{w: w, ops: make([]transport.Op, 0, peers*inFlight),
		events: make([]transport.Event, 64), payload: make([]byte, payload)}
	for i := range inFlight {
		for peer := range peers {
			l.ops = append(l.ops, transport.Op{Kind: transport.OpCall, Peer: transport.PeerID(peer),
				Token: transport.Token(i), Payload: l.payload})
		}
	}
	return l
}

// drive calls until at least n more calls are answered, and returns how many were.
func (l *load) drive(n int) (answered int) {
	for answered < n {
		taken := must(l.w.Post(l.ops))
		l.ops = l.ops[:copy(l.ops, l.ops[taken:])]
		must(0, l.w.Flush())
		got := must(l.w.Poll(l.events))
		answered += got
		for i := range got {
			l.ops = l.ops[:len(l.ops)+1]
			op := &l.ops[len(l.ops)-1]
			op.Kind = transport.OpCall
			op.Peer = l.events[i].Peer
			op.Token = l.events[i].Token
			op.Payload = l.payload
		}
	}
	return answered
}
