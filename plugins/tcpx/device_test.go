package tcpx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

// TestWriteDeviceStartsCopies: WriteDevice does not change calls of which no copy has started.
func TestWriteDeviceStartsCopies(t *testing.T) {
	var sender *gputest.Device
	first := true
	replaceDevice(t, func(int) (gpu.Device, error) {
		d := &gputest.Device{}
		if first {
			sender = d
		}
		return d.Open()
	})
	a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "4KiB"},
		map[string]string{"send-memory": "device"}, func() { first = false })
	payload := make([]byte, 60<<10)
	fill(payload, 1)
	require.NoError(t, a.worker.ReserveDevice(1, len(payload)))
	require.NoError(t, a.worker.WriteDevice(1, payload))
	sender.Hold(true)
	op := transport.Op{Kind: transport.OpCall, DeviceSlot: 1}
	n, err := a.worker.Post([]transport.Op{op, op})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.False(t, a.worker.peers.Get(0).copies.waiting.Empty(), "more copies than can be "+
		"under way")
	sender.Hold(false)
	require.NoError(t, a.worker.WriteDevice(1, make([]byte, len(payload))))
	require.NoError(t, a.worker.Flush())
	for got := 0; got < 2; {
		b.await(t, a)
		n := 1
		for n < len(b.events) && b.events[n].Size > 0 {
			n++
		}
		for _, e := range b.events[:n] {
			copied := make([]byte, e.Size)
			_, err := b.worker.ReadDevice(0, e.DeviceOffset, copied)
			require.NoError(t, err)
			require.Equal(t, payload, copied)
		}
		got += n
		clear(b.events)
	}
}
