package amlibtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// Probe requires that the library's ping-pong between two connected workers carries payloads of
// each size in bytes. The last size is the largest that it takes.
func Probe(t *testing.T, a, b transport.Worker, sizes ...int) {
	t.Helper()
	p := transport.Probe{Kind: transport.ProbeLibrary, Duration: time.Millisecond, Back: 100}
	ctx, cancel := context.WithTimeout(t.Context(), fabrictest.Patience)
	defer cancel()
	for _, p.Forth = range sizes {
		lead := p
		lead.Initiate = true
		var far sync.WaitGroup
		var followed error
		far.Go(func() { _, followed = b.(transport.Prober).Probe(ctx, 0, p) })
		f, err := a.(transport.Prober).Probe(ctx, 0, lead)
		far.Wait()
		require.NoError(t, err)
		require.NoError(t, followed)
		require.Positive(t, f.RoundTrip, "%d bytes", p.Forth)
	}
	p.Forth++
	_, err := a.(transport.Prober).Probe(ctx, 0, p)
	require.ErrorIs(t, err, transport.ErrUnsupported)
}
