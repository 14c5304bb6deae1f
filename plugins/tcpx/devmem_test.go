package tcpx

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/devmem"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

// failingMemory is bounce memory whose NIC fails.
type failingMemory struct {
	bounce.Allocator
	failing bool
}

func (m *failingMemory) Receive(fd, want int, last bounce.Fragment, more []bounce.Fragment) (uint32,
	int, error) {
	if !m.failing {
		return m.Allocator.Receive(fd, want, last, more)
	}
	return 0, 0, transport.Unavailable("mode devmem: %w", devmem.ErrTokens)
}

// TestOwnFailuresAreReported: Poll returns an error of this side's hardware before it
// reports the peer as lost.
func TestOwnFailuresAreReported(t *testing.T) {
	lost := func(t *testing.T, a, b *side, words string) {
		b.post(t, []byte("payload"))
		_, err := a.poll(t, b)
		require.ErrorIs(t, err, transport.ErrUnavailable)
		require.ErrorContains(t, err, words)
		require.Equal(t, transport.EventPeerLost, a.await(t, b).Kind)
	}
	t.Run("NIC", func(t *testing.T) {
		overPlainTCP(t)
		var first *failingMemory
		before := openMemory
		t.Cleanup(func() { openMemory = before })
		openMemory = func(s *bounce.Setup) (bounce.Allocator, *bounce.Slots, error) {
			memory, unpacker, err := before(s)
			f := &failingMemory{Allocator: memory}
			if first == nil {
				first = f
			}
			return f, unpacker, err
		}
		a, b := pairOf(t, map[string]string{"mode": "devmem"}, nil)
		b.post(t, []byte("payload"))
		a.await(t, b)
		first.failing = true
		lost(t, a, b,
			"tcpx: poll peer 0: unavailable: mode devmem: the kernel took back fewer pieces")
	})
	t.Run("GPU", func(t *testing.T) {
		var first *gputest.Device // opened for the first worker, after one that only looks
		opened := 0
		replaceDevice(t, func(int) (gpu.Device, error) {
			d := &gputest.Device{}
			if opened++; opened == 2 {
				first = d
			}
			return d.Open()
		})
		a, b := pairOf(t, map[string]string{"mode": "gpu"}, nil)
		b.post(t, []byte("payload"))
		a.await(t, b)
		first.Fail("Launch")
		lost(t, a, b, "tcpx: poll peer 0: unavailable: mode gpu: fails deliberately: Launch")
		first.Fail("")
	})
}

// overPlainTCP runs mode devmem without a binding: all bytes come as those of a flow that is
// steered to another queue.
func overPlainTCP(t *testing.T) {
	bound := bounce.Hooks
	t.Cleanup(func() { bounce.Hooks = bound })
	bounce.Hooks.CheckNIC = func(*bounce.Setup, *bounce.GPU) error { return nil }
	bounce.Hooks.OpenNIC = func(o devmem.Options) (*devmem.Binding, error) {
		if o.Export != nil {
			descriptor, err := o.Export(o.Size, o.Extra)
			require.NoError(t, err)
			require.NoError(t, unix.Close(descriptor))
		}
		return &devmem.Binding{ID: 7, Memory: make([]byte, o.Size+o.Extra)}, nil
	}
}

// TestConformanceOverDmabuf runs the suite with the allocator of mode devmem and no binding:
// recvmsg is the real one.
func TestConformanceOverDmabuf(t *testing.T) {
	overPlainTCP(t)
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Kill: kill, MaxPayload: 20000,
		Options: map[string]string{"mode": "devmem", "chunk": "16KiB", "sockets": "2"}})
}

// TestDmabufOfGPU: bytes that the NIC did not put into the GPU's memory are unpacked from there,
// too.
func TestDmabufOfGPU(t *testing.T) {
	overPlainTCP(t)
	fakeGPUs(t)
	a, b := pairOf(t, map[string]string{"mode": "devmem", "unpack": "kernel",
		"dmabuf-memory": "device"}, nil)
	require.Equal(t, "device", b.endpoint.Properties().Notes["dmabuf_memory"])
	a.post(t, []byte("payload"))
	e := b.await(t, a)
	require.Equal(t, "payl", string(e.Payload))
	got := make([]byte, 7)
	require.NoError(t, b.worker.unpacker.Unpacker.(bounce.Reader).Read(got, b.destination(t, 7)))
	require.Equal(t, "payload", string(got))
}
