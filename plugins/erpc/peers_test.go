package erpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// BenchmarkPeers runs this transport over udp, the floor of its medium and, if it is installed,
// sockperf in turn on the same two processors, and prints their ratios. make bench-peers runs it.
// ERPC_PEERS_ROUNDS sets the number of rounds; the best one counts.
func BenchmarkPeers(b *testing.B) {
	cpus, rounds := transporttest.Processors(b), transporttest.Rounds("ERPC_PEERS_ROUNDS", 20)
	fmt.Printf("this transport over udp, its floor and sockperf in turn on processors %d and %d, best of %d rounds\n", cpus[0], cpus[1], rounds)
	const size = 32
	least, most := best{math.Inf(1), true}, best{0, false}
	floor, one, theirs := least, least, least
	floorRate, many := most, most
	floorBandwidth, large := most, most
	var ratios []float64 // of neighboring readings: the best floor is sometimes far above the others
	for range rounds {
		if t := sockperf(b, cpus, size); t > 0 {
			theirs.take(t)
		}
		p := newPeers(b, cpus, size, 64)
		floor.take(p.floor(transport.Probe{Kind: transport.ProbeMedium, Forth: size, Back: size}).RoundTrip)
		floorRate.take(1e9 / p.floor(transport.Probe{Kind: transport.ProbeRate, Forth: size, Back: size, InFlight: 64}).PerOp)
		one.take(p.roundTrip(100 * time.Millisecond))
		many.take(p.rate(64, 100*time.Millisecond))
		p.close()
		p = newPeers(b, cpus, 8<<20, 2)
		for range 3 { // both for the same time
			// A longer message would overrun a socket without flow control.
			const long = 512 << 10
			f := 1e9 * long / p.floor(transport.Probe{Kind: transport.ProbeRate, Forth: size, Back: long, InFlight: 2}).PerOp
			ours := p.rate(2, 50*time.Millisecond) * (8 << 20)
			floorBandwidth.take(f)
			large.take(ours)
			ratios = append(ratios, ours/f)
		}
		p.close()
	}
	fmt.Printf("1 in flight, %d B:       floor %6.0f ns, erpc %6.0f ns: %.2f x the floor\n", size, floor.value, one.value, one.value/floor.value)
	if math.IsInf(theirs.value, 1) {
		fmt.Println("sockperf is not installed: apt install sockperf")
	} else {
		fmt.Printf("1 in flight, %d B:       sockperf %6.0f ns: erpc %.2f x sockperf\n", size, theirs.value, one.value/theirs.value)
	}
	fmt.Printf("64 in flight, %d B:      floor %8.0f/s, erpc %8.0f/s round trips: %.2f x the floor\n", size, floorRate.value, many.value, many.value/floorRate.value)
	slices.Sort(ratios)
	fmt.Printf("responses of 8 MiB:      floor %.2f GB/s, erpc %.2f GB/s: %.2f x the floor, median of pairs %.2f\n",
		floorBandwidth.value/1e9, large.value/1e9, large.value/floorBandwidth.value, ratios[len(ratios)/2])
}

// best keeps the best of several readings: the lowest or the highest.
type best struct {
	value float64
	least bool
}

func (v *best) take(x float64) {
	if v.least {
		v.value = min(v.value, x)
	} else {
		v.value = max(v.value, x)
	}
}

// sockperfLine matches the median one-way time in microseconds.
var sockperfLine = regexp.MustCompile(`percentile 50\.000 *= *([0-9.]+)`)

