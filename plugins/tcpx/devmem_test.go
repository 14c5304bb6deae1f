package tcpx

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
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
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Kill: closeSockets,
		MaxPayload: 20000,
		Options:    map[string]string{"mode": "devmem", "chunk": "16KiB", "sockets": "2"}})
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

// sendingNIC plays a NIC that sends from the dmabufs of fake GPUs. Like one, the kernel sends from
// their memory itself and does not copy it when it is posted.
type sendingNIC struct {
	t       *testing.T
	mu      sync.Mutex
	dmabufs [][]byte // by ID, from 1
	bytes   int
	failing error
}

// newSendingNIC makes mode devmem send with a fake NIC.
func newSendingNIC(t *testing.T) *sendingNIC {
	overPlainTCP(t) // restores the hooks
	fakeGPUs(t)
	n := &sendingNIC{t: t}
	bounce.Hooks.BindTX = func(_ *devmem.Binding, descriptor int) (uint32, error) {
		var file unix.Stat_t
		require.NoError(t, unix.Fstat(descriptor, &file))
		memory, err := unix.Mmap(descriptor, 0, int(file.Size), unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Munmap(memory) })
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dmabufs = append(n.dmabufs, memory[gputest.ExportedAt:])
		return uint32(len(n.dmabufs)), nil
	}
	bounce.Hooks.Transmitter = func() sock.DeviceSender { return n }
	return n
}

// Send implements [sock.DeviceSender].
func (n *sendingNIC) Send(socket int, dmabuf uint32, offset uint64, size int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing != nil {
		return 0, n.failing
	}
	sent, err := unix.SendmsgBuffers(socket, [][]byte{n.dmabufs[dmabuf-1][offset:][:size]}, nil,
		nil, unix.MSG_ZEROCOPY|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err == unix.EAGAIN || err == unix.EINTR {
		return 0, nil
	}
	n.bytes += max(sent, 0)
	return max(sent, 0), err
}

var sendingOptions = map[string]string{"mode": "devmem", "unpack": "kernel", "interface": "lo",
	"send-memory": "device", "chunk": "16KiB"}

// TestConformanceOfSendingNIC runs the suite with payloads in the GPU's memory.
func TestConformanceOfSendingNIC(t *testing.T) {
	newSendingNIC(t)
	skip := map[string]string{}
	for _, clause := range []string{"alloc/small", "alloc/large"} {
		skip[clause] = "the fake NIC and GPU allocate"
	}
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Kill: closeSockets,
		MaxPayload: 5000, Timeout: time.Minute, Options: sendingOptions, Skip: skip})
}

// TestSendsFromDmabuf: the NIC sends all but the first bytes of a payload from the GPU's memory,
// which the GPU does not copy. A call keeps its bytes until the peer has them.
func TestSendsFromDmabuf(t *testing.T) {
	nic := newSendingNIC(t)
	a, b := pairOf(t, sendingOptions, nil)
	require.True(t, a.endpoint.Properties().Capabilities.DeviceSend)
	require.Equal(t, "device", a.endpoint.Properties().Notes["send_memory"])
	b.post(t, []byte("connect")) // b's calls need no device
	a.await(t, b)

	payload := make([]byte, 12<<10)
	require.NoError(t, a.worker.ReserveDevice(2, len(payload)))
	require.Len(t, nic.dmabufs, 1)
	const calls = 8
	for i := range uint64(calls) {
		fill(payload, i)
		require.NoError(t, a.worker.WriteDevice(2, payload))
		n, err := a.worker.Post([]transport.Op{{Kind: transport.OpCall, Token: transport.Token(i),
			DeviceSlot: 2, Payload: payload[:testHead]}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		if i%3 == 2 {
			require.NoError(t, a.worker.Flush())
		}
	}
	require.NoError(t, a.worker.Flush())
	require.Greater(t, len(nic.dmabufs), 1, "calls in flight hold the slot's first place")
	got := make([]byte, len(payload))
	for i := uint64(0); i < calls; {
		_, err := a.worker.Poll(a.events)
		require.NoError(t, err)
		n, err := b.worker.Poll(b.events)
		require.NoError(t, err)
		for _, e := range b.events[:n] {
			fill(payload, i)
			require.Equal(t, len(payload), e.Size)
			require.Equal(t, payload[:testHead], e.Payload)
			valid, err := b.worker.ReadDevice(0, e.DeviceOffset, got)
			require.NoError(t, err)
			require.True(t, valid)
			require.True(t, bytes.Equal(payload, got), "call %d", i)
			i++
		}
	}
	require.Equal(t, calls*(len(payload)-testHead), nic.bytes)
	values := map[string]uint64{}
	for _, s := range a.worker.ReadStats(nil) {
		values[s.Name] = s.Value
	}
	require.Zero(t, values["gpu_send_copies"])
	require.Equal(t, uint64(2), values["gpu_streams_made"])

	// The place is free once the peer has the bytes.
	places := len(a.worker.source.places)
	require.Eventually(t, func() bool {
		_, _ = a.worker.Poll(a.events)
		return !a.worker.sendsFrom(&a.worker.source.places[1])
	}, time.Minute, time.Millisecond)
	require.NoError(t, a.worker.WriteDevice(2, payload))
	require.Len(t, a.worker.source.places, places)
}

// TestFailingSendIsReported: a send without memory is tried again, and the kernel's refusal is an
// error of this side.
func TestFailingSendIsReported(t *testing.T) {
	nic := newSendingNIC(t)
	nic.failing = unix.ENOBUFS
	a, b := pairOf(t, sendingOptions, nil)
	require.NoError(t, a.worker.ReserveDevice(1, 5000))
	require.NoError(t, a.worker.WriteDevice(1, make([]byte, 5000)))
	post := func() {
		_, err := a.worker.Post([]transport.Op{{Kind: transport.OpCall, DeviceSlot: 1}})
		require.NoError(t, err)
		require.NoError(t, a.worker.Flush())
	}
	post()
	require.Eventually(t, func() bool {
		_, errA := a.worker.Poll(a.events)
		_, errB := b.worker.Poll(b.events)
		require.NoError(t, errors.Join(errA, errB))
		return a.worker.counters.Calls[sock.NoBuffers] > 0
	}, time.Minute, time.Microsecond)
	nic.failing = nil
	require.Equal(t, 5000, b.await(t, a).Size)

	nic.failing = unix.ENODEV // the route goes through another interface
	post()
	_, err := a.poll(t, b)
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "mode devmem: sending from a dmabuf: no such device")
}

// TestAutoSendsThroughTheHost: if the NIC cannot send from a dmabuf, mode auto copies to the host
// and reports why.
func TestAutoSendsThroughTheHost(t *testing.T) {
	newSendingNIC(t)
	bounce.Hooks.CheckNIC = func(s *bounce.Setup, _ *bounce.GPU) error {
		require.True(t, s.DeviceSend)
		return transport.Unavailable("mode devmem: sending: Linux 6.15.0")
	}
	a, _ := pairOf(t, map[string]string{"mode": "auto", "unpack": "kernel",
		"send-memory": "device"}, nil)
	require.Equal(t, "gpu", a.endpoint.Properties().Provider)
	require.Equal(t, "gpu; unavailable: mode devmem: sending: Linux 6.15.0",
		a.endpoint.Properties().Notes["auto"])
	require.True(t, a.worker.source.copies())
}
