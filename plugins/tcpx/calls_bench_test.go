package tcpx

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// BenchmarkCalls takes calls and replies through both workers on one thread, so that it measures
// the code and the system calls alone. It reports the time of a call in the fastest of many short
// slices, in which no other process had the processor.
func BenchmarkCalls(b *testing.B) {
	for _, c := range []struct{ size, inFlight int }{
		{32, 1}, {32, 64}, {4 << 10, 16}, {64 << 10, 4}, {1 << 20, 1},
	} {
		b.Run(fmt.Sprintf("%s/%d", transport.FormatSize(int64(c.size)), c.inFlight),
			func(b *testing.B) { benchmarkCalls(b, c.size, c.inFlight) })
	}
}

func benchmarkCalls(b *testing.B, size, inFlight int) {
	cfg := transport.Config{Peers: 1, InFlight: inFlight, MaxPayload: size}
	caller, server := connectedWorkers(b, cfg, nil)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ops, replies := make([]transport.Op, inFlight), make([]transport.Op, 0, inFlight)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, size)}
	}
	events := make([]transport.Event, inFlight)
	must := func(n int, err error) int {
		require.NoError(b, err)
		return n
	}
	batch := func() {
		posted := 0
		for got := 0; got < inFlight; {
			if posted < inFlight {
				posted += must(caller.Post(ops[posted:]))
				must(0, caller.Flush())
			}
			for _, e := range events[:must(server.Poll(events))] {
				replies = append(replies,
					transport.Op{Kind: transport.OpReply, Token: e.Token, Payload: e.Payload[:8]})
			}
			if len(replies) > 0 {
				n := must(server.Post(replies))
				replies = replies[:copy(replies, replies[n:])]
				must(0, server.Flush())
			}
			got += must(caller.Poll(events))
		}
	}
	best := math.MaxFloat64
	slice := max(1, 64/inFlight)
	b.ResetTimer()
	for done := 0; done < b.N; done += slice * inFlight {
		start := time.Now()
		for range slice {
			batch()
		}
		best = min(best, float64(time.Since(start))/float64(slice*inFlight))
	}
	b.ReportMetric(best, "best-ns/call")
}
