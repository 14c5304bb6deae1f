package gpu_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// TestFreshStreamsAreCaught: the first error of the document.
func TestFreshStreamsAreCaught(t *testing.T) {
	on(t, gpu.Config{Mode: gpu.Kernel, Fault: gpu.FreshStreams, Descriptors: 1}, 4096, func(b *bench) {
		require.NoError(t, b.Check())
		copy(b.bounce, "payload")
		for i := range 3 {
			b.unpack(i, cuda.Descriptor{Length: 7})
		}
		got := make([]byte, 7)
		require.NoError(t, b.Read(got, b.to))
		require.Equal(t, "payload", string(got), "it is slow, and right")
		require.ErrorIs(t, b.Check(), gpu.ErrResources)
		require.ErrorContains(t, b.Check(), "5 streams and 19 events for 3 chunks")
	})
}

// TestEarlyConsumeIsCaught: the third. What is written to the bounce memory after Done
// arrives in its place, and copying back shows it.
func TestEarlyConsumeIsCaught(t *testing.T) {
	const size = 4 << 20
	on(t, gpu.Config{Mode: gpu.Kernel, Fault: gpu.EarlyConsume, Descriptors: 1}, size, func(b *bench) {
		rounds := 1
		if b.fake != nil {
			b.fake.Hold(true)
		} else {
			rounds = 1000 // a real GPU may win the race now and then
		}
		want, got := make([]byte, size), make([]byte, size)
		for i := range rounds {
			fill(b.bounce[:size], uint64(i))
			copy(want, b.bounce)
			request := i % gpu.Requests
			b.Block(request)[0] = cuda.Descriptor{Length: size}
			require.NoError(t, b.submit(request, 1, 0))
			b.wait(request)
			clear(b.bounce[:size]) // as if another chunk had arrived
			require.NoError(t, b.Read(got, b.to))
			if !bytes.Equal(want, got) {
				return
			}
		}
		t.Fatal("the fault did no harm")
	})
}
