package ofi

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestLibraryProbe: the library's ping-pong carries the payloads, plain and tagged.
func TestLibraryProbe(t *testing.T) {
	needLibrary(t)
	for _, provider := range []string{"shm", "tcp"} {
		var workers [2]*worker
		for i := range workers {
			tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: provider},
				MaxPayload: 64 << 10})
			require.NoError(t, err)
			defer func() { require.NoError(t, tr.Close()) }()
			workers[i] = w
		}
		a, b := workers[0], workers[1]
		require.NoError(t, a.Connect(t.Context(), 0, b.Address()))
		require.NoError(t, b.Connect(t.Context(), 0, a.Address()))
		facts := a.ReadPaths(nil)[0].Facts
		require.Equal(t, "FI_EP_RDM", facts["endpoint"])
		require.Contains(t, facts["provider"], provider)
		for _, size := range []int{0, 16, 8 << 10, 64 << 10} {
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
			require.Positive(t, f.RoundTrip, "%s, %d bytes", provider, size)
		}
		_, err := a.Probe(t.Context(), 0, transport.Probe{Kind: transport.ProbeLibrary,
			Forth: 64<<10 + 1})
		require.ErrorIs(t, err, transport.ErrUnsupported)
	}
}
