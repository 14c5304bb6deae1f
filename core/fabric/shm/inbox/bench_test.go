package inbox

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// BenchmarkPath moves calls and replies through both workers on one thread: of 48 bytes, which fit
// into a line, and of 64. No cache line moves between cores, so it measures the code alone.
func BenchmarkPath(b *testing.B) {
	eachPath(b, func(b *testing.B, c pathConfig) {
		p, err := openPath(c)
		if err != nil {
			b.Fatal(err)
		}
		defer p.close()
		b.ReportAllocs()
		for done := 0; done < b.N; done += c.Batch {
			p.trip()
		}
	})
}

// BenchmarkInstructions reports the instructions of a call with its reply in BenchmarkPath; with
// -test.v, by function.
func BenchmarkInstructions(b *testing.B) {
	if runtime.GOARCH != "amd64" || fabrictest.Race {
		b.Skip("ptrace(2) gives registers in another way")
	}
	eachPath(b, func(b *testing.B, c pathConfig) {
		steps, sum := countSteps(b, c), 0.0
		for _, name := range slices.Sorted(maps.Keys(steps)) {
			sum += steps[name]
			if testing.Verbose() {
				b.Logf("%6.1f %s", steps[name], name)
			}
		}
		b.ReportMetric(sum, "instructions/op")
		b.ReportMetric(0, "ns/op") // would be the time of the stepping
	})
}

func eachPath(b *testing.B, run func(*testing.B, pathConfig)) {
	for _, name := range Rings()[1:] {
		for _, batch := range []int{1, 32} {
			for _, size := range []int{48, 64} {
				c := pathConfig{Ring: name, Batch: batch, Bytes: size}
				b.Run(fmt.Sprintf("ring=%s/batch=%d/bytes=%d", name, batch, size),
					func(b *testing.B) { run(b, c) })
			}
		}
	}
}

// path is two connected workers that one thread drives.
type path struct {
	caller, server transport.Worker
	calls, replies []transport.Op
	events         []transport.Event
	close          func()
}

func openPath(c pathConfig) (*path, error) {
	cfg := testConfig()
	cfg.Ring, cfg.Slots, cfg.MaxPayload = c.Ring, slotsFor(c.Ring, c.Batch), c.Bytes
	a, b, closeBoth, err := connect(cfg)
	p := &path{
		caller: a, server: b, close: closeBoth,
		calls: make([]transport.Op, c.Batch), replies: make([]transport.Op, c.Batch),
		events: make([]transport.Event, 64),
	}
	for i := range p.calls {
		p.calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, c.Bytes)}
	}
	return p, err
}

// trip makes all calls and answers them.
func (p *path) trip() {
	if posted := must(p.caller.Post(p.calls)); posted != len(p.calls) {
		panic(fmt.Sprintf("posted %d calls of %d", posted, len(p.calls)))
	}
	must(0, p.caller.Flush())
	n := must(p.server.Poll(p.events))
	for i := range n {
		e, reply := &p.events[i], &p.replies[i]
		reply.Kind = transport.OpReply
		reply.Peer = e.Peer
		reply.Token = e.Token
		reply.Payload = e.Payload
	}
	if posted := must(p.server.Post(p.replies[:n])); posted != n {
		panic(fmt.Sprintf("posted %d replies of %d", posted, n))
	}
	must(0, p.server.Flush())
	for got := 0; got < n; {
		got += must(p.caller.Poll(p.events))
	}
}

// must panics on an error: a benchmark that ignores one may hang.
func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

func slotsFor(name string, batch int) int {
	if name == Inplace && batch == 1 {
		return 1
	}
	return 64
}
