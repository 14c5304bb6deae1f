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

// BenchmarkPath moves calls and replies of 48 bytes through both workers on one thread. No
// cache line moves between cores, so it measures the code alone. It also reports the instructions
// of a call with its reply; with -test.v, by function.
func BenchmarkPath(b *testing.B) {
	for _, name := range Rings()[1:] {
		for _, batch := range []int{1, 32} {
			c := pathConfig{Ring: name, Batch: batch}
			b.Run(fmt.Sprintf("ring=%s/batch=%d", name, batch), func(b *testing.B) {
				p, err := openPath(c)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for done := 0; done < b.N; done += batch {
					p.trip()
				}
				b.StopTimer()
				reportSteps(b, c)
				p.close()
			})
		}
	}
}

func reportSteps(b *testing.B, c pathConfig) {
	if runtime.GOARCH != "amd64" || fabrictest.Race {
		return // the kernel gives the registers of others in another way
	}
	steps, sum := countSteps(b, c), 0.0
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		sum += steps[name]
		if testing.Verbose() {
			b.Logf("%6.1f %s", steps[name], name)
		}
	}
	b.ReportMetric(sum, "instructions/op")
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
	cfg.Ring, cfg.Slots = c.Ring, slotsFor(c.Ring, c.Batch)
	a, b, closeBoth, err := connect(cfg)
	p := &path{
		caller: a, server: b, close: closeBoth,
		calls: make([]transport.Op, c.Batch), replies: make([]transport.Op, c.Batch),
		events: make([]transport.Event, 64),
	}
	for i := range p.calls {
		p.calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, 48)}
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
