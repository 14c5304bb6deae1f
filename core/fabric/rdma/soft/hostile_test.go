package soft

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
)

// hostilePair returns two connected queue pairs of two devices, and a region of the second
// device.
func hostilePair(t testing.TB, kind rdma.QueuePairType) (a, b *queuePair,
	remote rdma.RemoteRegion) {
	var pairs [2]*queuePair
	for i := range pairs {
		d, err := Open("")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		cq, err := d.NewCompletionQueue(64)
		require.NoError(t, err)
		qp, err := d.NewQueuePair(rdma.QueuePairConfig{Type: kind, Completions: cq, SendDepth: 8,
			ReceiveDepth: 8, MaxInline: 64, Peers: 2})
		require.NoError(t, err)
		region, err := d.Allocate(4096, rdma.RemoteWrite)
		require.NoError(t, err)
		receive := rdma.ReceiveRequest{Local: region.Address, Length: 512,
			LocalKey: region.LocalKey}
		for range 8 {
			_, err = qp.PostReceive([]rdma.ReceiveRequest{receive})
			require.NoError(t, err)
		}
		pairs[i], remote = qp.(*queuePair), region.Remote
	}
	if kind == rdma.ReliableConnected {
		require.NoError(t, pairs[0].Connect(pairs[1].Endpoint(), rdma.ConnectOptions{}))
		require.NoError(t, pairs[1].Connect(pairs[0].Endpoint(), rdma.ConnectOptions{}))
	} else {
		_, err := pairs[0].AddPeer(pairs[1].Endpoint())
		require.NoError(t, err)
	}
	return pairs[0], pairs[1], remote
}

// FuzzHostileWire lets a sender write anything to its peer's wire and its own directory.
// The peer must not fault, and nothing may be written outside of its registered memory.
func FuzzHostileWire(f *testing.F) {
	slot := make([]byte, 64)
	binary.LittleEndian.PutUint64(slot, packSlot(1, rdma.WriteWithImmediate, 0, slotLong))
	binary.LittleEndian.PutUint32(slot[slotLength:], 1<<31)
	f.Add(false, uint16(wireSlots), slot)
	f.Add(false, uint16(wireHead), []byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Add(true, uint16(wireClaim), []byte{255, 255, 255})
	f.Add(true, uint16(wireHeaderSize), []byte{1, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, datagrams bool, at uint16, scribble []byte) {
		kind, opcode := rdma.ReliableConnected, rdma.WriteWithImmediate
		if datagrams {
			kind, opcode = rdma.UnreliableDatagram, rdma.Send
		}
		a, b, remote := hostilePair(t, kind)
		request := []rdma.SendRequest{{Opcode: opcode, Flags: rdma.Signaled | rdma.Inline,
			Remote:    remote.Address,
			RemoteKey: remote.Key}}
		completions := make([]rdma.Completion, 4)
		for range 4 {
			_, _ = a.PostSend(request)
			wire := b.segment.Bytes()
			copy(wire[min(int(at), len(wire)-1):], scribble)
			copy(a.device.directory.Bytes()[directoryEntries:], scribble)
			n, err := b.cq.Poll(completions)
			require.NoError(t, err)
			require.LessOrEqual(t, n, len(completions))
			_, _ = b.PostSend(request)
			_, _ = a.cq.Poll(completions)
		}
	})
}

func TestForgedEndpoints(t *testing.T) {
	a, b, _ := hostilePair(t, rdma.ReliableConnected)
	qp, err := a.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
		Completions: a.cq,
		SendDepth:   8, ReceiveDepth: 8})
	require.NoError(t, err)
	for name, forge := range map[string]func(*rdma.SoftEndpoint){
		"another host":        func(e *rdma.SoftEndpoint) { e.Boot = "x" },
		"another device":      func(e *rdma.SoftEndpoint) { e.Device++ },
		"another wire":        func(e *rdma.SoftEndpoint) { e.Nonce++ },
		"not a wire":          func(e *rdma.SoftEndpoint) { e.Wire = e.Directory },
		"not a directory":     func(e *rdma.SoftEndpoint) { e.Device++; e.Directory = e.Wire },
		"a terminal":          func(e *rdma.SoftEndpoint) { e.Wire.FD = int(os.Stderr.Fd()) },
		"a dead process":      func(e *rdma.SoftEndpoint) { e.Device++; e.Directory.PID = 1 << 22 },
		"size":                func(e *rdma.SoftEndpoint) { e.Wire.Size = -1 },
		"connected elsewhere": func(*rdma.SoftEndpoint) {},
		"a path": func(e *rdma.SoftEndpoint) {
			e.Wire = shm.Ref{Name: "../etc/passwd",
				Size: 1}
		},
	} {
		e := b.Endpoint()
		forged := *e.Soft
		e.Soft = &forged
		forge(e.Soft)
		require.ErrorIs(t, qp.Connect(e, rdma.ConnectOptions{}), rdma.ErrPeer, name)
	}
	b2, err := b.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
		Completions: b.cq,
		SendDepth:   16, ReceiveDepth: 8})
	require.NoError(t, err)
	require.ErrorContains(t, qp.Connect(b2.Endpoint(), rdma.ConnectOptions{}),
		"the soft device needs the same depth")
	b3, err := b.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
		Completions: b.cq,
		SendDepth:   8, ReceiveDepth: 8})
	require.NoError(t, err)
	require.NoError(t, qp.Connect(b3.Endpoint(), rdma.ConnectOptions{}))
}