// sockperf returns the median of its round trips in nanoseconds, or 0 if it is not installed.
func sockperf(b *testing.B, cpus [2]int, size int) float64 {
	if _, err := exec.LookPath("sockperf"); err != nil {
		return 0
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(b, err)
	_, port, _ := net.SplitHostPort(socket.LocalAddr().String())
	require.NoError(b, socket.Close())
	command := func(cpu int, args ...string) *exec.Cmd {
		return exec.Command("taskset", slices.Concat([]string{"-c", fmt.Sprint(cpu), "sockperf"}, args, []string{"-i", "127.0.0.1", "-p", port, "--nonblocked"})...)
	}
	server := command(cpus[0], "server")
	require.NoError(b, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var output []byte
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		// sockperf cannot run for less than a second.
		output, err = command(cpus[1], "ping-pong", "-m", fmt.Sprint(size), "-t", "1").CombinedOutput()
		if found := sockperfLine.FindSubmatch(output); found != nil && err == nil {
			oneWay, err := strconv.ParseFloat(string(found[1]), 64)
			require.NoError(b, err)
			return 2000 * oneWay
		}
	}
	b.Fatalf("sockperf: %v\n%s", err, output)
	return 0
}

// peers are two ranks, the second of which answers on its own thread.
type peers struct {
	b        *testing.B
	ranks    [2]transport.Transport
	workers  [2]transport.Worker
	cpus     [2]int
	response int
}

func newPeers(b *testing.B, cpus [2]int, response, inFlight int) *peers {
	p := &peers{b: b, cpus: cpus, response: response}
	options, err := transport.ParseOptions(schema, map[string]string{"provider": "udp"})
	require.NoError(b, err)
	for i := range p.ranks {
		p.ranks[i], err = Driver{}.Open(b.Context(), transport.Config{Rank: i, Workers: 1, Peers: 1, InFlight: inFlight,
			MaxPayload: response, Options: options})
		require.NoError(b, err)
		p.workers[i], err = p.ranks[i].NewWorker(0)
		require.NoError(b, err)
	}
	for i, w := range p.workers {
		require.NoError(b, w.Connect(b.Context(), 0, p.workers[1-i].Address()))
	}
	return p
}

func (p *peers) close() {
	for _, r := range p.ranks {
		require.NoError(p.b, r.Close())
	}
}

// together runs one function on each side, on threads pinned to their processors.
func (p *peers) together(remote, local func()) {
	var wait sync.WaitGroup
	for i, f := range []func(){local, remote} {
		wait.Go(func() {
			if err := transporttest.Pin(p.cpus[1-i]); err != nil {
				p.b.Error(err)
			}
			f()
		})
	}
	wait.Wait()
}

func (p *peers) floor(probe transport.Probe) (f transport.Floor) {
	ctx, cancel := context.WithTimeout(p.b.Context(), time.Minute)
	defer cancel()
	var errs [2]error
	probe.Duration = 100 * time.Millisecond
	lead := probe
	lead.Initiate = true
	p.together(func() { _, errs[1] = p.workers[1].(transport.Prober).Probe(ctx, 0, probe) },
		func() { f, errs[0] = p.workers[0].(transport.Prober).Probe(ctx, 0, lead) })
	require.NoError(p.b, errors.Join(errs[:]...))
	return f
}

// load keeps calls in flight for d, after a warm-up of a fourth of it, and returns calls per
// second. It passes the mean time of each group of trips round trips to report.
func (p *peers) load(inFlight int, d time.Duration, trips int, report func(time.Duration)) (rate float64) {
	var stop atomic.Bool
	p.together(func() { p.serve(&stop) }, func() {
		defer stop.Store(true)
		w, events := p.workers[0], make([]transport.Event, 64)
		ops := make([]transport.Op, inFlight)
		for i := range ops {
			ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: make([]byte, 32)}
		}
		free, total, done := inFlight, 0, 0
		begin := time.Now()
		last, from := begin, begin
		reported := trips == math.MaxInt // no report is wanted
		for warm := false; ; {
			n, err := w.Post(ops[:free])
			free -= n
			if err = errors.Join(err, w.Flush()); err != nil {
				p.b.Error(err)
				return
			}
			if n, err = w.Poll(events); err != nil {
				p.b.Error(err)
				return
			}
			free += n
			total += n
			if done += n; done < trips && n == 0 {
				continue
			}
			now := time.Now()
			if done >= trips {
				if warm {
					report(now.Sub(last) / time.Duration(done))
					reported = true
				}
				last, done = now, 0
			}
			if !warm && now.Sub(begin) > d/4 {
				warm, from, total = true, now, 0
			}
			if warm && now.Sub(from) > d && total > 0 && reported {
				rate = float64(total) / now.Sub(from).Seconds()
				break
			}
		}
		for free < inFlight {
			n, _ := w.Poll(events)
			free += n
		}
	})
	return rate
}

// serve answers calls until stop is set.
func (p *peers) serve(stop *atomic.Bool) {
	w, events, response := p.workers[1], make([]transport.Event, 64), make([]byte, p.response)
	replies := make([]transport.Op, 0, 1024)
	for !stop.Load() {
		n, err := w.Poll(events)
		if err != nil {
			p.b.Error(err)
			return
		}
		for _, e := range events[:n] {
			replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token, Payload: response})
		}
		if len(replies) == 0 {
			continue
		}
		taken, err := w.Post(replies)
		if err = errors.Join(err, w.Flush()); err != nil {
			p.b.Error(err)
			return
		}
		replies = replies[:copy(replies, replies[taken:])]
	}
}

// roundTrip returns the median time of a single call in nanoseconds.
func (p *peers) roundTrip(d time.Duration) float64 {
	times := make([]time.Duration, 0, 1<<16)
	p.load(1, d, 8, func(t time.Duration) { times = append(times, t) })
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// rate returns calls per second.
func (p *peers) rate(inFlight int, d time.Duration) float64 {
	return p.load(inFlight, d, math.MaxInt, func(time.Duration) {})
}
