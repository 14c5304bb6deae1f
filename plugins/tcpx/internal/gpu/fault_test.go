package gpu_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// TestFreshStreamsAreDetected: resources per chunk.
func TestFreshStreamsAreDetected(t *testing.T) {
	on(t, gpu.Config{Mode: gpu.Kernel, Fault: gpu.FreshStreams, Descriptors: 1}, 4096,
		func(b *bench) {
			require.NoError(t, b.Check())
			copy(b.bounce, "payload")
			for i := range 3 {
				b.unpack(i, cuda.Descriptor{Length: 7})
			}
			got := make([]byte, 7)
			require.NoError(t, b.Read(got, b.to))
			require.Equal(t, "payload", string(got), "slow but correct")
			require.ErrorIs(t, b.Check(), gpu.ErrResources)
			require.ErrorContains(t, b.Check(), "5 streams and 19 events for 3 chunks")
		})
}

// TestEarlyConsumeIsDetected: pages freed too early. Bytes written to the bounce memory after
// Done arrive instead, and a comparison shows it.
func TestEarlyConsumeIsDetected(t *testing.T) {
	const size = 4 << 20
	on(t, gpu.Config{Mode: gpu.Kernel, Fault: gpu.EarlyConsume, Descriptors: 1}, size,
		func(b *bench) {
			rounds := 1
			if b.fake != nil {
				b.fake.Hold(true)
			} else {
				rounds = 1000 // a real GPU may win some of the races
			}
			want, got := make([]byte, size), make([]byte, size)
			for i := range rounds {
				fill(b.bounce[:size], uint64(i))
				copy(want, b.bounce)
				request := i % gpu.Requests
				b.Block(request)[0] = cuda.Descriptor{Length: size}
				require.NoError(t, b.submit(request, 1, 0))
				b.wait(request)
				clear(b.bounce[:size]) // as another chunk would
				require.NoError(t, b.Read(got, b.to))
				if !bytes.Equal(want, got) {
					return
				}
			}
			t.Fatal("the fault had no effect")
		})
}
