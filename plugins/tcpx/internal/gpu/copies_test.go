package gpu_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// TestCopyOut copies to pinned memory. Copies end in order, no more than Requests are under way,
// and the bytes are there when Copied says so.
func TestCopyOut(t *testing.T) {
	const size, piece = 256 << 10, 4096
	on(t, gpu.Config{Mode: gpu.Kernel, Descriptors: 1, Sends: true}, size, func(b *bench) {
		host, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(host)) }()
		require.NoError(t, b.Pin(host))
		want := make([]byte, size)
		fill(want, 1)
		require.NoError(t, b.Write(b.to, want))
		if b.fake != nil {
			b.fake.Hold(true)
			for i := range gpu.Requests {
				require.EqualValues(t, i+1,
					b.CopyOut(host[i*piece:][:piece], b.to+cuda.Address(i*piece)))
			}
			require.Zero(t, b.CopyOut(host[:piece], b.to), "one more than can be under way")
			number, err := b.Copied()
			require.NoError(t, err)
			require.Zero(t, number, "no event is ready")
			require.Equal(t, make([]byte, size), host)
			b.fake.Hold(false)
		}
		submitted, copied := uint64(0), uint64(0)
		if b.fake != nil {
			submitted = gpu.Requests
		}
		for deadline := time.Now().Add(time.Minute); copied < size/piece; {
			require.True(t, time.Now().Before(deadline), "%d copies of %d have ended", copied,
				submitted)
			if at := int(submitted) * piece; at < size {
				if number := b.CopyOut(host[at:at+piece], b.to+cuda.Address(at)); number != 0 {
					submitted++
					require.Equal(t, submitted, number)
				}
			}
			copied, err = b.Copied()
			require.NoError(t, err)
			require.Equal(t, want[:copied*piece], host[:copied*piece])
		}
		c := b.Counts()
		require.Equal(t, []uint64{size / piece, size, 3, 2 * gpu.Requests},
			[]uint64{c.Sends, c.SendBytes, c.Streams, c.Events})
		require.NoError(t, b.Check())
		require.NoError(t, b.Unpin(host))
	})
}
