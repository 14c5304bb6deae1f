package ucxam

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestLibraryProbe: the library's ping-pong carries the payloads, and refuses those that UCX would
// announce and fetch.
func TestLibraryProbe(t *testing.T) {
	for _, lane := range []string{"posix", "tcp"} {
		var workers [2]*worker
		for i := range workers {
			needUCX(t)
			options, err := transport.ParseOptions(schema, map[string]string{optionTLS: lane})
			require.NoError(t, err)
			tr, err := Driver{}.Open(t.Context(),
				transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 1 << 20,
					Options: options})
			require.NoError(t, err)
			defer func() { require.NoError(t, tr.Close()) }()
			w, err := tr.NewWorker(0)
			require.NoError(t, err)
			workers[i] = w.(*worker)
		}
		a, b := workers[0], workers[1]
		require.NoError(t, a.Connect(t.Context(), 0, b.Address()))
		require.NoError(t, b.Connect(t.Context(), 0, a.Address()))
		for _, size := range []int{0, 16, a.ucp.ProbeLimit()} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			p := transport.Probe{Kind: transport.ProbeLibrary, Duration: time.Millisecond,
				Forth: size, Back: 100}
			lead := p
			lead.Initiate = true
			var far sync.WaitGroup
			far.Go(func() {
				_, err := b.Probe(ctx, 0, p)
				require.NoError(t, err)
			})
			f, err := a.Probe(ctx, 0, lead)
			far.Wait()
			cancel()
			require.NoError(t, err)
			require.Positive(t, f.RoundTrip, "%s, %d bytes", lane, size)
		}
		_, err := a.Probe(t.Context(), 0, transport.Probe{Kind: transport.ProbeLibrary,
			Forth: a.ucp.ProbeLimit() + 1})
		require.ErrorIs(t, err, transport.ErrUnsupported)
	}
}
