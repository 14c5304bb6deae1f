package inbox

import (
	"fmt"
	"testing"

	"transportbench/core/transport"
)

// BenchmarkPath moves calls and replies of 48 bytes through both workers on one thread. No
// cache line moves between cores, so it measures the code alone.
func BenchmarkPath(b *testing.B) {
	for _, name := range Rings()[1:] {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("ring=%s/batch=%d", name, batch), func(b *testing.B) {
				benchmarkPath(b, name, batch)
			})
		}
	}
}

func benchmarkPath(b *testing.B, name string, batch int) {
	caller, server := connected(b, func(c *Config) {
		c.Ring, c.Slots = name,
			slotsFor(name, batch)
	})
	calls := make([]transport.Op, batch)
	payload := make([]byte, 48)
	for i := range calls {
		calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: payload}
	}
	replies := make([]transport.Op, batch)
	events := make([]transport.Event, 64)
	b.ReportAllocs()
	for done := 0; done < b.N; done += batch {
		if posted := must(caller.Post(calls)); posted != batch {
			b.Fatalf("posted %d calls of %d", posted, batch)
		}
		must(0, caller.Flush())
		n := must(server.Poll(events))
		for i := range n {
			replies[i].Kind = transport.OpReply
			replies[i].Peer = events[i].Peer
			replies[i].Token = events[i].Token
			replies[i].Payload = events[i].Payload
		}
		if posted := must(server.Post(replies[:n])); posted != n {
			b.Fatalf("posted %d replies of %d", posted, n)
		}
		must(0, server.Flush())
		for got := 0; got < batch; {
			got += must(caller.Poll(events))
		}
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
