package ucxam

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// openPair returns two connected workers of this process.
func openPair(b *testing.B) (pair [2]transport.Worker) {
	if missing != "" {
		b.Skip(missing)
	}
	options, err := transport.ParseOptions(schema, map[string]string{optionTLS: "posix"})
	require.NoError(b, err)
	for i := range pair {
		tr, err := Driver{}.Open(b.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 32,
			MaxPayload: 64, Options: options})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, tr.Close()) })
		pair[i], err = tr.NewWorker(0)
		require.NoError(b, err)
	}
	require.NoError(b, pair[0].Connect(b.Context(), 0, pair[1].Address()))
	require.NoError(b, pair[1].Connect(b.Context(), 0, pair[0].Address()))
	return pair
}

// BenchmarkPath moves calls and replies of 48 bytes through two workers on one thread.
func BenchmarkPath(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			pair := openPair(b)
			ops := make([]transport.Op, batch)
			events := make([]transport.Event, 64)
			move := func(from, to transport.Worker) {
				if n, err := from.Post(ops); n != batch || err != nil {
					b.Fatalf("posted %d of %d: %v", n, batch, err)
				}
				if err := from.Flush(); err != nil {
					b.Fatal(err)
				}
				for got := 0; got < batch; {
					n, err := to.Poll(events)
					if err != nil {
						b.Fatal(err)
					}
					for i := range events[:n] {
						ops[got].Token, ops[got].Payload = events[i].Token, events[i].Payload
						got++
					}
				}
			}
			for i := range ops {
				ops[i].Payload = make([]byte, 48)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				for i := range ops {
					ops[i].Kind = transport.OpCall
				}
				move(pair[0], pair[1])
				for i := range ops {
					ops[i].Kind = transport.OpReply
				}
				move(pair[1], pair[0])
			}
		})
	}
}

// BenchmarkCrossing calls into C and back where there is nothing to do: what each Flush and Poll
// costs at least. Compare a build with the tag plaincgo (decision 0030).
func BenchmarkCrossing(b *testing.B) {
	w := openPair(b)[0].(*worker)
	for b.Loop() {
		w.ucp.Flush()
	}
}
